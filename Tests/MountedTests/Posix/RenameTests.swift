import CLinux
import StorageErrors
import TestSupport
import XCTest

/// rename(2) and renameat2(2).
final class RenameTests: PosixTestCase {
  private let noReplace = LX_RENAME_NOREPLACE
  private let exchange = LX_RENAME_EXCHANGE

  func testAFileReplacesAFile() throws {
    try Sys.put(path("a"), "a")
    try Sys.put(path("b"), "b")
    let inode = try Sys.info(path("a")).st_ino
    try Sys.rename(path("a"), path("b"))
    XCTAssertEqual(try Sys.text(path("b")), "a")
    XCTAssertEqual(try Sys.info(path("b")).st_ino, inode)
    XCTAssertEqual(try Sys.names(folder), ["b"])
  }

  func testAFolderReplacesAnEmptyFolderOnly() throws {
    try Sys.makeFolders(path("a"))
    try Sys.put(path("a/f"), "in a")
    try Sys.makeFolder(path("empty"))
    try Sys.rename(path("a"), path("empty"))
    XCTAssertEqual(try Sys.text(path("empty/f")), "in a")
    try Sys.makeFolder(path("other"))
    assertErrno(.ENOTEMPTY) { try Sys.rename(path("other"), path("empty")) }
  }

  func testFilesAndFoldersDoNotReplaceEachOther() throws {
    try Sys.put(path("f"), "x")
    try Sys.makeFolder(path("d"))
    assertErrno(.EISDIR) { try Sys.rename(path("f"), path("d")) }
    assertErrno(.ENOTDIR) { try Sys.rename(path("d"), path("f")) }
  }

  func testAFolderCannotMoveBelowItself() throws {
    try Sys.makeFolders(path("a/b/c"))
    assertErrno(.EINVAL) { try Sys.rename(path("a"), path("a/b/c/a")) }
    assertErrno(.EINVAL) { try Sys.rename(path("a"), path("a/x")) }
    assertErrno(.ENOTEMPTY) { try Sys.rename(path("a/b/c"), path("a")) }
  }

  func testWhatIsMissing() throws {
    assertErrno(.ENOENT) { try Sys.rename(path("none"), path("x")) }
    try Sys.put(path("f"), "x")
    assertErrno(.ENOENT) { try Sys.rename(path("f"), path("none/x")) }
    assertErrno(.ENOTDIR) { try Sys.rename(path("f"), path("f/x")) }
  }

  func testToItself() throws {
    try Sys.put(path("f"), "x")
    try Sys.rename(path("f"), path("f"))
    XCTAssertEqual(try Sys.text(path("f")), "x")
  }

  func testNoReplace() throws {
    try Sys.put(path("a"), "a")
    try Sys.put(path("b"), "b")
    assertErrno(.EEXIST) { try Sys.rename(path("a"), path("b"), flags: noReplace) }
    try Sys.rename(path("a"), path("c"), flags: noReplace)
    XCTAssertEqual(try Sys.names(folder), ["b", "c"])
    XCTAssertEqual(try Sys.text(path("b")), "b")
  }

  func testExchangeOfFiles() throws {
    try Sys.put(path("a"), "a")
    try Sys.put(path("b"), "b")
    try Sys.rename(path("a"), path("b"), flags: exchange)
    XCTAssertEqual([try Sys.text(path("a")), try Sys.text(path("b"))], ["b", "a"])
    assertErrno(.ENOENT) { try Sys.rename(path("a"), path("none"), flags: exchange) }
  }

  func testExchangeOfAFileAndANonEmptyFolder() throws {
    try Sys.put(path("f"), "file")
    try Sys.makeFolders(path("x/d"))
    try Sys.put(path("x/d/g"), "inside")
    try Sys.rename(path("f"), path("x/d"), flags: exchange)
    XCTAssertEqual(try Sys.text(path("x/d")), "file")
    XCTAssertEqual(try Sys.text(path("f/g")), "inside")
    XCTAssertEqual(try Sys.info(path("f/..")).st_ino, try Sys.info(folder).st_ino)
  }

  func testFlagsExcludeEachOther() throws {
    try Sys.put(path("a"), "a")
    try Sys.put(path("b"), "b")
    assertErrno(.EINVAL) { try Sys.rename(path("a"), path("b"), flags: noReplace | exchange) }
    assertErrno(.EINVAL) { try Sys.rename(path("a"), path("b"), flags: 1 << 10) }
  }

  func testAnOpenFileFollowsItsName() throws {
    let file = try OpenFile(path("a"), O_RDWR | O_CREAT)
    try file.write("one")
    try Sys.makeFolder(path("d"))
    try Sys.rename(path("a"), path("d/b"))
    try file.write(" two", at: 3)
    XCTAssertEqual(try Sys.text(path("d/b")), "one two")
  }

  func testAnOpenTargetLivesOn() throws {
    try Sys.put(path("target"), "old")
    let writer = try OpenFile(path("target"), O_RDWR)
    try Sys.put(path("source"), "new")
    try Sys.rename(path("source"), path("target"))
    try writer.write("OLD and longer", at: 0)
    XCTAssertEqual(try Sys.text(path("target")), "new")
    XCTAssertEqual(try writer.text(100, at: 0), "OLD and longer")
  }

  func testAMovedTreeKeepsItsContents() throws {
    let outcome = shell(
      """
      mkdir -p a/b/c && echo 1 >a/f && echo 2 >a/b/f && ln -s ../f a/b/c/l && mkdir to
      mv a to/x && cat to/x/f to/x/b/f && readlink to/x/b/c/l && ls a 2>&1 | grep -c 'No such'
      """)
    XCTAssertEqual(outcome.lines, ["1", "2", "../f", "1"], outcome.description)
  }

  func testReadersNeverMissAFileThatIsReplaced() throws {
    let outcome = shell(
      """
      echo start >f
      (for i in $(seq 300); do echo "$i" >new; mv new f; done) &
      while kill -0 $! 2>/dev/null; do cat f >/dev/null || echo missing; done
      """)
    XCTAssertEqual(outcome.text, "", outcome.description)
    XCTAssertEqual(outcome.errors, "")
  }

  func testSymlinksAreMovedThemselves() throws {
    try Sys.put(path("f"), "x")
    try Sys.symlink("f", at: path("l"))
    try Sys.rename(path("l"), path("m"))
    XCTAssertEqual(try Sys.readlink(path("m")), "f")
    try Sys.put(path("g"), "y")
    try Sys.rename(path("g"), path("m"))
    XCTAssertEqual(try Sys.text(path("f")), "x", "the link was replaced, not what it points to")
  }
}
