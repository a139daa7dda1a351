import DocumentMigration
import Foundation
import XCTest

@testable import docsfs

final class MigrateCommandTests: XCTestCase {
  /// `outcome`, or `failed:category`, for each document.
  private func exitCode(_ outcomes: [String], stopped: String? = nil) throws -> Int32 {
    let files = outcomes.enumerated().map { index, text -> [String: Any] in
      let words = text.split(separator: ":").map(String.init)
      var file: [String: Any] = [
        "path": "f\(index)", "kind": "file", "bytes": 1, "notes": [String](), "outcome": words[0],
      ]
      if words.count > 1 { file["category"] = words[1] }
      return file
    }
    var report: [String: Any] = ["files": files]
    report["stopped"] = stopped
    let data = try JSONSerialization.data(withJSONObject: report)
    return MigrateTrees.exitCode(try JSONDecoder().decode(MigrationReport.self, from: data))
  }

  func testExitCodes() throws {
    XCTAssertEqual(try exitCode([]), ExitCode.done)
    XCTAssertEqual(try exitCode(["moved", "alreadyThere", "skipped"]), ExitCode.done)
    XCTAssertEqual(try exitCode(["copied", "failed:exists"]), ExitCode.partly)
    XCTAssertEqual(try exitCode(["failed:exists"]), ExitCode.failed)
    XCTAssertEqual(try exitCode(["failed:disconnected", "failed:staleHandle"]), ExitCode.tryAgain)
    XCTAssertEqual(try exitCode(["failed:disconnected", "failed:exists"]), ExitCode.failed)
    XCTAssertEqual(try exitCode(["moved", "notTried"], stopped: "on request"), ExitCode.tryAgain)
    XCTAssertEqual(try exitCode(["moved", "failed:outOfSpace", "notTried"], stopped: "no room"), ExitCode.partly)
    XCTAssertEqual(try exitCode(["failed:outOfSpace", "notTried"], stopped: "no room"), ExitCode.failed)
  }

  func testBytesInNamesDoNotBreakALine() throws {
    let json =
      #"{"path":"a\nb","kind":"file","bytes":1,"notes":[],"outcome":"failed","reason":"is broken","advice":"mend it"}"#
    let report = try JSONDecoder().decode(FileReport.self, from: Data(json.utf8))
    XCTAssertEqual(PlanText.line(report), #"a\x0ab: is broken; mend it"#)
  }
}
