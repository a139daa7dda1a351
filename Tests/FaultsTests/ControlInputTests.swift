import StorageErrors
import XCTest

@testable import Faults

/// Commands that come in pieces.
final class ControlInputTests: FaultsTestCase {
  private static let text = """
    # a comment
    add id=a path="x # y" errno=EIO

    {"add": {"id": "b",
      "path": "}\\"{", "hang": true}} {"pause":true} # behind it
    mark 'é }'
    resume
    """

  private func run(_ pieces: [[UInt8]]) throws -> [ControlStatement] {
    var input = ControlInput()
    var statements: [ControlStatement] = []
    for piece in pieces {
      input.append(piece)
      while let statement = try input.next() { statements.append(statement) }
    }
    while let statement = try input.finish() { statements.append(statement) }
    XCTAssertTrue(input.isEmpty)
    return statements
  }

  func testWherePiecesEndMakesNoDifference() throws {
    let bytes = Array(Self.text.utf8)
    let whole = try run([bytes])
    XCTAssertEqual(
      whole.map(\.command.text),
      [#"add id=a path="x # y" errno=EIO"#, #"add id=b path="}\"{" hang"#, "pause", #"mark "\xc3\xa9 }""#, "resume"])
    XCTAssertEqual(whole.map(\.place.line), [2, 4, 5, 6, 7])
    XCTAssertEqual(whole.map(\.place.column), [1, 1, 34, 1, 1])
    for split in 0...bytes.count { XCTAssertEqual(try run([Array(bytes[..<split]), Array(bytes[split...])]), whole) }
    XCTAssertEqual(try run(bytes.map { [$0] }), whole)
  }

  func testACommandTakesEffectWithItsNewline() throws {
    var input = ControlInput()
    input.append("pause".utf8)
    XCTAssertNil(try input.next())
    input.append("\nres".utf8)
    XCTAssertEqual(try input.next()?.command, .pause)
    XCTAssertNil(try input.next())
    input.append("ume".utf8)
    XCTAssertEqual(try input.finish()?.command, .resume)
    XCTAssertNil(try input.finish())
  }

  func testAnObjectTakesEffectWithItsLastBrace() throws {
    var input = ControlInput()
    input.append(#"{"cloud":{"offline":true}"#.utf8)
    XCTAssertNil(try input.next())
    input.append("}".utf8)
    XCTAssertNotNil(try input.next())
  }

  func testAnObjectThatIsNeverClosedIsRefusedAtTheEnd() throws {
    var input = ControlInput()
    input.append("\n  {\"pause\":".utf8)
    XCTAssertNil(try input.next())
    XCTAssertThrowsError(try input.finish()) { XCTAssertEqual("\($0)", "2:3: this { is never closed") }
    XCTAssertTrue(input.isEmpty)
  }

  func testLinesCountOnBehindAMistake() throws {
    var input = ControlInput()
    input.append("pause\nbad\nresume\n".utf8)
    XCTAssertEqual(try input.next()?.command, .pause)
    XCTAssertThrowsError(try input.next()) { XCTAssertEqual("\($0)", "2:1: unknown command bad") }
    input.discard()
    XCTAssertNil(try input.next())
    input.append("bad".utf8)
    XCTAssertThrowsError(try input.finish()) { XCTAssertEqual(($0 as? ControlError)?.line, 4) }
  }

  func testMoreThanOneMebibyteIsRefused() throws {
    let piece = Array(repeating: UInt8(ascii: "x"), count: 65_536)
    for head in ["mark ", "{\"mark\":\"", "# "] {
      var input = ControlInput()
      input.append(head.utf8)
      var pieces = 0
      var refused: ControlError?
      while refused == nil, pieces < 20 {
        input.append(piece)
        pieces += 1
        do { _ = try input.next() } catch { refused = error }
      }
      XCTAssertEqual(refused?.errno, .EFBIG)
      XCTAssertEqual(pieces, 16, "at once when the limit is passed")
      XCTAssertTrue(input.isEmpty, "it is not kept")
    }
    var many = ControlInput()
    many.append(String(repeating: "pause\n", count: 300_000).utf8)
    var count = 0
    while try many.next() != nil { count += 1 }
    XCTAssertEqual(count, 300_000, "only one command is limited")
  }

  /// However many writes bring it: all of it is refused, and what comes behind its end is taken.
  func testTheRestOfACommandThatIsTooLongIsRefusedToo() throws {
    var input = ControlInput()
    func errno(_ bytes: [UInt8]) -> Errno? {
      input.append(bytes)
      do throws(ControlError) {
        while try input.next() != nil {}
        return nil
      } catch {
        input.discard()
        return error.errno
      }
    }
    let piece = [UInt8](repeating: UInt8(ascii: "a"), count: ControlInput.limit)
    XCTAssertNil(errno(piece))
    for _ in 0..<4 { XCTAssertEqual(errno(piece), .EFBIG) }
    XCTAssertEqual(errno(Array("end\n".utf8)), .EFBIG)
    input.append(Array("clear\n".utf8))
    XCTAssertEqual(try input.next()?.command, .clear)
  }
}
