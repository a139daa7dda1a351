import Faults
import XCTest

@testable import docsfs

final class ControlLineTests: XCTestCase {
  private func words(_ text: String) throws -> [ControlWord] { try ControlLine.words(text.utf8) }

  func testWordsKeysAndColumns() throws {
    XCTAssertEqual(
      try words("evict a/b  recursive=1"),
      [
        ControlWord(column: 1, value: Array("evict".utf8)), ControlWord(column: 7, value: Array("a/b".utf8)),
        ControlWord(column: 12, key: "recursive", value: Array("1".utf8)),
      ])
  }

  func testQuotesKeepBlanksAndEqualsSigns() throws {
    XCTAssertEqual(try words(#"pin "a = b\"c\x0a""#)[1].value, Array("a = b\"c\n".utf8))
    XCTAssertNil(try words(#"pin "a=b""#)[1].key)
    XCTAssertEqual(try words("pin 'a\\b'")[1].value, Array("a\\b".utf8))
    XCTAssertEqual(
      try words(#"add path="a b""#)[1], ControlWord(column: 5, key: "path", value: Array("a b".utf8)))
    XCTAssertEqual(try words(#"pin """#)[1].value, [])
  }

  func testCommentsAndBlankLines() throws {
    XCTAssertEqual(try words("   # nothing"), [])
    XCTAssertEqual(try words("pause # for a moment").count, 1)
    XCTAssertEqual(try words("pin a#b")[1].text, "a#b")
  }

  func testMistakesSayWhere() {
    XCTAssertThrowsError(try words("pin \"abc")) { XCTAssertEqual(($0 as? ControlSyntaxError)?.column, 5) }
    XCTAssertThrowsError(try words(#"pin "\xZZ""#)) { XCTAssertEqual(($0 as? ControlSyntaxError)?.column, 6) }
  }

  func testEveryByteSurvivesQuoting() throws {
    let bytes = (1...255).map { UInt8($0) }
    let line = "pin " + ControlLine.quoted(bytes)
    XCTAssertTrue(line.utf8.allSatisfy { (0x20..<0x7f).contains($0) }, "one line of ASCII")
    XCTAssertEqual(try words(line)[1].value, bytes)
  }

  func testRequestsReadBackWhatTheyWrite() throws {
    let path = Array("a b=\"c\"".utf8) + [0xff]
    let requests: [ControlRequest] = [
      .status(path: nil), .status(path: path), .evict(path, recursive: true),
      .materialize(path, recursive: false),
      .pin(path, true), .pin(path, false), .refresh(path), .pause, .resume, .waitUntilIdle(timeout: nil),
      .waitUntilIdle(timeout: 2.5), .acceptDeletes, .unmount(force: false), .unmount(force: true),
      .status(path: []),
    ]
    for request in requests { XCTAssertEqual(try ControlRequest(Array(request.line.utf8)), request) }
  }

  func testRequestMistakes() throws {
    func message(_ line: String) -> String {
      do {
        _ = try ControlRequest(Array(line.utf8))
        return "no error"
      } catch { return error.description }
    }
    XCTAssertEqual(message("evcit a"), "column 1: unknown command evcit; did you mean evict?")
    XCTAssertEqual(message("evict"), "column 6: a path is missing; quote one that holds =")
    XCTAssertEqual(message("evict a b"), "column 9: b is not wanted here")
    XCTAssertEqual(message("evict a recursive=2"), "column 9: recursive= is 0 or 1, not 2")
    XCTAssertEqual(message("wait"), "column 5: idle is missing here")
    XCTAssertEqual(
      message("wait idle timeout=soon"), "column 11: timeout=soon is no time; write 30s, 500ms, 2m")
    XCTAssertEqual(message("pause now=1"), "column 7: now= is not wanted here")
    XCTAssertNil(try ControlRequest(Array("# a comment".utf8)))
  }
}
