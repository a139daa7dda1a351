import CLinux
import StorageErrors
import TestSupport
import XCTest

/// People's own extended attributes.
final class XattrTests: PosixTestCase {
  private let create: Int32 = 1
  private let replace: Int32 = 2

  func testSettingReadingListingRemoving() throws {
    try Sys.put(path("f"), "x")
    try Sys.makeFolder(path("d"))
    for name in ["f", "d"] {
      try Sys.setXattr(path(name), "user.comment", Array("hello".utf8))
      try Sys.setXattr(path(name), "user.empty", [])
      XCTAssertEqual(try Sys.xattrText(path(name), "user.comment"), "hello")
      XCTAssertEqual(try Sys.xattr(path(name), "user.empty"), [])
      XCTAssertEqual(try Sys.xattrNames(path(name)).sorted(), ["user.comment", "user.empty"])
      try Sys.removeXattr(path(name), "user.comment")
      XCTAssertEqual(try Sys.xattrNames(path(name)), ["user.empty"])
      assertErrno(.ENODATA) { _ = try Sys.xattr(path(name), "user.comment") }
      assertErrno(.ENODATA) { try Sys.removeXattr(path(name), "user.comment") }
    }
  }

  func testCreateAndReplace() throws {
    try Sys.put(path("f"), "x")
    assertErrno(.ENODATA) { try Sys.setXattr(path("f"), "user.a", [1], flags: replace) }
    try Sys.setXattr(path("f"), "user.a", [1], flags: create)
    assertErrno(.EEXIST) { try Sys.setXattr(path("f"), "user.a", [2], flags: create) }
    try Sys.setXattr(path("f"), "user.a", [3], flags: replace)
    XCTAssertEqual(try Sys.xattr(path("f"), "user.a"), [3])
  }

  func testTooLittleRoom() throws {
    try Sys.put(path("f"), "x")
    try Sys.setXattr(path("f"), "user.a", Array("12345".utf8))
    assertErrno(.ERANGE) { _ = try Sys.xattr(path("f"), "user.a", room: 4) }
    XCTAssertEqual(try Sys.xattr(path("f"), "user.a", room: 0).count, 5, "room 0 asks for the size")
    XCTAssertEqual(llistxattr(path("f"), nil, 0), 7)
    var small = [CChar](repeating: 0, count: 3)
    assertErrno(.ERANGE) { if llistxattr(path("f"), &small, 3) < 0 { throw Errno.current } }
  }

  func testAnyBytesAndSizes() throws {
    try Sys.put(path("f"), "x")
    for size in [1, 255, 1_000, 3_000] {
      let value = patterned(size, seed: UInt64(size))
      try Sys.setXattr(path("f"), "user.big", value)
      XCTAssertEqual(try Sys.xattr(path("f"), "user.big"), value)
    }
    assertErrno(.E2BIG) { try Sys.setXattr(path("f"), "user.big", [UInt8](repeating: 0, count: 65_537)) }
    let longest = "user." + String(repeating: "n", count: 250)
    try Sys.setXattr(path("f"), longest, [1])
    XCTAssertEqual(try Sys.xattr(path("f"), longest), [1])
    assertErrno(.ERANGE) { try Sys.setXattr(path("f"), longest + "n", [1]) }
  }

  func testTheyMoveTheChangeTimeOnly() throws {
    try Sys.put(path("f"), "x")
    let before = try Sys.info(path("f"))
    try Sys.setXattr(path("f"), "user.a", [1])
    let after = try Sys.info(path("f"))
    XCTAssertEqual(after.st_mtim.nanoseconds, before.st_mtim.nanoseconds)
    XCTAssertGreaterThanOrEqual(after.st_ctim.nanoseconds, before.st_ctim.nanoseconds)
  }

  func testTheyFollowARename() throws {
    try Sys.put(path("f"), "x")
    try Sys.setXattr(path("f"), "user.a", [9])
    try Sys.rename(path("f"), path("g"))
    XCTAssertEqual(try Sys.xattr(path("g"), "user.a"), [9])
    try Sys.put(path("f"), "another")
    XCTAssertEqual(try Sys.xattrNames(path("f")), [])
  }

  func testTheyBelongToAnOpenUnlinkedFile() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try Sys.remove(path("f"))
    try file.setXattr("user.late", [1, 2])
    var value: [UInt8] = [0, 0, 0]
    XCTAssertEqual(fgetxattr(file.fd, "user.late", &value, 3), 2)
  }

  func testOtherNamespaces() throws {
    try Sys.put(path("f"), "x")
    try Sys.symlink("f", at: path("l"))
    assertErrno(.EPERM, "no user attributes on symlinks") { try Sys.setXattr(path("l"), "user.a", [1]) }
    assertErrno(.EOPNOTSUPP) { try Sys.setXattr(path("f"), "nonsense.a", [1]) }
    assertErrno(.EOPNOTSUPP) { try Sys.setXattr(path("f"), "nodots", [1]) }
  }

  func testReadingNeedsPermission() throws {
    try skipUnlessRoot()
    try Sys.setMode(folder, 0o755)
    try Sys.put(path("f"), "x")
    try Sys.setXattr(path("f"), "user.a", [1])
    try Sys.setMode(path("f"), 0o600)
    XCTAssertFalse(shell("getfattr -n user.a f", as: 65534).succeeded)
    try Sys.setMode(path("f"), 0o644)
    XCTAssertTrue(shell("getfattr -n user.a f", as: 65534).succeeded)
    XCTAssertFalse(shell("setfattr -n user.a -v 2 f", as: 65534).succeeded)
  }
}
