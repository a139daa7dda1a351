import Faults

/// A line of the control socket: the grammar of `.docsfs/control`, and what only the socket has.
enum ControlRequest: Equatable, Sendable {
  case status(path: [UInt8]?)
  case acceptDeletes
  /// `force`: who uses it is cut off.
  case unmount(force: Bool)
  /// What reading `.docsfs/control` gives, for when the mount hangs.
  case rules
  /// The lines of `.docsfs/log` from that byte on, as many as one answer holds.
  case log(from: Int)
  case control(ControlStatement)

  private static let own = ["status", "accept-deletes", "unmount", "rules", "log"]

  init(_ command: ControlCommand) { self = .control(.of(command)) }

  /// nil: an empty line or a comment.
  init?(_ line: [UInt8]) throws(ControlError) {
    // The words of a line that is none of these are the grammar's to judge.
    let words = (try? ControlLine.words(line)) ?? []
    guard let verb = words.first, verb.key == nil, Self.own.contains(verb.text) else {
      guard let statement = try Self.statement(line) else { return nil }
      self = .control(statement)
      return
    }
    self = try Self.own(verb.text, words.dropFirst())
  }

  private static func statement(_ line: [UInt8]) throws(ControlError) -> ControlStatement? {
    var input = ControlInput()
    input.append(line)
    return try input.finish()
  }

  private static func own(_ verb: String, _ rest: ArraySlice<ControlWord>) throws(ControlError) -> ControlRequest {
    func refuse(_ word: ControlWord) -> ControlError {
      let text = word.key.map { "\($0)=" } ?? word.text
      return ControlPlace(column: word.column).error("\(text) is not wanted behind \(verb)")
    }
    if let extra = rest.dropFirst().first { throw refuse(extra) }
    guard let word = rest.first else { return alone[verb] ?? .status(path: nil) }
    switch (verb, word.key, word.text) {
    case ("status", nil, _): return .status(path: word.value)
    case ("unmount", "force", "0"), ("unmount", "force", "1"): return .unmount(force: word.text == "1")
    case ("log", "from", let text):
      guard let place = Int(text), place >= 0 else { throw refuse(word) }
      return .log(from: place)
    default: throw refuse(word)
    }
  }

  private static let alone: [String: ControlRequest] = [
    "accept-deletes": .acceptDeletes, "unmount": .unmount(force: false), "rules": .rules, "log": .log(from: 0),
  ]

  /// The line that `init` reads.
  var line: String {
    switch self {
    case .status(let path): path.map { "status \(ControlLine.quoted($0))" } ?? "status"
    case .acceptDeletes: "accept-deletes"
    case .unmount(let force): force ? "unmount force=1" : "unmount"
    case .rules: "rules"
    case .log(let place): "log from=\(place)"
    case .control(let statement): statement.command.text
    }
  }
}
