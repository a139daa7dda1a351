import Containers
import StorageErrors
import TestSupport
import XCTest

@testable import DocsEngine

/// A file that another device replaces while it is open here. No handle ever sees a mix of two versions.
final class RemoteVersionTests: XCTestCase {
  private let long = String(repeating: "old bytes ", count: 300_000)

  func testAnOldHandleKeepsItsBytes() throws {
    let bench = try VolumeBench(["doc": "old"])
    let handle = try bench.driver.open("doc")
    XCTAssertEqual(try bench.driver.readAll(handle), Array("old".utf8))
    XCTAssert(bench.fetchesEnd())
    let before = try bench.driver.entry("doc")
    try bench.write("doc", "a newer one")
    try bench.volume.refresh(path("doc"))
    let after = try bench.driver.entry("doc")
    XCTAssertNotEqual(after.node, before.node, "a new node")
    XCTAssertEqual(after.attributes.id, before.attributes.id, "of the same inode number")
    XCTAssertEqual(after.attributes.size, 11)
    XCTAssert(bench.driver.cache.events.contains(.entry(.root, SampleItems.name("doc"))))
    XCTAssertEqual(try bench.driver.readAll(handle), Array("old".utf8))
    XCTAssertEqual(try bench.driver.text("doc"), "a newer one")
    bench.driver.release(handle)
    bench.driver.forgetAll()
    XCTAssertEqual(try bench.driver.text("doc"), "a newer one")
  }

  func testAnOldHandleOfAPlaceholderIsStale() throws {
    let bench = try VolumeBench(["doc": long]) { $0.materialize = .range }
    let handle = try bench.driver.open("doc")
    defer { bench.driver.release(handle) }
    let start = try bench.driver.read(handle, 0, 10)
    XCTAssertEqual(start, Array("old bytes ".utf8))
    XCTAssert(bench.fetchesEnd())
    try bench.write("doc", "new")
    XCTAssertThrowsError(try bench.driver.read(handle, 2 << 20, 10)) { XCTAssertEqual($0 as? Errno, .ESTALE) }
    XCTAssertEqual(try bench.driver.read(handle, 0, 10), start, "what is there is still the old version's")
    XCTAssert(try eventually { try bench.driver.attributes("doc").size == 3 })
    XCTAssertEqual(try bench.driver.text("doc"), "new")
  }

  func testAVersionThatChangesUnderAFetchIsNeverMixed() throws {
    let bench = try VolumeBench(["doc": long])
    bench.gate.hold(.read, .piece)
    let handle = try bench.driver.open("doc")
    defer { bench.driver.release(handle) }
    let read = bench.driver.beginRead(handle, 0, 10)
    XCTAssert(bench.gate.waitUntilHeld())
    try bench.write("doc", String(repeating: "NEW BYTES ", count: 300_000))
    bench.gate.open()
    switch read.result() {
    case .success(let result): XCTAssertEqual(try VolumeDriver.bytes(result), Array("old bytes ".utf8))
    case .failure(let errno): XCTAssertEqual(errno, .ESTALE)
    }
    // Until the change has been noticed, a new handle is stale as well.
    let new = Array(String(repeating: "NEW BYTES ", count: 300_000).utf8)
    XCTAssert(eventually { (try? bench.driver.read("doc")) == new })
  }

  func testAnOldHandleThatWritesMakesAFileOfItsOwn() throws {
    let bench = try VolumeBench(["doc": "old"])
    let handle = try bench.driver.open("doc", writes: true)
    XCTAssertEqual(try bench.driver.readAll(handle), Array("old".utf8))
    XCTAssert(bench.fetchesEnd())
    try bench.write("doc", "newer")
    try bench.volume.refresh(path("doc"))
    XCTAssertEqual(try bench.driver.text("doc"), "newer")
    try bench.driver.write(handle, 0, Array("OLD".utf8))
    bench.driver.release(handle)
    bench.idle()
    let names = try bench.driver.list()
    XCTAssertEqual(names.count, 2)
    let conflict = try XCTUnwrap(names.first { $0.contains("conflict") })
    XCTAssertEqual(try bench.driver.text(conflict), "OLD")
    XCTAssertEqual(try bench.text(conflict), "OLD")
    XCTAssertEqual(try bench.text("doc"), "newer")
  }

  func testOurOwnUploadIsNoRemoteChange() throws {
    let bench = try VolumeBench(["doc": "old"])
    let node = try bench.driver.node("doc")
    let handle = try bench.driver.open("doc")
    try bench.driver.patch("doc", 0, Array("new".utf8))
    bench.idle()
    try bench.volume.refresh(path(""))
    XCTAssertEqual(try bench.driver.node("doc"), node)
    XCTAssertEqual(
      try bench.driver.readAll(handle), Array("new".utf8), "one lineage: old handles see local writes")
    XCTAssertEqual(try bench.state("doc"), "materialized")
    bench.driver.release(handle)
  }

  func testWhatIsRemovedElsewhereStaysReadableWhereItIsOpen() throws {
    let bench = try VolumeBench(["doc": "old", "other": "1"])
    let handle = try bench.driver.open("doc")
    XCTAssertEqual(try bench.driver.readAll(handle), Array("old".utf8))
    XCTAssert(bench.fetchesEnd())
    try bench.remove("doc")
    XCTAssert(try eventually { try !bench.driver.exists("doc") })
    XCTAssertEqual(try bench.driver.readAll(handle), Array("old".utf8))
    bench.driver.release(handle)
    XCTAssertEqual(try bench.driver.list(), ["other"])
  }

  func testWhatIsRemovedElsewhereTakesNoWritesThatNobodyWouldFind() throws {
    let bench = try VolumeBench(["doc": "old"])
    let handle = try bench.driver.open("doc", writes: true)
    XCTAssertEqual(try bench.driver.readAll(handle), Array("old".utf8))
    XCTAssert(bench.fetchesEnd())
    try bench.remove("doc")
    XCTAssert(try eventually { try !bench.driver.exists("doc") })
    XCTAssertThrowsError(try bench.driver.write(handle, 0, [1])) { XCTAssertEqual($0 as? Errno, .ESTALE) }
    bench.driver.release(handle)
  }

  /// The poll is far away: the feed follows a folder to its new path, wherever it was moved.
  func testAFolderIsFollowedAfterItHasMoved() throws {
    let bench = try VolumeBench(["a/b/doc": "1", "c/b/doc": "1"]) { $0.poll = 3600 }
    XCTAssertEqual(try bench.driver.list("a/b"), ["doc"])
    XCTAssertEqual(try bench.driver.list("c/b"), ["doc"])
    try bench.driver.rename("a", "moved here")
    bench.idle()
    try bench.write("moved here/b/new", "2")
    XCTAssert(try eventually { try bench.driver.list("moved here/b") == ["doc", "new"] })
    try bench.move("c", "moved there")
    XCTAssert(try eventually { try bench.driver.exists("moved there/b/doc") })
    try bench.write("moved there/b/new", "2")
    XCTAssert(try eventually { try bench.driver.list("moved there/b") == ["doc", "new"] })
  }

  /// The folder is missing at its old place too, and is found again; what was in it is not.
  func testWhatIsRemovedBeforeItsFolderMovesIsGone() throws {
    let bench = try VolumeBench(["d/f": "x", "d/deep/g": "y", "d/stays": "z"])
    XCTAssertEqual(try bench.driver.list("d"), ["deep", "f", "stays"])
    XCTAssertEqual(try bench.driver.list("d/deep"), ["g"])
    try bench.remove("d/f")
    try bench.remove("d/deep/g")
    try bench.move("d", "e")
    XCTAssert(
      eventually { (try? bench.driver.list("e")) == ["deep", "stays"] }, "\((try? bench.driver.list("e")) ?? [])")
    XCTAssert(eventually { (try? bench.driver.list("e/deep")) == [] })
    XCTAssertEqual(try bench.driver.list(), ["e"])
  }

  func testWhatIsMovedElsewhereKeepsItsIdentity() throws {
    let bench = try VolumeBench(["a/doc": "text", "b/x": "1"])
    XCTAssertEqual(try bench.driver.text("a/doc"), "text")
    XCTAssert(bench.fetchesEnd())
    _ = try bench.driver.list("b")
    let id = try bench.driver.attributes("a/doc").id
    try bench.move("a/doc", "b/letter")
    XCTAssert(try eventually { try bench.driver.list("b") == ["letter", "x"] })
    XCTAssert(try eventually { try bench.driver.list("a").isEmpty })
    XCTAssertEqual(try bench.driver.attributes("b/letter").id, id)
    XCTAssertEqual(try bench.state("b/letter"), "materialized", "nothing is fetched again")
  }

  // MARK: - Names whose new version nobody has seen

  /// `doc` was seen here with the text "old"; somebody has written "newer" since, and the kernel has not heard of it.
  private func overtaken() throws -> VolumeBench {
    let bench = try VolumeBench(["doc": "old"])
    XCTAssertEqual(try bench.driver.text("doc"), "old")
    XCTAssert(bench.fetchesEnd())
    try bench.write("doc", "newer")
    try bench.volume.refresh(path("doc"))
    return bench
  }

  func testAVersionThatNobodyHasSeenIsNotRemoved() throws {
    let bench = try overtaken()
    try bench.driver.unlink("doc")
    bench.idle()
    XCTAssertEqual(try bench.text("doc"), "newer")
    XCTAssertEqual(try bench.driver.text("doc"), "newer", "it comes back")
    try bench.driver.unlink("doc")
    bench.idle()
    XCTAssertEqual(try bench.names(), [], "it has been seen")
  }

  func testAVersionThatNobodyHasSeenIsNotReplaced() throws {
    let bench = try overtaken()
    try bench.driver.write("mine", "mine")
    try bench.driver.rename("mine", "doc")
    bench.idle()
    XCTAssertEqual(try bench.text("doc"), "newer")
    let names = try bench.names()
    XCTAssertEqual(names.count, 2, "\(names)")
    XCTAssertEqual(try names.filter { $0.contains("conflict") }.map { try bench.text($0) }, ["mine"])
  }

  /// The bytes of the old version are gone: it must not open as an empty file, nor take what is written.
  func testANameThatLeadsElsewhereIsLookedUpAnew() throws {
    let bench = try VolumeBench(["doc": "old"])
    XCTAssertEqual(try bench.driver.text("doc"), "old")
    XCTAssert(bench.fetchesEnd())
    let node = try bench.driver.node("doc")
    try bench.write("doc", "newer")
    try bench.volume.refresh(path("doc"))
    for writes in [false, true] {
      XCTAssertThrowsError(try bench.driver.beginOpen(node, writes: writes).get()) {
        XCTAssertEqual($0 as? Errno, .ESTALE)
      }
    }
    let handle = try bench.driver.beginOpen(node, truncates: true).get()
    XCTAssertEqual(try bench.driver.beginWrite(handle, 0, Array("mine".utf8)).get(), 4)
    bench.driver.release(handle)
    bench.idle()
    XCTAssertEqual(try bench.text("doc"), "newer")
    XCTAssertEqual(try bench.names().filter { $0.contains("conflict") }.map { try bench.text($0) }, ["mine"])
  }

  func testTheOtherSideOfAConflictIsNotRemovedUnseen() throws {
    let bench = try VolumeBench(["doc": "old"])
    bench.gate.hold(.put, .before)
    try bench.driver.write("doc", "mine")
    XCTAssert(bench.gate.waitUntilHeld())
    try bench.write("doc", "newer")
    bench.gate.open()
    XCTAssert(try eventually { try bench.driver.list().count == 2 })
    try bench.driver.unlink("doc")
    bench.idle()
    XCTAssertEqual(try bench.text("doc"), "newer")
    XCTAssertEqual(try bench.names().count, 2)
  }
}
