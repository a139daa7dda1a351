import Containers
import StorageErrors
import TestSupport
import XCTest

@testable import DocsEngine

/// A dirty item is always whole: what keeps a part of a placeholder waits for the rest of it.
final class PlaceholderWriteTests: XCTestCase {
  private let text = String(repeating: "0123456789", count: 300_000)

  func testAWriteWaitsUntilAllIsThere() throws {
    let bench = try VolumeBench(["film": text])
    bench.gate.hold(.read)
    let handle = try bench.driver.open("film", writes: true)
    let write = bench.driver.beginWrite(handle, 3, Array("xyz".utf8))
    XCTAssert(bench.gate.waitUntilHeld())
    XCTAssertFalse(write.isAnswered)
    bench.gate.open()
    XCTAssertEqual(try write.get(), 3)
    XCTAssertEqual(try bench.state("film"), "materialized")
    bench.driver.release(handle)
    bench.idle()
    XCTAssertEqual(try bench.text("film"), "012xyz6789" + text.dropFirst(10))
  }

  func testATruncationToAPartWaitsToo() throws {
    let bench = try VolumeBench(["film": text])
    bench.gate.hold(.read)
    var change = AttributeChange()
    change.size = 5
    let truncation = try bench.driver.beginChange("film", change)
    XCTAssert(bench.gate.waitUntilHeld())
    XCTAssertFalse(truncation.isAnswered)
    bench.gate.open()
    XCTAssertEqual(try truncation.get().size, 5)
    bench.idle()
    XCTAssertEqual(try bench.text("film"), "01234")
  }

  func testTruncationToNothingWaitsForNothing() throws {
    let bench = try VolumeBench(["film": text])
    bench.gate.hold(.read)
    try bench.driver.write("film", "new")
    XCTAssertEqual(try bench.driver.text("film"), "new")
    bench.idle()
    XCTAssertEqual(try bench.text("film"), "new")
  }

  /// What was on its way for the old content must not land in the new one.
  func testAFetchUnderATruncationIsDropped() throws {
    let bench = try VolumeBench(["film": text])
    bench.gate.hold(.read, .piece)
    let handle = try bench.driver.open("film")
    let read = bench.driver.beginRead(handle, 0, 10)
    XCTAssert(bench.gate.waitUntilHeld())
    try bench.driver.write("film", "new")
    bench.gate.open()
    _ = read.result()
    XCTAssert(eventually { bench.volume.status().fetching == 0 })
    XCTAssertEqual(try bench.driver.readAll(handle), Array("new".utf8))
    bench.driver.release(handle)
    bench.idle()
    XCTAssertEqual(try bench.text("film"), "new")
  }

  func testAWriterThatWaitsCanBeInterrupted() throws {
    let bench = try VolumeBench(["film": text])
    bench.gate.hold(.read)
    let handle = try bench.driver.open("film", writes: true)
    let write = bench.driver.beginWrite(handle, 0, [1])
    XCTAssert(bench.gate.waitUntilHeld())
    write.interrupt()
    XCTAssertEqual(write.failure, .EINTR)
    bench.driver.release(handle)
    XCTAssertEqual(try bench.sync("film"), "current")
  }

  func testOpeningForWritingAloneFetchesNothing() throws {
    let bench = try VolumeBench(["film": text])
    let node = try bench.driver.node("film")
    let mode = OpenMode(reads: false, writes: true, truncates: false)
    let handle = try Pending {
      bench.volume.open(node, mode, Caller(uid: 1, gid: 1, pid: 0), $0, $1)
    }.get()
    bench.driver.release(handle)
    XCTAssertEqual(bench.gate.count(.read), 0)
  }
}
