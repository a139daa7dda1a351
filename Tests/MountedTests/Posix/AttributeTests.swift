import CLinux
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// setattr and what stat tells afterwards.
final class AttributeTests: PosixTestCase {
  func testTimesKeepTheirNanoseconds() throws {
    try Sys.put(path("f"), "x")
    try Sys.setTimes(
      path("f"), accessed: timespec(1_000_000_001, 123_456_789), modified: timespec(5, 999_999_999))
    let info = try Sys.info(path("f"))
    XCTAssertEqual(info.st_atim.nanoseconds, 1_000_000_001_123_456_789)
    XCTAssertEqual(info.st_mtim.nanoseconds, 5_999_999_999)
  }

  func testTimesBefore1970AndAfter2038() throws {
    for seconds in [-86_400 * 365, 1 << 32, 1 << 33] {
      try Sys.put(path("f"), "x")
      try Sys.setTimes(path("f"), accessed: timespec(seconds, 7), modified: timespec(seconds, 7))
      XCTAssertEqual(try Sys.info(path("f")).st_mtim.nanoseconds, seconds * 1_000_000_000 + 7)
    }
  }

  func testOmittedTimesStay() throws {
    try Sys.put(path("f"), "x")
    try Sys.setTimes(path("f"), accessed: timespec(100, 1), modified: timespec(200, 2))
    try Sys.setTimes(path("f"), accessed: Sys.timeOmit, modified: timespec(300, 3))
    XCTAssertEqual(try Sys.info(path("f")).st_atim.nanoseconds, 100_000_000_001)
    try Sys.setTimes(path("f"), accessed: timespec(400, 4), modified: Sys.timeOmit)
    XCTAssertEqual(try Sys.info(path("f")).st_mtim.nanoseconds, 300_000_000_003)
  }

  func testTheTimeNowIsNow() throws {
    try Sys.put(path("f"), "x")
    try Sys.setTimes(path("f"), accessed: timespec(1, 0), modified: timespec(1, 0))
    let before = time(nil) - 1
    try Sys.setTimes(path("f"), accessed: Sys.timeOmit, modified: Sys.timeNow)
    let info = try Sys.info(path("f"))
    XCTAssertEqual(info.st_atim.tv_sec, 1)
    XCTAssertGreaterThanOrEqual(info.st_mtim.tv_sec, before)
    XCTAssertLessThanOrEqual(info.st_mtim.tv_sec, time(nil) + 1)
  }

  func testTimesOfFoldersAndSymlinks() throws {
    try Sys.makeFolder(path("d"))
    try Sys.symlink("d", at: path("l"))
    for name in ["d", "l"] {
      try Sys.setTimes(path(name), accessed: timespec(11, 5), modified: timespec(22, 6))
      XCTAssertEqual(try Sys.info(path(name)).st_mtim.nanoseconds, 22_000_000_006, name)
    }
    try Sys.setTimes(path("l"), accessed: timespec(1, 1), modified: timespec(1, 1))
    XCTAssertEqual(try Sys.info(path("d")).st_mtim.nanoseconds, 22_000_000_006, "not through the link")
  }

  func testTimesThroughADescriptor() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.setTimes(accessed: timespec(3, 3), modified: timespec(4, 4))
    XCTAssertEqual(try file.info().st_mtim.nanoseconds, 4_000_000_004)
  }

  func testClosingDoesNotMoveAnExplicitTime() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.write("data")
    try file.setTimes(accessed: timespec(3, 3), modified: timespec(4, 4))
    try file.sync()
    try file.close()
    XCTAssertEqual(try Sys.info(path("f")).st_mtim.nanoseconds, 4_000_000_004)
  }

  func testWritesMoveModificationAndChangeTimes() throws {
    try Sys.put(path("f"), "x")
    try Sys.setTimes(path("f"), accessed: timespec(1, 0), modified: timespec(1, 0))
    let before = try Sys.info(path("f"))
    try OpenFile(path("f"), O_WRONLY).write("y")
    let after = try Sys.info(path("f"))
    XCTAssertGreaterThan(after.st_mtim.nanoseconds, before.st_mtim.nanoseconds)
    XCTAssertGreaterThanOrEqual(after.st_ctim.nanoseconds, before.st_ctim.nanoseconds)
  }

  func testNamesMoveTheirFoldersTimes() throws {
    try Sys.makeFolder(path("d"))
    for change in ["touch d/f", "mv d/f d/g", "ln -s x d/l", "mkdir d/e", "rm d/g", "rmdir d/e"] {
      try Sys.setTimes(path("d"), accessed: timespec(1, 0), modified: timespec(1, 0))
      XCTAssertTrue(shell(change).succeeded)
      XCTAssertGreaterThan(try Sys.info(path("d")).st_mtim.tv_sec, 1, change)
    }
  }

  func testModes() throws {
    try Sys.put(path("f"), "x")
    for mode: mode_t in [0o644, 0o000, 0o4755, 0o2755, 0o777, 0o400] {
      try Sys.setMode(path("f"), mode)
      XCTAssertEqual(try Sys.info(path("f")).permissions, mode)
    }
    try Sys.makeFolder(path("d"))
    try Sys.setMode(path("d"), 0o3775)
    XCTAssertEqual(try Sys.info(path("d")).permissions, 0o3775)
  }

  func testOwners() throws {
    try skipUnlessRoot()
    try Sys.put(path("f"), "x")
    try Sys.setOwner(path("f"), user: 1234, group: 2345)
    try Sys.setOwner(path("f"), user: nil, group: 3456)
    XCTAssertEqual(try Sys.info(path("f")).st_uid, 1234)
    XCTAssertEqual(try Sys.info(path("f")).st_gid, 3456)
    try Sys.symlink("f", at: path("l"))
    try Sys.setOwner(path("l"), user: 77, group: nil)
    XCTAssertEqual(try Sys.info(path("l")).st_uid, 77)
    XCTAssertEqual(try Sys.info(path("f")).st_uid, 1234)
  }

  func testTruncateUpAndDown() throws {
    let bytes = patterned(10_000, seed: 3)
    try Sys.put(path("f"), bytes)
    try Sys.truncate(path("f"), 5_001)
    assertBytes(try Sys.contents(path("f")), Array(bytes.prefix(5_001)))
    try Sys.truncate(path("f"), 9_000)
    assertBytes(
      try Sys.contents(path("f")), bytes.prefix(5_001) + [UInt8](repeating: 0, count: 3_999), "grown by zeros"
    )
    try Sys.truncate(path("f"), 0)
    XCTAssertEqual(try Sys.size(path("f")), 0)
    assertErrno(.EINVAL) { try Sys.truncate(path("f"), -1) }
    assertErrno(.EISDIR) { try Sys.truncate(folder, 0) }
  }

  func testTruncateOfAnOpenFileShowsInItsDescriptors() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.write("0123456789")
    let reader = try OpenFile(path("f"), O_RDONLY)
    XCTAssertEqual(try reader.text(10, at: 0), "0123456789")
    try file.truncate(4)
    XCTAssertEqual(try reader.text(10, at: 0), "0123")
    XCTAssertEqual(try reader.info().st_size, 4)
  }

  func testAReaderMayNotTruncate() throws {
    try Sys.put(path("f"), "x")
    assertErrno(.EINVAL) { try OpenFile(path("f"), O_RDONLY).truncate(0) }
  }

  func testInodeNumbersAreStableAndUnique() throws {
    for name in ["a", "b", "c"] { try Sys.put(path(name), name) }
    let numbers = try ["a", "b", "c"].map { try Sys.info(path($0)).st_ino }
    XCTAssertEqual(Set(numbers).count, 3)
    try Sys.rename(path("a"), path("d"))
    XCTAssertEqual(try Sys.info(path("d")).st_ino, numbers[0])
    let listed = try OpenFolder(folder).rest().filter { $0.text == "d" }.map(\.inode)
    XCTAssertEqual(listed, [UInt64(numbers[0])])
  }

  func testFoldersCountTheirLinksOrSayOne() throws {
    try Sys.makeFolder(path("d"))
    try Sys.makeFolder(path("d/e"))
    let links = try Sys.info(path("d")).st_nlink
    XCTAssertTrue(links == 3 || links == 1, "find(1) trusts any other number: \(links)")
  }

  func testStatfs() throws {
    let info = try Sys.volumeInfo(folder)
    XCTAssertGreaterThan(info.f_blocks, 0)
    XCTAssertGreaterThan(info.f_frsize, 0)
    XCTAssertLessThanOrEqual(info.f_bavail, info.f_blocks)
    XCTAssertEqual(info.f_namemax, 255)
    XCTAssertTrue(shell("df . && df -i . && stat -f .").succeeded)
  }

  func testBlockSizeSuitsCopyingPrograms() throws {
    try Sys.put(path("f"), "x")
    let size = try Sys.info(path("f")).st_blksize
    XCTAssertGreaterThanOrEqual(size, onMount ? 131_072 : 512)
  }
}
