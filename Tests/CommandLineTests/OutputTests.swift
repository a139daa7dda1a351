import XCTest

@testable import docsfs

final class OutputTests: XCTestCase {
  func testTable() {
    let table = Table(
      heading: ["NAME", "SIZE"], rows: [["a", "10 B"], ["long name", "1 B"]], numbers: [1])
    XCTAssertEqual(table.lines, ["NAME       SIZE", "a          10 B", "long name   1 B"])
  }

  func testProgress() {
    let bar = ProgressBar("uploading", isTerminal: true, width: 100)
    let progress = Progress(doneBytes: 1 << 20, totalBytes: 4 << 20, doneItems: 1, totalItems: 3)
    XCTAssertEqual(
      bar.text(progress, 2), "uploading 1 of 3 items, 1.0 MiB of 4.0 MiB, 512.0 KiB/s, 6 s left")
    XCTAssertTrue(bar.bar(progress, 2).hasPrefix("[#"))
    XCTAssertLessThan(bar.bar(progress, 2).count, 100)
    XCTAssertLessThan(ProgressBar("uploading", isTerminal: true, width: 20).bar(progress, 2).count, 20)
    let nothing = Progress(doneBytes: 0, totalBytes: 0, doneItems: 0, totalItems: 0)
    XCTAssertEqual(bar.text(nothing, 0), "uploading 0 of 0 items, 0 B of 0 B")
  }

  func testErrorsAreOneLine() { XCTAssertEqual(oneLine("a\nb\u{1b}c"), "a b c") }

  func testReadyPipe() {
    XCTAssertEqual(ReadyPipe.Message(Array("ready".utf8)), .ready)
    XCTAssertEqual(ReadyPipe.Message(Array("note made a b".utf8)), .note("made a b"))
    XCTAssertEqual(ReadyPipe.Message(Array("failed 75 is held".utf8)), .failed(Failure("is held", 75)))
    XCTAssertNil(ReadyPipe.Message(Array("rubbish".utf8)))
  }

  func testOutcome() {
    func code(_ failures: Int32..., done: Int = 0) -> Int32 {
      var outcome = Outcome()
      for _ in 0..<done { outcome.succeeded() }
      for failure in failures { outcome.failed(Failure("", failure)) }
      return outcome.exitCode
    }
    XCTAssertEqual(code(done: 2), 0)
    XCTAssertEqual(code(69, 69), 69)
    XCTAssertEqual(code(69, 1), 1)
    XCTAssertEqual(code(69, done: 1), 2)
    XCTAssertEqual(code(2), 2)
  }

  func testReplacing() {
    XCTAssertEqual(
      replacing(Array("{mount}".utf8), in: Array("a={mount}/{mount".utf8), with: Array("/m".utf8)),
      Array("a=/m/{mount".utf8))
  }
}
