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
    let commands: [ControlCommand] = [
      .evict(path, recursive: true), .materialize(path, recursive: false), .pin(path, true), .pin(path, false),
      .refresh(path), .pause, .resume, .wait(.idle, timeout: nil), .wait(.idle, timeout: 2_500_000_000),
    ]
    let requests: [ControlRequest] =
      commands.map { ControlRequest($0) } + [
        .status(path: nil), .status(path: path), .acceptDeletes, .unmount(force: false), .unmount(force: true),
        .status(path: []), .rules, .log(from: 0), .log(from: 1 << 40),
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
    XCTAssertEqual(message("evcit a"), "1:1: unknown command evcit; did you mean evict?")
    XCTAssertEqual(message("evict"), "1:6: a path is missing; quote one that holds =")
    XCTAssertEqual(message("unmount force=2"), "1:9: force= is not wanted behind unmount")
    XCTAssertEqual(message("status a b"), "1:10: b is not wanted behind status")
    XCTAssertEqual(message("log from=x"), "1:5: from= is not wanted behind log")
    XCTAssertEqual(message("rules a"), "1:7: a is not wanted behind rules")
    XCTAssertNil(try ControlRequest(Array("# a comment".utf8)))
  }

  /// Words of a shell are words of the grammar, whatever they hold; a single one is a line.
  func testTheShellsWordsAreOneCommand() throws {
    func line(_ words: String...) -> String {
      String(decoding: FaultCommand.line(words.map { Array($0.utf8) }[...]), as: UTF8.self)
    }
    XCTAssertEqual(line("add", "op=read", "path=a b#\"", "errno=EIO"), #"add op=read path="a b#\"" errno=EIO"#)
    XCTAssertEqual(line("evict", "a b"), #"evict "a b""#)
    XCTAssertEqual(line("add op=read errno=EIO"), "add op=read errno=EIO")
    XCTAssertEqual(line(#"{"clear":true}"#), #"{"clear":true}"#)
    XCTAssertEqual(line("set", "r1", "errno="), "set r1 errno=")
    XCTAssertEqual(line("mark", "a", "#b"), ##"mark a "#b""##)
    let statement = try XCTUnwrap(ControlStatement(line("pin", "/x=y").utf8))
    XCTAssertEqual(statement.command, .pin(Array("/x=y".utf8), true))
  }
}
