import CLinux
import StorageErrors
import TestSupport
import XCTest

/// Names, symlinks, hard links, nodes.
final class NameTests: PosixTestCase {
  func testLongNames() throws {
    let longest = String(repeating: "n", count: 255)
    try Sys.put(path(longest), "x")
    XCTAssertEqual(try Sys.text(path(longest)), "x")
    let over = path(longest + "n")
    assertErrno(.ENAMETOOLONG) { try Sys.put(over, "x") }
    assertErrno(.ENAMETOOLONG) { _ = try Sys.info(over) }
    assertErrno(.ENAMETOOLONG) { try Sys.makeFolder(over) }
    assertErrno(.ENAMETOOLONG) { try Sys.symlink("x", at: over) }
    assertErrno(.ENAMETOOLONG) { try Sys.rename(path(longest), over) }
    assertErrno(.ENAMETOOLONG) { try Sys.put(path(String(repeating: "é", count: 128)), "256 bytes") }
    try Sys.put(path(String(repeating: "é", count: 127)), "254 bytes")
  }

  func testNamesOfAnyBytes() throws {
    let names: [[UInt8]] = [
      [0xff, 0xfe, 0x80], [0x0a], [0x20], [0x5c, 0x6e], Array("*?\"'<>|:;$`".utf8), [0x01, 0x7f],
      [0xc3, 0x28], Array("-rf".utf8), Array("...".utf8), Array("日本語 ファイル".utf8),
    ]
    for (index, name) in names.enumerated() {
      try OpenFile(bytes: Array(folder.utf8) + [0x2f] + name, O_CREAT | O_EXCL | O_WRONLY).write("\(index)")
    }
    let listed = try OpenFolder(folder).rest().map(\.bytes).filter { $0 != [0x2e] && $0 != [0x2e, 0x2e] }
    XCTAssertEqual(Set(listed), Set(names))
    for (index, name) in names.enumerated() {
      let file = try OpenFile(bytes: Array(folder.utf8) + [0x2f] + name, O_RDONLY)
      XCTAssertEqual(try file.text(10, at: 0), "\(index)")
    }
  }

  func testComposedAndDecomposedNamesAreDifferent() throws {
    try Sys.put(path("\u{e9}"), "composed")
    try Sys.put(path("e\u{301}"), "decomposed")
    try Sys.put(path("E\u{301}"), "upper case")
    XCTAssertEqual(try OpenFolder(folder).rest().count, 5)
    XCTAssertEqual(try Sys.text(path("\u{e9}")), "composed")
    XCTAssertEqual(try Sys.text(path("e\u{301}")), "decomposed")
  }

  func testNamesThatLookLikePlaceholdersOrOurOwn() throws {
    for name in [".f.icloud", "f.icloud", ".docsfs", "control", ".fuse_hidden0000000100000001", ".nfs1"] {
      try Sys.put(path(name), name)
      XCTAssertEqual(try Sys.text(path(name)), name)
    }
    XCTAssertEqual(try Sys.names(folder).count, 6)
  }

  // MARK: Symlinks

  func testSymlinksKeepTheirTarget() throws {
    let targets = [
      "f", "/etc/hostname", "../..", "no such thing", String(repeating: "t/", count: 2_000), "\u{301}",
    ]
    for (index, target) in targets.enumerated() {
      try Sys.symlink(target, at: path("l\(index)"))
      XCTAssertEqual(try Sys.readlink(path("l\(index)")), target)
      let info = try Sys.info(path("l\(index)"))
      XCTAssertTrue(info.isSymlink)
      XCTAssertEqual(Int(info.st_size), target.utf8.count)
    }
    assertErrno(.EEXIST) { try Sys.symlink("x", at: path("l0")) }
    assertErrno(.ENOENT) { _ = try Sys.contents(path("l3")) }
    try Sys.put(path("f"), "x")
    assertErrno(.EINVAL) { _ = try Sys.readlink(path("f")) }
    XCTAssertEqual(try Sys.text(path("l0")), "x")
  }

  func testSymlinksThatLoop() throws {
    try Sys.symlink("b", at: path("a"))
    try Sys.symlink("a", at: path("b"))
    assertErrno(.ELOOP) { _ = try Sys.contents(path("a")) }
    assertErrno(.ELOOP) { _ = try OpenFile(path("a"), O_RDONLY | O_NOFOLLOW) }
    try Sys.symlink(".", at: path("here"))
    try Sys.put(path("f"), "x")
    XCTAssertEqual(try Sys.text(path("here/here/here/f")), "x")
  }

  func testSymlinksToFolders() throws {
    try Sys.makeFolder(path("d"))
    try Sys.symlink("d", at: path("l"))
    try Sys.put(path("l/f"), "through")
    XCTAssertEqual(try Sys.text(path("d/f")), "through")
    assertErrno(.ENOTDIR) { try Sys.removeFolder(path("l")) }
    try Sys.remove(path("l"))
    XCTAssertTrue(Sys.exists(path("d/f")))
  }

  // MARK: What there is none of

  func testHardLinks() throws {
    try Sys.put(path("f"), "x")
    guard onMount else {
      try Sys.link(path("f"), path("g"))
      return XCTAssertEqual(try Sys.info(path("f")).st_nlink, 2)
    }
    assertErrno(.EPERM) { try Sys.link(path("f"), path("g")) }
    XCTAssertEqual(try Sys.info(path("f")).st_nlink, 1)
  }

  func testNodes() throws {
    try Sys.makeNode(path("file"), mode: 0o100640)
    XCTAssertEqual(try Sys.size(path("file")), 0)
    guard onMount else { return }
    let kinds: [(String, mode_t)] = [
      ("FIFO", 0o010000), ("socket", 0o140000), ("character device", 0o020000), ("block device", 0o060000),
    ]
    for (kind, type) in kinds {
      assertErrno(.EPERM, kind) { try Sys.makeNode(path("n"), mode: type | 0o644, device: 0x0103) }
    }
    XCTAssertEqual(try Sys.names(folder), ["file"])
  }
}
