import Containers
import StorageErrors
import TestSupport
import XCTest

@testable import DocsEngine

final class PlaceholderReadTests: XCTestCase {
  private static let mebibyte: Int64 = 1 << 20

  /// A file whose bytes tell where they are.
  private func bytes(_ count: Int64) -> [UInt8] {
    var bytes: [UInt8] = []
    for block in 0...count / 4096 {
      bytes += [UInt8](repeating: UInt8(truncatingIfNeeded: block % 251), count: 4096)
    }
    return Array(bytes.prefix(Int(count)))
  }

  private func bench(_ size: Int64, _ configure: (inout VolumeConfiguration) -> Void = { _ in }) throws
    -> VolumeBench
  {
    let bench = try VolumeBench(configure: configure)
    try bench.write("film", bytes(size))
    return bench
  }

  func testAReadWaitsForItsOwnRangeOnly() throws {
    let size = 12 * Self.mebibyte
    let bench = try bench(size)
    bench.gate.hold(.read) { ($0.range?.lowerBound ?? 0) >= 4 * Self.mebibyte }
    let handle = try bench.driver.open("film")
    defer { bench.driver.release(handle) }
    XCTAssertEqual(try bench.driver.read(handle, 1000, 4096), Array(bytes(6000)[1000..<5096]))
    XCTAssertEqual(try bench.state("film"), "materializing")
    let far = bench.driver.beginRead(handle, size - 10, 4096)
    XCTAssert(bench.gate.waitUntilHeld())
    XCTAssertFalse(far.isAnswered)
    bench.gate.open()
    XCTAssertEqual(try VolumeDriver.bytes(try far.get()), Array(bytes(size).suffix(10)))
    XCTAssertEqual(try bench.driver.readAll(handle), bytes(size))
    XCTAssert(try eventually { try bench.state("film") == "materialized" })
  }

  func testTwoReadersShareTheFetches() throws {
    let size = 9 * Self.mebibyte + 5
    let bench = try bench(size)
    bench.gate.hold(.read)
    let handles = try (0..<2).map { _ in try bench.driver.open("film") }
    defer { handles.forEach(bench.driver.release) }
    let reads = handles.map { bench.driver.beginRead($0, 0, 4096) }
    XCTAssert(bench.gate.waitUntilHeld())
    bench.gate.open()
    for read in reads { XCTAssertEqual(try VolumeDriver.bytes(try read.get()), bytes(4096)) }
    for handle in handles { XCTAssertEqual(try bench.driver.readAll(handle), bytes(size)) }
    var seen = RangeSet()
    for call in bench.gate.calls where call.operation == .read {
      let range = try XCTUnwrap(call.range)
      XCTAssertEqual(seen.firstGap(in: range), range, "fetched twice")
      seen.insert(range)
    }
    XCTAssertEqual(seen.ranges, [0..<size])
    XCTAssertEqual(bench.volume.status().fetchedBytes, size)
  }

  func testWithMaterializeRangeOnlyWhatIsReadComes() throws {
    let size = 9 * Self.mebibyte
    let bench = try bench(size) { $0.materialize = .range }
    let handle = try bench.driver.open("film")
    XCTAssertEqual(try bench.driver.read(handle, 5 * Self.mebibyte, 100).count, 100)
    bench.driver.release(handle)
    XCTAssertEqual(try bench.state("film"), "partial")
    XCTAssertLessThan(bench.volume.status().fetchedBytes, Self.mebibyte)
  }

  func testAReaderOfAPlaceholderCanBeInterrupted() throws {
    let bench = try bench(Self.mebibyte)
    bench.gate.hold(.read)
    let handle = try bench.driver.open("film")
    defer { bench.driver.release(handle) }
    let (one, other) = (bench.driver.beginRead(handle, 0, 100), bench.driver.beginRead(handle, 0, 100))
    XCTAssert(bench.gate.waitUntilHeld())
    one.interrupt()
    XCTAssertEqual(one.failure, .EINTR)
    XCTAssertFalse(other.isAnswered)
    bench.gate.open()
    XCTAssertEqual(try VolumeDriver.bytes(try other.get()), bytes(100))
  }

  func testAReadWithoutProgressEnds() throws {
    let bench = try bench(Self.mebibyte) { $0.timeo = 0.5 }
    bench.gate.hold(.read)
    let handle = try bench.driver.open("film")
    defer { bench.driver.release(handle) }
    XCTAssertThrowsError(try bench.driver.read(handle, 0, 10)) { XCTAssertEqual($0 as? Errno, .EIO) }
  }

  func testAFetchThatFailsIsTriedAgain() throws {
    let bench = try bench(Self.mebibyte)
    bench.gate.fail(.read, .timedOut, times: 2)
    bench.gate.fail(.read, .inconsistent, times: 1, .piece)
    XCTAssertEqual(try bench.driver.read("film"), bytes(Self.mebibyte))
  }

  func testWhatDoesNotReadMaterializesNothing() throws {
    let bench = try bench(Self.mebibyte)
    try bench.write("other", "1")
    let driver = bench.driver
    _ = try driver.list()
    let attributes = try driver.attributes("film")
    XCTAssertEqual(attributes.size, Self.mebibyte)
    XCTAssertEqual(attributes.blocks, 1, "with 0, tar -S would archive zeros")
    XCTAssertEqual(try bench.state("film"), "placeholder")
    try driver.change("film") { $0.mode = 0o600 }
    try driver.change("film") { $0.modified = .at(Timestamp(nanoseconds: 5)) }
    try driver.setXattr("film", "user.tag", "x")
    try driver.makeFolder("folder")
    try driver.rename("film", "folder/film")
    _ = bench.volume.statistics()
    let handle = try driver.open("other", writes: true, truncates: true)
    driver.release(handle)
    try driver.unlink("other")
    try driver.rename("folder/film", "film")
    bench.idle()
    XCTAssertEqual(bench.gate.count(.read), 0)
    XCTAssertEqual(try bench.state("film"), "placeholder")
    XCTAssertEqual(try bench.bytes("film"), bytes(Self.mebibyte))
  }

  func testMissingRangesCountAsData() throws {
    let bench = try bench(Self.mebibyte) { $0.materialize = .range }
    let handle = try bench.driver.open("film")
    defer { bench.driver.release(handle) }
    XCTAssertEqual(try bench.volume.seek(handle, offset: 100, whence: SEEK_DATA).get(), 100)
    XCTAssertEqual(try bench.volume.seek(handle, offset: 100, whence: SEEK_HOLE).get(), Self.mebibyte)
  }

  // MARK: Without the container

  func testWithoutTheContainerWhatIsLocalGoesOn() throws {
    let bench = try bench(2 * Self.mebibyte) { $0.materialize = .range }
    try bench.write("letter", "dear")
    XCTAssertEqual(try bench.driver.text("letter"), "dear")
    let handle = try bench.driver.open("film")
    defer { bench.driver.release(handle) }
    XCTAssertEqual(try bench.driver.read(handle, 0, 100), bytes(100))
    XCTAssert(bench.fetchesEnd())
    XCTAssert(try bench.cutLink())
    XCTAssertEqual(try bench.driver.text("letter"), "dear")
    XCTAssertEqual(try bench.driver.read(handle, 0, 100), bytes(100))
    XCTAssertThrowsError(try bench.driver.read(handle, Self.mebibyte, 100)) {
      XCTAssertEqual($0 as? Errno, .EIO)
    }
    XCTAssertThrowsError(try bench.driver.open("film")) { XCTAssertEqual($0 as? Errno, .ENXIO) }
    XCTAssertEqual(try bench.driver.attributes("film").size, 2 * Self.mebibyte)
    try bench.driver.write("new", "made meanwhile")
    try bench.driver.write("letter", "sir")
    XCTAssertEqual(try bench.driver.text("letter"), "sir")
    bench.gate.open()
    bench.idle()
    XCTAssertEqual(try bench.text("letter"), "sir")
    XCTAssertEqual(try bench.text("new"), "made meanwhile")
  }
}

private let SEEK_DATA: Int32 = 3
private let SEEK_HOLE: Int32 = 4
