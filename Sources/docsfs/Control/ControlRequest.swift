import Containers
import Faults

/// A line of the control socket.
enum ControlRequest: Equatable, Sendable {
  case status(path: [UInt8]?)
  case evict([UInt8], recursive: Bool)
  case materialize([UInt8], recursive: Bool)
  case pin([UInt8], Bool)
  case refresh([UInt8])
  case pause
  case resume
  /// `timeout` in seconds; nil: as long as it takes.
  case waitUntilIdle(timeout: Double?)
  case acceptDeletes
  /// `force`: who uses it is cut off.
  case unmount(force: Bool)

  static let verbs = [
    "status", "evict", "materialize", "pin", "unpin", "refresh", "pause", "resume", "wait", "accept-deletes",
    "unmount",
  ]

  /// nil: an empty line or a comment.
  init?(_ line: [UInt8]) throws(ControlSyntaxError) {
    let words = try ControlLine.words(line)
    guard let first = words.first else { return nil }
    guard first.key == nil, Self.verbs.contains(first.text) else {
      throw ControlSyntaxError(
        column: first.column,
        "unknown command \(first.key ?? first.text)"
          + suggestion(for: first.key ?? first.text, among: Self.verbs))
    }
    var rest = Words(words.dropFirst(), after: first)
    self = try Self.parse(first.text, &rest)
    try rest.end()
  }

  private static func parse(_ verb: String, _ rest: inout Words) throws(ControlSyntaxError) -> ControlRequest {
    switch verb {
    case "status": return .status(path: rest.optionalPath())
    case "evict": return .evict(try rest.path(), recursive: try rest.flag("recursive"))
    case "materialize": return .materialize(try rest.path(), recursive: try rest.flag("recursive"))
    case "pin": return .pin(try rest.path(), true)
    case "unpin": return .pin(try rest.path(), false)
    case "refresh": return .refresh(try rest.path())
    case "pause": return .pause
    case "resume": return .resume
    case "wait":
      try rest.word("idle")
      return .waitUntilIdle(timeout: try rest.seconds("timeout"))
    case "accept-deletes": return .acceptDeletes
    default: return .unmount(force: try rest.flag("force"))
    }
  }

  /// The line that `init` reads.
  var line: String {
    func on(_ verb: String, _ path: [UInt8], _ recursive: Bool = false) -> String {
      "\(verb) \(ControlLine.quoted(path))" + (recursive ? " recursive=1" : "")
    }
    return switch self {
    case .status(let path): path.map { on("status", $0) } ?? "status"
    case .evict(let path, let recursive): on("evict", path, recursive)
    case .materialize(let path, let recursive): on("materialize", path, recursive)
    case .pin(let path, let pinned): on(pinned ? "pin" : "unpin", path)
    case .refresh(let path): on("refresh", path)
    case .pause: "pause"
    case .resume: "resume"
    case .waitUntilIdle(let timeout): "wait idle" + (timeout.map { " timeout=\($0)s" } ?? "")
    case .acceptDeletes: "accept-deletes"
    case .unmount(let force): force ? "unmount force=1" : "unmount"
    }
  }
}

/// The words behind the verb, taken one by one.
private struct Words {
  private var words: [ControlWord]
  private let endColumn: Int

  init(_ words: ArraySlice<ControlWord>, after verb: ControlWord) {
    self.words = Array(words)
    endColumn = verb.column + verb.value.count
  }

  mutating func optionalPath() -> [UInt8]? {
    guard let index = words.firstIndex(where: { $0.key == nil }) else { return nil }
    return words.remove(at: index).value
  }

  mutating func path() throws(ControlSyntaxError) -> [UInt8] {
    if let path = optionalPath() { return path }
    throw ControlSyntaxError(column: endColumn, "a path is missing; quote one that holds =")
  }

  mutating func word(_ text: String) throws(ControlSyntaxError) {
    guard let first = words.first, first.key == nil, first.text == text else {
      throw ControlSyntaxError(column: words.first?.column ?? endColumn, "\(text) is missing here")
    }
    words.removeFirst()
  }

  mutating func flag(_ key: String) throws(ControlSyntaxError) -> Bool {
    guard let word = take(key) else { return false }
    switch word.text {
    case "1", "true", "yes": return true
    case "0", "false", "no": return false
    default: throw ControlSyntaxError(column: word.column, "\(key)= is 0 or 1, not \(word.text)")
    }
  }

  mutating func seconds(_ key: String) throws(ControlSyntaxError) -> Double? {
    guard let word = take(key) else { return nil }
    if let seconds = Quantity.seconds(word.text) { return seconds }
    throw ControlSyntaxError(column: word.column, "\(key)=\(word.text) is no time; write 30s, 500ms, 2m")
  }

  private mutating func take(_ key: String) -> ControlWord? {
    words.firstIndex { $0.key == key }.map { words.remove(at: $0) }
  }

  func end() throws(ControlSyntaxError) {
    guard let word = words.first else { return }
    let text = word.key.map { "\($0)=" } ?? word.text
    throw ControlSyntaxError(column: word.column, "\(text) is not wanted here")
  }
}
