import CLinux
import StorageErrors
import TestSupport
import XCTest

/// Files that lose their name while they are open.
final class UnlinkedFileTests: PosixTestCase {
  func testAnUnlinkedOpenFileStaysWhole() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.write("before")
    try Sys.remove(path("f"))
    XCTAssertFalse(Sys.exists(path("f")))
    XCTAssertEqual(try Sys.names(folder), [], "no hidden name in its place")
    XCTAssertEqual(try file.info().st_nlink, 0)
    XCTAssertEqual(try file.text(10, at: 0), "before")
    try file.write(" and after", at: 6)
    try file.truncate(12)
    try file.sync()
    XCTAssertEqual(try file.text(100, at: 0), "before and a")
    XCTAssertEqual(try file.info().st_size, 12)
    XCTAssertEqual(fchmod(file.fd, 0o600), 0)
    XCTAssertEqual(try file.info().permissions, 0o600)
  }

  func testANewFileOfTheSameNameIsAnother() throws {
    let old = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try old.write("old")
    try Sys.remove(path("f"))
    try Sys.put(path("f"), "new!")
    XCTAssertNotEqual(try old.info().st_ino, try Sys.info(path("f")).st_ino)
    try old.write("OLD", at: 0)
    XCTAssertEqual(try old.text(10, at: 0), "OLD")
    XCTAssertEqual(try Sys.text(path("f")), "new!")
  }

  func testItsFolderCanGoFirst() throws {
    try Sys.makeFolder(path("d"))
    let file = try OpenFile(path("d/f"), O_RDWR | O_CREAT)
    try file.write("kept")
    try Sys.remove(path("d/f"))
    try Sys.removeFolder(path("d"))
    XCTAssertEqual(try file.text(10, at: 0), "kept")
  }

  func testAReplacedOpenFileKeepsItsBytes() throws {
    try Sys.put(path("f"), "old")
    let reader = try OpenFile(path("f"), O_RDONLY)
    try Sys.put(path("g"), "new")
    try Sys.rename(path("g"), path("f"))
    XCTAssertEqual(try reader.text(10, at: 0), "old")
    XCTAssertEqual(try reader.info().st_nlink, 0)
    XCTAssertEqual(try Sys.text(path("f")), "new")
  }

  func testAnUnlinkedMappingGoesOn() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.write([UInt8](repeating: 7, count: 8192))
    try file.withMapping(8192) { map in
      try Sys.remove(path("f"))
      map[5000] = 9
      XCTAssertEqual(map[4999], 7)
    }
    XCTAssertEqual(try file.read(1, at: 5000), [9])
  }

  func testARemovedWorkingFolder() throws {
    let outcome = shell("mkdir d && cd d && rmdir ../d && ls -A | wc -l; touch f 2>&1")
    XCTAssertEqual(outcome.lines.first, "0")
    XCTAssertTrue(outcome.text.contains("No such file"), outcome.text)
  }

  func testFilesWithoutANameFromTheStart() throws {
    // open(2) with O_TMPFILE: a mount may answer EOPNOTSUPP, for which every user has another way.
    let flags = Int32(LX_O_TMPFILE) | O_RDWR
    do {
      let file = try OpenFile(folder, flags, mode: 0o600)
      try file.write("anonymous")
      XCTAssertEqual(try file.text(20, at: 0), "anonymous")
      XCTAssertEqual(try Sys.names(folder), [])
    } catch {
      XCTAssertTrue(onMount && error == .EOPNOTSUPP, error.name)
    }
  }
}
