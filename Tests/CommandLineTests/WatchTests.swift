import DocsEngine
import FoundationEssentials
import XCTest

@testable import docsfs

final class WatchTests: XCTestCase {
  func testAFrameFitsTheTerminal() {
    let frame = WatchScreen.frame(["short", "exactly ten", "12345678901", "a\u{1b}[2Jb"], width: 10, height: 4)
    XCTAssertEqual(frame, "\u{1b}[Hshort\u{1b}[K\r\nexactly te\r\n1234567890\r\na [2Jb\u{1b}[K\u{1b}[J")
    let low = WatchScreen.frame((1...9).map(String.init), width: 20, height: 3)
    XCTAssertEqual(low, "\u{1b}[H1\u{1b}[K\r\n2\u{1b}[K\r\n(7 more lines)\u{1b}[K\u{1b}[J")
  }

  func testWideCharactersCountTwice() {
    XCTAssertNotNil(setlocale(LC_CTYPE, "C.UTF-8"))
    defer { setlocale(LC_CTYPE, "C") }
    XCTAssertEqual(WatchScreen.cut("日本語", to: 5).text, "日本")
    XCTAssertEqual(WatchScreen.cut("日本語", to: 5).columns, 4)
    XCTAssertEqual(WatchScreen.cut("e\u{301}te", to: 2).text, "e\u{301}t")
    XCTAssertEqual(WatchScreen.cut("abc", to: 0).text, "")
  }

  private func status(fetched: Int64, _ transfers: [TransferStatus]) throws -> VolumeStatus {
    let json = """
      {"container":"dir:/c","stateDirectory":"/s","link":"connected","linkAge":1,"io":"cached","troubles":[],"epoch":0,"items":1,"itemsInMemory":1,
      "cacheBytes":0,"dirtyItems":0,"dirtyBytes":0,"uploading":0,"fetching":0,"fetchQueue":0,"failingItems":0,
      "failing":[],"heldDeletes":0,"paused":false,"diskFull":false,"uploadedBytes":0,"fetchedBytes":\(fetched),
      "transfers":\(JSONText.of(transfers))}
      """
    return try JSONDecoder().decode(VolumeStatus.self, from: Data(json.utf8))
  }

  func testRatesAreThoseOfTheLastSeconds() throws {
    var meter = RateMeter()
    func at(_ second: UInt64, sent: UInt64, done: Int64, by daemon: Int32 = 1) throws -> TransferRates {
      let transfer = TransferStatus(path: "a", direction: .up, doneBytes: done, size: 1000)
      return meter.add(
        try status(fetched: 0, [transfer]), sent: sent, by: daemon, now: second * 1_000_000_000)
    }
    let first = try at(1, sent: 500, done: 0)
    XCTAssertEqual(first.up, 0)
    XCTAssertNil(first.transfers.first?.eta)
    XCTAssertEqual(try at(2, sent: 600, done: 100).up, 100)
    let third = try at(3, sent: 800, done: 300)
    XCTAssertEqual(third.up, 150)
    XCTAssertEqual(
      third.transfers, [.init(path: "a", direction: .up, doneBytes: 300, size: 1000, rate: 150, eta: 700 / 150)])
    for second in 4...20 { _ = try at(UInt64(second), sent: 800, done: 300) }
    XCTAssertEqual(try at(21, sent: 800, done: 300).up, 0, "what was long ago counts no longer")
    XCTAssertEqual(try at(22, sent: 10, done: 0, by: 2).up, 0, "another daemon counts from nothing")
    XCTAssertEqual(try at(23, sent: 20, done: 0, by: 2).up, 10)
  }
}
