import Foundation
import XCTest

@testable import Faults

/// docs/FAULTS.md tells what the code knows. `DOCSFS_WRITE_DOCS=1` writes its tables anew.
final class DocumentTests: FaultsTestCase {
  private static let place = URL(fileURLWithPath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .appendingPathComponent("docs/FAULTS.md")

  private static func table(_ heading: [String], _ rows: [[String]]) -> String {
    let lines = [heading, heading.map { _ in "---" }] + rows
    return lines.map { "| \($0.map { $0.replacingOccurrences(of: "|", with: "\\|") }.joined(separator: " | ")) |" }
      .joined(separator: "\n")
  }

  private static let tables: [(name: String, text: String)] = [
    ("keys", table(["", "key", ""], FaultKey.all.map { [$0.kind.rawValue, "`\($0.form)`", $0.help] })),
    (
      "operations",
      table(
        ["`op=`", ""],
        FaultOperationGroup.all.map {
          ["`\($0.name)`", $0.name == "*" ? $0.help : "\($0.help): \($0.operations.names)"]
        }
          + FaultOperation.allCases.map { ["`\($0.rawValue)`", $0.help] })
    ),
    (
      "profiles",
      table(
        ["profile"] + LinkColumn.allCases.map(\.rawValue) + ["old handle", "unsynced"],
        LinkProfile.all.map { profile in
          [profile.name] + LinkColumn.allCases.map { profile.cell($0).replacingOccurrences(of: ",", with: ", ") }
            + [profile.oldHandle?.name ?? "ok", profile.dropsUnsynced ? "dropped" : "kept"]
        })
    ),
    ("sources", table(["profile", "source"], LinkProfile.all.map { [$0.name, $0.source] })),
  ]

  func testTheTablesAreTheCodes() throws {
    var document = try String(contentsOf: Self.place, encoding: .utf8)
    let writes = ProcessInfo.processInfo.environment["DOCSFS_WRITE_DOCS"] == "1"
    for (name, text) in Self.tables {
      let begin = try XCTUnwrap(document.range(of: "<!-- \(name) -->\n"))
      let end = try XCTUnwrap(document.range(of: "<!-- /\(name) -->"))
      if writes {
        document.replaceSubrange(begin.upperBound..<end.lowerBound, with: text + "\n")
      } else {
        XCTAssertEqual(String(document[begin.upperBound..<end.lowerBound]), text + "\n", name)
      }
    }
    if writes { try document.write(to: Self.place, atomically: true, encoding: .utf8) }
  }

  func testEveryVerbIsTold() throws {
    let document = try String(contentsOf: Self.place, encoding: .utf8)
    for verb in ControlCommand.verbs + ["replace"] { XCTAssertTrue(document.contains("`\(verb)"), verb) }
    for key in CloudChange.keys { XCTAssertTrue(document.contains("`\(key)"), key) }
  }

  /// Every command that the document shows is one.
  func testExamplesAreCommands() throws {
    let document = try String(contentsOf: Self.place, encoding: .utf8)
    var count = 0
    for line in document.split(separator: "\n")
    where line.hasPrefix("{\"") || line.hasPrefix("add ") || line.hasPrefix("seed ") {
      XCTAssertNoThrow(try command(String(line)))
      count += 1
    }
    XCTAssertGreaterThanOrEqual(count, 5)
  }
}
