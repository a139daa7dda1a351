extension CloudChange {
  package static let keys = [
    "offline", "online", "latency", "rate", "status", "retry-after", "truncate", "corrupt", "quota", "auth", "op",
    "times",
    "for",
  ]
  private static let flags = ["offline", "online", "corrupt"]

  init(_ arguments: inout ControlArguments, at place: ControlPlace) throws(ControlError) {
    let attributes = arguments.takeAll().map { $0.named(Self.flags) }
    if let online = attributes.first(where: { $0.key == "online" }) {
      guard try online.flag(), attributes.count == 1 else {
        throw online.error("cloud online stands alone: it ends all conditions")
      }
      self = .online
      return
    }
    var conditions = CloudConditions()
    var duration: UInt64?
    for attribute in attributes {
      if attribute.key == "for" { duration = try attribute.nonzeroDuration() } else { try conditions.set(attribute) }
    }
    guard !conditions.isClear else {
      throw place.error("cloud wants a condition: \(Self.keys.dropLast(3).joined(separator: ", "))")
    }
    self = .conditions(conditions, duration: duration)
  }
}

extension CloudConditions {
  /// `change` on top of these: what it does not name stays.
  package mutating func add(_ change: CloudConditions) {
    // What is over is no part of what begins now.
    if isClear { self = CloudConditions() }
    offline = offline || change.offline
    latency = change.latency ?? latency
    rate = change.rate ?? rate
    status = change.status ?? status
    retryAfter = change.retryAfter ?? retryAfter
    truncate = change.truncate ?? truncate
    corrupt = corrupt || change.corrupt
    quota = change.quota ?? quota
    authExpired = authExpired || change.authExpired
    operations = change.operations ?? operations
    times = change.times.map { met + $0 } ?? times
  }

  /// As `cloud` writes them.
  package var attributes: [ControlAttribute] {
    var list: [ControlAttribute] = []
    func add(_ key: String, _ value: String?) { if let value { list.append(ControlAttribute(key, Array(value.utf8))) } }
    func time(_ nanoseconds: Int64?) -> String? { nanoseconds.map { Quantity.text(nanoseconds: UInt64(max(0, $0))) } }
    if offline { list.append(ControlAttribute("", Array("offline".utf8))) }
    add("latency", time(latency))
    add("rate", rate.map(Quantity.text(bytes:)))
    add("status", status.map(String.init))
    add("retry-after", time(retryAfter))
    add("truncate", truncate.map(Quantity.text(bytes:)))
    add("corrupt", corrupt ? "1" : nil)
    add("quota", quota.map(Quantity.text(bytes:)))
    add("auth", authExpired ? "expired" : nil)
    add("op", operations.map { set in CloudOperation.allCases.filter(set.contains).map(\.word).joined(separator: ",") })
    add("times", times.map(String.init))
    return list
  }

  fileprivate mutating func set(_ attribute: ControlAttribute) throws(ControlError) {
    guard !attribute.value.isEmpty else { throw attribute.error("\(attribute.key)= wants a value behind it") }
    switch attribute.key {
    case "offline": offline = try attribute.flag()
    case "latency": latency = Int64(try attribute.duration())
    case "rate":
      guard let rate = Quantity.rate(attribute.text) else {
        throw attribute.error("rate=\(attribute.text) is no rate; write 512KiB or 1MiB/s")
      }
      self.rate = rate
    case "status": status = try attribute.count(400...599)
    case "retry-after": retryAfter = Int64(try attribute.duration())
    case "truncate": truncate = try attribute.bytes(from: 0)
    case "corrupt": corrupt = try attribute.flag()
    case "quota": quota = try attribute.bytes(from: 0)
    case "auth":
      guard attribute.text == "expired" else { throw attribute.error("auth= is expired, not \(attribute.text)") }
      authExpired = true
    case "op": operations = try attribute.cloudOperations()
    case "times": times = try attribute.count(1...Int.max)
    case "" where CloudChange.keys.contains(attribute.text):
      throw attribute.error("\(attribute.text) wants a value: \(attribute.text)=…")
    default:
      let word = attribute.key.isEmpty ? attribute.text : attribute.key + "="
      let hint = suggestion(for: attribute.key.isEmpty ? attribute.text : attribute.key, among: CloudChange.keys)
      throw attribute.error("unknown condition \(word)\(hint)")
    }
  }
}

extension CloudOperation {
  /// As `op=` writes it: in lower case.
  package var word: String { rawValue.lowercased() }
}

extension ControlAttribute {
  fileprivate func cloudOperations() throws(ControlError) -> Set<CloudOperation> {
    var operations: Set<CloudOperation> = []
    for part in text.split(separator: ",", omittingEmptySubsequences: false) {
      guard let operation = CloudOperation.allCases.first(where: { $0.word == part.lowercased() }) else {
        throw error(
          "unknown request \(part)\(suggestion(for: part.lowercased(), among: CloudOperation.allCases.map(\.word)))")
      }
      operations.insert(operation)
    }
    return operations
  }
}
