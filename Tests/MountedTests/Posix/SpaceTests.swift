import CLinux
import StorageErrors
import TestSupport
import XCTest

/// Allocation, holes, and seeking them.
final class SpaceTests: PosixTestCase {
  private let keepSize = LX_FALLOC_KEEP_SIZE
  private let punch = LX_FALLOC_KEEP_SIZE | LX_FALLOC_PUNCH_HOLE
  private let data = LX_SEEK_DATA
  private let hole = LX_SEEK_HOLE

  func testAllocationGrowsAFileByZeros() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.write("abc")
    try file.allocate(mode: 0, offset: 0, length: 100_000)
    XCTAssertEqual(try file.info().st_size, 100_000)
    XCTAssertEqual(try file.read(5, at: 0), [0x61, 0x62, 0x63, 0, 0])
    XCTAssertGreaterThanOrEqual(try file.info().st_blocks * 512, 100_000)
  }

  func testAllocationThatKeepsTheSize() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.write("abc")
    try file.allocate(mode: keepSize, offset: 0, length: 1 << 20)
    XCTAssertEqual(try file.info().st_size, 3)
    XCTAssertEqual(try file.text(10, at: 0), "abc")
  }

  func testAPunchedHoleReadsAsZerosAndGivesBackItsBlocks() throws {
    let bytes = patterned(1 << 20, seed: 4)
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.write(bytes)
    try file.sync()
    let before = try file.info().st_blocks
    try file.allocate(mode: punch, offset: 65_536, length: 524_288)
    var wanted = bytes
    wanted.replaceSubrange(65_536..<589_824, with: repeatElement(0, count: 524_288))
    assertBytes(try Sys.contents(path("f")), wanted)
    XCTAssertEqual(try file.info().st_size, 1 << 20)
    XCTAssertLessThan(try file.info().st_blocks, before)
  }

  func testAnUnalignedHoleZeroesItsEdges() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.write([UInt8](repeating: 0x78, count: 20_000))
    try file.allocate(mode: punch, offset: 1_000, length: 10_001)
    let bytes = try Sys.contents(path("f"))
    XCTAssertEqual(bytes[999], 0x78)
    XCTAssertTrue(bytes[1_000..<11_001].allSatisfy { $0 == 0 })
    XCTAssertEqual(bytes[11_001], 0x78)
  }

  func testAZeroedRange() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.write("0123456789")
    try file.allocate(mode: LX_FALLOC_ZERO_RANGE, offset: 2, length: 3)
    XCTAssertEqual(try file.read(10, at: 0), Array("01".utf8) + [0, 0, 0] + Array("56789".utf8))
  }

  func testAllocationNeedsAWriterAndSense() throws {
    try Sys.put(path("f"), "x")
    let reader = try OpenFile(path("f"), O_RDONLY)
    assertErrno(.EBADF) { try reader.allocate(mode: 0, offset: 0, length: 10) }
    let writer = try OpenFile(path("f"), O_RDWR)
    assertErrno(.EINVAL) { try writer.allocate(mode: 0, offset: 0, length: 0) }
    assertErrno(.EINVAL) { try writer.allocate(mode: 0, offset: -1, length: 10) }
    assertErrno(.EOPNOTSUPP) {
      try writer.allocate(mode: LX_FALLOC_PUNCH_HOLE, offset: 0, length: 10)
    }
  }

  func testSeekingDataAndHoles() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.truncate(4 << 20)
    try file.write([UInt8](repeating: 1, count: 65_536), at: 1 << 20)
    XCTAssertEqual(try file.seek(0, data), 1 << 20)
    XCTAssertEqual(try file.seek(1 << 20, hole), 1 << 20 + 65_536)
    XCTAssertEqual(try file.seek(0, hole), 0)
    assertErrno(.ENXIO, "only a hole follows") { _ = try file.seek(2 << 20, data) }
    assertErrno(.ENXIO, "beyond the end") { _ = try file.seek(5 << 20, hole) }
  }

  func testTheEndOfAFileIsAHole() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.write("solid")
    XCTAssertEqual(try file.seek(0, data), 0)
    XCTAssertEqual(try file.seek(0, hole), 5)
    XCTAssertEqual(try file.seek(0, Int(SEEK_END)), 5)
  }

  func testSparseArchivesAreRight() throws {
    let outcome = shell(
      """
      truncate -s 8M f && printf data | dd of=f bs=1 seek=5000000 conv=notrunc status=none
      tar -cSf t.tar f && mkdir x && tar -xSf t.tar -C x && cmp f x/f && cp --sparse=always f g && cmp f g && echo same
      """)
    XCTAssertEqual(outcome.text, "same", outcome.description)
  }
}
