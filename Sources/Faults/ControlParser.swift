import StorageErrors

extension ControlStatement {
  /// One whole command, as a line or as a JSON object; nil for an empty line or a comment. `place` is where `text` begins.
  package init?(_ text: some Sequence<UInt8>, at place: ControlPlace = ControlPlace()) throws(ControlError) {
    let text = Array(text)
    if let first = text.first(where: { ![0x20, 0x09, 0x0a, 0x0d].contains($0) }), first == UInt8(ascii: "{") {
      let value = try JSONReader.value(text, at: place)
      self = ControlStatement(command: try ControlCommand(json: value), place: value.place)
      return
    }
    guard let phrase = try ControlPhrase(line: text, number: place.line, column: place.column) else { return nil }
    self = ControlStatement(command: try ControlCommand(phrase), place: phrase.place)
  }
}

extension ControlCommand {
  package init(_ phrase: ControlPhrase) throws(ControlError) {
    var rest = phrase.arguments
    guard Self.verbs.contains(phrase.verb) else {
      let isJSON = phrase.verb == "replace"
      throw phrase.place.error(
        isJSON
          ? "replace is written as JSON: {\"replace\":[{\"op\":\"read\",\"errno\":\"EIO\"}],\"seed\":42}"
          : "unknown command \(phrase.verb)\(suggestion(for: phrase.verb, among: Self.verbs))")
    }
    var known: [String] = []
    switch phrase.verb {
    case "add": self = .add(try FaultRule(rest.takeAll(), at: phrase.place))
    case "set": self = try Self.set(&rest)
    case "del": self = .del(try Self.id(&rest))
    case "clear": self = .clear
    case "disconnect": (self, known) = (try Self.disconnect(&rest), ["profile", "for"])
    case "reconnect": self = .reconnect
    case "cloud": self = .cloud(try CloudChange(&rest, at: phrase.place))
    case "seed": self = .seed(try Self.seed(&rest))
    case "mark": self = .mark(try Self.mark(&rest))
    case "wait":
      (self, known) = (try Self.wait(&rest), ["id", "idle", "timeout"] + FaultCounter.allCases.map(\.rawValue))
    case "evict": (self, known) = (.evict(try rest.path(), recursive: try rest.flag("recursive")), ["recursive"])
    case "materialize":
      (self, known) = (.materialize(try rest.path(), recursive: try rest.flag("recursive")), ["recursive"])
    case "pin": self = .pin(try rest.path(), true)
    case "unpin": self = .pin(try rest.path(), false)
    case "refresh": self = .refresh(try rest.path())
    case "pause": self = .pause
    default: self = .resume
    }
    try rest.end(known)
  }

  private static func set(_ rest: inout ControlArguments) throws(ControlError) -> ControlCommand {
    if let record = rest.take("record") { return .record(try record.flag()) }
    let id = try id(&rest)
    let changes = rest.takeAll()
    guard !changes.isEmpty else { throw rest.missing("set wants keys to change, as in set \(id) times=3") }
    // Each key is tried on an empty rule, so that what is wrong by itself is refused here, with its place.
    var trial = FaultRule()
    for change in changes { try trial.change(change) }
    return .change(FaultChange(id: id, attributes: changes.map { $0.named() }))
  }

  /// A bare word, or `id=`.
  private static func id(_ rest: inout ControlArguments) throws(ControlError) -> String {
    guard let id = rest.take("id") ?? rest.word() else { throw rest.missing("a rule's id is missing") }
    return try id.ruleID()
  }

  private static func disconnect(_ rest: inout ControlArguments) throws(ControlError) -> ControlCommand {
    var profile = LinkProfile.cloud
    if let name = rest.take("profile") ?? rest.word() {
      guard let known = LinkProfile(name: name.text) else { throw name.error(LinkProfile.unknown(name.text)) }
      profile = known
    }
    let duration = try rest.take("for")?.nonzeroDuration()
    return .disconnect(profile, duration: duration)
  }

  private static func seed(_ rest: inout ControlArguments) throws(ControlError) -> UInt64 {
    guard let word = rest.word() else { throw rest.missing("seed wants a number") }
    guard let seed = UInt64(word.text), word.text.first != "+" else {
      throw word.error("\(word.text) is no seed; it is a whole number from 0 to \(UInt64.max)")
    }
    return seed
  }

  private static func mark(_ rest: inout ControlArguments) throws(ControlError) -> String {
    let words = rest.takeAll()
    guard !words.isEmpty else { throw rest.missing("mark wants a text") }
    return words.map { $0.key.isEmpty ? $0.text : "\($0.key)=\($0.text)" }.joined(separator: " ")
  }

  private static func wait(_ rest: inout ControlArguments) throws(ControlError) -> ControlCommand {
    let timeout = try rest.duration("timeout")
    if let idle = rest.take("idle") {
      guard try idle.flag() else { throw idle.error("wait idle, or wait for a rule: wait id=r1 fired=1") }
      return .wait(.idle, timeout: timeout)
    }
    if let word = rest.word() {
      guard word.text == "idle" else {
        throw word.error("\(word.text) is not wanted here; wait idle, or wait id=r1 fired=1")
      }
      return .wait(.idle, timeout: timeout)
    }
    guard let id = rest.take("id") else { throw rest.missing("wait idle, or wait for a rule: wait id=r1 fired=1") }
    for counter in FaultCounter.allCases {
      guard let count = rest.take(counter.rawValue) else { continue }
      return .wait(.rule(id: try id.ruleID(), counter, atLeast: try count.count(1...Int.max)), timeout: timeout)
    }
    throw rest.missing("what of the rule is waited for: fired=1, matched=1 or visible=1")
  }
}

extension ControlCommand {
  /// `{"VERB": ARGUMENTS}`, or `{"replace": [RULES], "seed": N}`.
  init(json: JSONValue) throws(ControlError) {
    guard case .object(let members) = json.content, let first = members.first else {
      throw json.place.error("a command is missing, as in {\"clear\":true}")
    }
    if let replace = members.first(where: { $0.key == "replace" }) {
      self = try Self.replace(replace.value, members)
      return
    }
    guard members.count == 1 else {
      throw members[1].value.place.error("\(members[1].key): an object is one command, {\"\(first.key)\": {…}}")
    }
    guard Self.verbs.contains(first.key) else {
      throw json.place.error(
        "unknown command \(first.key)\(suggestion(for: first.key, among: Self.verbs + ["replace"]))")
    }
    let arguments = try ControlArguments(try first.value.attributes(), end: first.value.place)
    try self.init(ControlPhrase(verb: first.key, place: json.place, arguments: arguments))
  }

  private static func replace(
    _ list: JSONValue, _ members: [JSONMember]
  ) throws(ControlError) -> ControlCommand {
    guard case .array(let values) = list.content else { throw list.place.error("replace wants a list of rules in [ ]") }
    var rules: [FaultRule] = []
    for value in values { rules.append(try rule(value)) }
    var seed: UInt64?
    for member in members where member.key != "replace" {
      guard member.key == "seed" else {
        throw member.value.place.error("beside replace there is only seed, not \(member.key)")
      }
      var words = try ControlArguments(try member.value.attributes(), end: member.value.place)
      seed = try Self.seed(&words)
    }
    return .replace(rules, seed: seed)
  }

  /// An object of a rule's keys, or its line as a text.
  private static func rule(_ value: JSONValue) throws(ControlError) -> FaultRule {
    guard case .string(let line) = value.content else {
      return try FaultRule(try ControlArguments(try value.attributes(), end: value.place).rest, at: value.place)
    }
    do {
      if case .add(let rule)? = try ControlStatement(line)?.command { return rule }
    } catch {
      throw value.place.error("in this rule, \(error)")
    }
    throw value.place.error("this is no rule; write \"add op=read errno=EIO\"")
  }
}

extension FaultRule {
  /// As `set ID` does: an empty value takes the key away.
  mutating func change(_ attribute: ControlAttribute) throws(ControlError) {
    let attribute = attribute.named()
    guard attribute.key != "id" else { throw attribute.error("a rule keeps its id") }
    if attribute.value.isEmpty { try remove(attribute) } else { try set(attribute) }
  }
}

extension ControlAttribute {
  func nonzeroDuration() throws(ControlError) -> UInt64 {
    let nanoseconds = try duration()
    guard nanoseconds > 0 else { throw error("\(key)=\(text) is over before it begins") }
    return nanoseconds
  }
}
