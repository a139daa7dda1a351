import CLinux
import StorageErrors
import TestSupport
import XCTest

/// Making, removing and reading folders.
final class FolderTests: PosixTestCase {
  func testMakingAndRemoving() throws {
    try Sys.makeFolder(path("d"), mode: 0o700)
    assertErrno(.EEXIST) { try Sys.makeFolder(path("d")) }
    try Sys.put(path("d/f"), "x")
    assertErrno(.ENOTEMPTY) { try Sys.removeFolder(path("d")) }
    assertErrno(.ENOTDIR) { try Sys.removeFolder(path("d/f")) }
    assertErrno(.EISDIR) { try Sys.remove(path("d")) }
    try Sys.remove(path("d/f"))
    try Sys.removeFolder(path("d"))
    assertErrno(.ENOENT) { try Sys.removeFolder(path("d")) }
    assertErrno(.ENOENT) { try Sys.makeFolder(path("missing/d")) }
    assertErrno(.EINVAL) { try Sys.removeFolder(path(".")) }
  }

  func testListingsTellTypesAndInodes() throws {
    try Sys.put(path("file"), "x")
    try Sys.makeFolder(path("folder"))
    try Sys.symlink("file", at: path("link"))
    let names = try OpenFolder(folder).rest()
    XCTAssertEqual(names.map(\.text).sorted(), [".", "..", "file", "folder", "link"])
    let types = Dictionary(uniqueKeysWithValues: names.map { ($0.text, Int($0.type)) })
    XCTAssertEqual(types["file"], Int(DT_REG))
    XCTAssertEqual(types["folder"], Int(DT_DIR))
    XCTAssertEqual(types["link"], Int(DT_LNK))
    for name in names where name.text != ".." {
      XCTAssertEqual(name.inode, UInt64(try Sys.info(path(name.text)).st_ino), name.text)
    }
  }

  func testPositionsStayValidWhileTheFolderChanges() throws {
    try fill("d", 300)
    let stream = try OpenFolder(path("d"))
    let first = try stream.next(100)
    let position = first.last!.position
    for name in try stream.next(50) where name.text.hasPrefix("f") { try Sys.remove(path("d/" + name.text)) }
    for index in 0..<50 { try Sys.put(path("d/new\(index)"), "") }
    stream.seek(position)
    let rest = try stream.rest().map(\.text)
    let seen = first.map(\.text) + rest
    XCTAssertEqual(seen.count, Set(seen).count, "no name twice")
    let stayed = try Sys.names(path("d")).filter { $0.hasPrefix("f") }
    XCTAssertTrue(Set(seen).isSuperset(of: stayed), "no name that stayed is missing")
  }

  func testRemovingWhileReadingVisitsEverything() throws {
    try fill("d", 1_000)
    let stream = try OpenFolder(path("d"))
    var removed = 0
    while let name = try stream.next() {
      guard name.text.hasPrefix("f") else { continue }
      try Sys.remove(path("d/" + name.text))
      removed += 1
    }
    XCTAssertEqual(removed, 1_000)
    XCTAssertEqual(try Sys.names(path("d")), [])
    XCTAssertTrue(shell("rm -r d").succeeded)
  }

  func testAPositionOfEveryEntryLeadsToTheNext() throws {
    try fill("d", 60)
    let stream = try OpenFolder(path("d"))
    let all = try stream.rest()
    for index in stride(from: 0, to: all.count - 1, by: 7) {
      stream.seek(all[index].position)
      XCTAssertEqual(try stream.next()?.text, all[index + 1].text)
    }
  }

  func testRewindingShowsWhatIsNew() throws {
    try fill("d", 10)
    let stream = try OpenFolder(path("d"))
    XCTAssertEqual(try stream.rest().count, 12)
    try Sys.put(path("d/late"), "")
    try Sys.remove(path("d/f3"))
    stream.rewind()
    let names = try stream.rest().map(\.text)
    XCTAssertTrue(names.contains("late"))
    XCTAssertFalse(names.contains("f3"))
  }

  func testReadersOfOneFolderAreIndependent() throws {
    try fill("d", 50)
    let a = try OpenFolder(path("d"))
    let b = try OpenFolder(path("d"))
    let early = try a.next(10)
    XCTAssertEqual(try b.rest().count, 52)
    XCTAssertEqual(try early.count + a.rest().count, 52)
  }

  func testAnOpenFolderMayBeRemovedOrRenamed() throws {
    try fill("d", 5)
    let stream = try OpenFolder(path("d"))
    try Sys.rename(path("d"), path("e"))
    XCTAssertEqual(try stream.rest().count, 7)
    XCTAssertTrue(shell("rm -r e").succeeded)
    stream.rewind()
    XCTAssertEqual(try stream.rest().filter { $0.text.hasPrefix("f") }.count, 0)
  }

  func testManyNames() throws {
    try fill("d", 3_000)
    XCTAssertEqual(try Sys.names(path("d")).count, 3_000)
    XCTAssertEqual(shell("ls -l d | wc -l; find d -type f | wc -l").lines, ["3001", "3000"])
  }

  func testDeepFolders() throws {
    let outcome = shell(
      """
      for i in $(seq 60); do mkdir sub && cd sub; done; echo deep >f; cat f; pwd | tr -cd / | wc -c
      """)
    XCTAssertEqual(outcome.lines.first, "deep", outcome.description)
    XCTAssertTrue(shell("rm -r sub").succeeded)
  }

  func testDotDotLeadsUp() throws {
    try Sys.makeFolders(path("a/b"))
    XCTAssertEqual(try Sys.info(path("a/b/..")).st_ino, try Sys.info(path("a")).st_ino)
    try Sys.makeFolder(path("c"))
    try Sys.rename(path("a/b"), path("c/b"))
    XCTAssertEqual(try Sys.info(path("c/b/..")).st_ino, try Sys.info(path("c")).st_ino)
  }

  private func fill(_ name: String, _ count: Int) throws {
    try Sys.makeFolder(path(name))
    for index in 0..<count { try Sys.put(path("\(name)/f\(index)"), "") }
  }
}
