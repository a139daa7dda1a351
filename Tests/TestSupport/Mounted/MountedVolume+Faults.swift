import CLinux
import Foundation
import StorageErrors

/// What was counted of a rule.
package struct RuleCounts: Equatable, CustomStringConvertible {
  package var matched: Int
  package var fired: Int
  package var visible: Int
  package init(matched: Int, fired: Int, visible: Int) {
    self.matched = matched
    self.fired = fired
    self.visible = visible
  }
  package var description: String { "matched=\(matched) fired=\(fired) visible=\(visible)" }
}

/// A line of `.docsfs/log`.
package struct LogLine {
  package let members: [String: Any]
  package subscript(_ key: String) -> String? {
    members[key].map { ($0 as? String) ?? "\($0)" }
  }
}

/// Faults, by way of `.docsfs`.
extension MountedVolume {
  package var controlFile: String { path(".docsfs/control") }

  /// Writes the commands with one write(2), which throws what the mount answers.
  package func control(_ commands: String...) throws(Errno) {
    let file = try OpenFile(controlFile, O_WRONLY)
    let text = commands.joined(separator: "\n") + "\n"
    try file.write(Array(text.utf8), at: 0)
    try file.close()
  }

  package func controlText() throws(Errno) -> String { try wholeText(".docsfs/control") }
  package func controlError() throws(Errno) -> String { try wholeText(".docsfs/error") }

  /// Control files have no size: they are read to their end.
  private func wholeText(_ name: String) throws(Errno) -> String {
    let file = try OpenFile(path(name), O_RDONLY)
    var bytes: [UInt8] = []
    while case let more = try file.read(65_536), !more.isEmpty { bytes += more }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// A number of `.docsfs/status.json`. Without a child process, whose end of what it inherited would be seen.
  package func shownNumber(_ key: String) throws -> Int {
    let tree = try JSONSerialization.jsonObject(with: Data(try wholeText(".docsfs/status.json").utf8))
    return (Self.find(key, in: tree) as? NSNumber)?.intValue ?? -1
  }

  package func counts(_ id: String) throws -> RuleCounts {
    for line in try controlText().split(separator: "\n") where line.hasPrefix("add id=\(id) ") {
      let comment = line.drop { $0 != "#" }
      func number(_ key: String) -> Int {
        comment.split(separator: " ").first { $0.hasPrefix(key + "=") }.flatMap { Int($0.dropFirst(key.count + 1)) }
          ?? -1
      }
      return RuleCounts(matched: number("matched"), fired: number("fired"), visible: number("visible"))
    }
    throw ProgramFailure(command: "no rule \(id)", outcome: Outcome(status: nil, output: [], errors: try controlText()))
  }

  package func log() throws -> [LogLine] {
    try wholeText(".docsfs/log").split(separator: "\n").map { line in
      LogLine(members: try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any] ?? [:])
    }
  }
}
