import CLinux
import Faults
import Synchronization

/// Lines for the operator: what happened, in a few words that stay the same, and beside it what differs, as fields.
///
///     Log.warning("upload failed", ["path": path, "error": error.message])
///
/// Standard error gets `time=… level=warning msg="upload failed" path=/a error="…"` (logfmt), or, where it is the
/// journal, `<4>upload failed path=/a error="…"`, which journald takes apart (sd-daemon(3)). Never a secret, at any level.
/// No call waits for whoever reads the lines: one that finds no room is dropped, and counted.
package enum Log {
  /// By syslog's numbers: what is above the chosen one is left out.
  package enum Level: UInt8, CaseIterable, Sendable {
    case error = 3
    case warning = 4
    case info = 6
    case debug = 7

    package var name: String { "\(self)" }
    package init?(name: String) {
      guard let level = Self.allCases.first(where: { $0.name == name }) else { return nil }
      self = level
    }
  }
  package typealias Fields = KeyValuePairs<String, any CustomStringConvertible>

  private static let chosen = Atomic<UInt8>(Level.info.rawValue)
  private static let output = Guarded(LogOutput())
  private static let counts = CounterTable(rows: Level.allCases.count, columns: 1)

  package static func error(_ message: String, _ fields: @autoclosure () -> Fields = [:]) {
    write(.error, message, fields)
  }
  package static func warning(_ message: String, _ fields: @autoclosure () -> Fields = [:]) {
    write(.warning, message, fields)
  }
  package static func info(_ message: String, _ fields: @autoclosure () -> Fields = [:]) {
    write(.info, message, fields)
  }
  /// Its fields are not even made while nobody wants them.
  package static func debug(_ message: String, _ fields: @autoclosure () -> Fields = [:]) {
    write(.debug, message, fields)
  }

  private static func write(_ level: Level, _ message: String, _ fields: () -> Fields) {
    guard level.rawValue <= chosen.load(ordering: .relaxed) else { return }
    counts.add(row: Level.allCases.firstIndex(of: level) ?? 0)
    let now = Timestamp.now()
    let fields = fields()
    output.withLock { $0.write(LogLine(level, now, message, fields)) }
  }

  package static func setLevel(_ level: Level) { chosen.store(level.rawValue, ordering: .relaxed) }

  /// To standard error, as whoever reads it wants it.
  package static func useStandardError() { output.withLock { $0.useStandardError() } }

  /// To `path`, which standard error leads to already. Above `limit` bytes it becomes `path.1`, of which there is one.
  package static func useFile(_ path: String, limit: Int64 = 4 << 20) {
    output.withLock { $0.useFile(path, limit: limit) }
  }

  /// Lines since the start, by level.
  package static func written(_ level: Level) -> UInt64 {
    counts.value(row: Level.allCases.firstIndex(of: level) ?? 0)
  }
  /// Lines that found no room.
  package static var dropped: UInt64 { output.withLock { $0.dropped } }
}

/// One line, before it has a form.
struct LogLine {
  /// What a pipe takes in one piece, PIPE_BUF: a longer line is cut.
  static let longest = 4096

  let level: Log.Level
  let time: Timestamp
  let message: String
  let fields: Log.Fields

  init(_ level: Log.Level, _ time: Timestamp, _ message: String, _ fields: Log.Fields) {
    self.level = level
    self.time = time
    self.message = message
    self.fields = fields
  }

  /// With its end, at most `longest` bytes.
  func bytes(forJournal: Bool) -> [UInt8] {
    let head =
      forJournal
      ? "<\(level.rawValue)>\(Self.escaped(message))"
      : "time=\(rfc3339(time.nanoseconds)) level=\(level.name) msg=\(Self.value(message))"
    let text = fields.reduce(head) { "\($0) \($1.key)=\(Self.value($1.value.description))" }
    var bytes = Array(text.utf8)
    if bytes.count >= Self.longest {
      let mark = Array("…".utf8)
      bytes.removeSubrange((Self.longest - 1 - mark.count)...)
      // No character is cut in two.
      while let last = bytes.last, last & 0xC0 == 0x80 { bytes.removeLast() }
      if let last = bytes.last, last >= 0xC0 { bytes.removeLast() }
      bytes += mark
    }
    return bytes + [0x0a]
  }

  /// As it is, or in quotes where it could not be told from what is around it.
  private static func value(_ text: String) -> String {
    let isPlain =
      !text.isEmpty && text.unicodeScalars.allSatisfy { $0.value > 0x20 && $0 != "=" && $0 != "\"" && $0 != "\\" }
    let escaped = escaped(text)
    return isPlain && escaped == text ? text : "\"\(escaped)\""
  }

  /// Nothing in it ends the line, a quotation, or changes a terminal.
  private static func escaped(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"", "\\": result += "\\\(scalar)"
      case "\n": result += "\\n"
      case "\t": result += "\\t"
      case _ where scalar.value < 0x20 || (0x7f..<0xa0).contains(scalar.value):
        let digits = String(scalar.value, radix: 16)
        result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result
  }
}
