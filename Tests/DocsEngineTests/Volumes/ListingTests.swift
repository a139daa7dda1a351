import Containers
import StorageErrors
import TestSupport
import XCTest

@testable import DocsEngine

/// The first look into a folder asks the container; until it has answered, nothing is said about what is there.
final class ListingTests: XCTestCase {
  func testAFirstListingThatFailsIsNoEmptyFolder() throws {
    let bench = try VolumeBench(["a": "1"])
    bench.gate.fail(.list, .timedOut, times: 1000)
    XCTAssertThrowsError(try bench.driver.list()) { XCTAssertEqual($0 as? Errno, .EIO) }
    XCTAssertThrowsError(try bench.driver.entry("a")) { XCTAssertEqual($0 as? Errno, .EIO) }
    XCTAssertThrowsError(try bench.driver.entry("b")) { XCTAssertEqual($0 as? Errno, .EIO, "not ENOENT") }
    bench.gate.open()
    XCTAssertEqual(try bench.driver.list(), ["a"])
    XCTAssertThrowsError(try bench.driver.entry("b")) { XCTAssertEqual($0 as? Errno, .ENOENT) }
  }

  func testAFolderThatMayNotBeReadSaysSo() throws {
    let bench = try VolumeBench(["a": "1"])
    bench.gate.fail(.list, .permissionDenied, times: 1000)
    XCTAssertThrowsError(try bench.driver.list()) { XCTAssertEqual($0 as? Errno, .EACCES) }
  }

  func testWhoeverWaitsForAListingCanBeInterrupted() throws {
    let bench = try VolumeBench(["a": "1"])
    bench.gate.hold(.list)
    let (first, second) = (
      bench.driver.beginLookup(.root, SampleItems.name("a")),
      bench.driver.beginLookup(.root, SampleItems.name("a"))
    )
    XCTAssert(bench.gate.waitUntilHeld())
    first.interrupt()
    XCTAssertEqual(first.failure, .EINTR)
    XCTAssertFalse(second.isAnswered, "the other one goes on waiting")
    bench.gate.open()
    XCTAssertNotNil(try second.get())
  }

  func testAnInterruptBeforeTheWaitCounts() throws {
    let bench = try VolumeBench(["a": "1"])
    bench.gate.hold(.list)
    let pending = Pending<Entry?> { wait, reply in
      wait().cancel()
      bench.volume.lookup(.root, SampleItems.name("a"), wait, reply)
    }
    XCTAssertEqual(pending.failure, .EINTR)
  }

  func testAllWhoWaitShareOneListing() throws {
    let bench = try VolumeBench(["a": "1", "b": "2"])
    bench.gate.hold(.list)
    let all = ["a", "b", "c"].map { bench.driver.beginLookup(.root, SampleItems.name($0)) }
    XCTAssert(bench.gate.waitUntilHeld())
    bench.gate.open()
    XCTAssertEqual(try all.map { try $0.get() != nil }, [true, true, false])
    XCTAssertEqual(try bench.driver.list(), ["a", "b"])
    XCTAssertEqual(bench.gate.count(.list), 1)
  }

  func testAFolderIsNotRemovedBeforeItIsKnownToBeEmpty() throws {
    let bench = try VolumeBench(["folder/a": "1"])
    XCTAssertThrowsError(try bench.driver.removeFolder("folder")) { XCTAssertEqual($0 as? Errno, .ENOTEMPTY) }
    bench.idle()
    XCTAssertEqual(try bench.text("folder/a"), "1")
  }

  func testAListingThatNeverComesEnds() throws {
    let bench = try VolumeBench(["a": "1"]) { $0.timeo = 0.5 }
    bench.gate.hold(.list)
    XCTAssertThrowsError(try bench.driver.list()) { XCTAssertEqual($0 as? Errno, .EIO) }
  }

  func testACutLinkAnswersWhoWaits() throws {
    let bench = try VolumeBench(["a": "1"])
    bench.gate.hold(.list)
    let pending = bench.driver.beginLookup(.root, SampleItems.name("a"))
    XCTAssert(bench.gate.waitUntilHeld())
    bench.volume.setLink(.disconnected(.cloud, reason: "a test"))
    XCTAssertEqual(pending.failure, .EIO)
  }
}
