import Containers
import StorageErrors
import TestSupport
import XCTest

@testable import DocsEngine

final class UploadTests: XCTestCase {
  private func conflicts(_ names: [String]) -> [String] { names.filter { $0.contains(" (conflict ") } }

  func testEverySortOfChangeArrives() throws {
    let bench = try VolumeBench(["old/doc": "1", "old/gone": "2"])
    let driver = bench.driver
    try driver.makeFolder("new")
    try driver.write("new/file", "text")
    try driver.makeSymlink("new/link", target: "../old/doc")
    try driver.unlink("old/gone")
    try driver.rename("old/doc", "new/doc")
    try driver.change("new/doc") { $0.mode = 0o600 }
    try driver.removeFolder("old")
    bench.idle()
    XCTAssertEqual(try bench.names(), ["new"])
    XCTAssertEqual(try bench.names("new"), ["doc", "file", "link"])
    XCTAssertEqual(try bench.text("new/file"), "text")
    XCTAssertEqual(
      try FileManager.default.destinationOfSymbolicLink(atPath: bench.container + "/new/link"), "../old/doc")
    let mode = try FileManager.default.attributesOfItem(atPath: bench.container + "/new/doc")[
      .posixPermissions]
    XCTAssertEqual(mode as? Int, 0o600)
    XCTAssertEqual(bench.volume.status().dirtyItems, 0)
  }

  // MARK: The least work

  func testStormsThatEndInNothingSendNothing() throws {
    let bench = try VolumeBench(["doc": "1"])
    bench.volume.pause()
    let driver = bench.driver
    for round in 0..<50 {
      let handle = try driver.create("lock")
      try driver.write(handle, 0, Array("\(round)".utf8))
      try driver.rename("lock", "lock.\(round)")
      try driver.write(handle, 1, [1])
      driver.release(handle)
      try driver.unlink("lock.\(round)")
      try driver.makeFolder("folder")
      try driver.write("folder/x", "y")
      try driver.rename("folder", "other")
      try driver.unlink("other/x")
      try driver.removeFolder("other")
      try driver.rename("doc", "doc2")
      try driver.rename("doc2", "doc")
    }
    bench.volume.resume()
    bench.idle()
    XCTAssertEqual(bench.gate.mutations, [])
    XCTAssertEqual(bench.volume.status().items, 2, "the root and the document")
    bench.driver.forgetAll()
    try bench.remount()
    XCTAssertEqual(try bench.driver.list(), ["doc"])
  }

  func testManyWritesAreOneUpload() throws {
    let bench = try VolumeBench()
    bench.volume.pause()
    let handle = try bench.driver.create("doc")
    for index in 0..<100 { try bench.driver.write(handle, Int64(index), [0x61]) }
    bench.driver.release(handle)
    try bench.driver.rename("doc", "letter")
    bench.volume.resume()
    bench.idle()
    XCTAssertEqual(bench.gate.mutations, ["put letter"])
    XCTAssertEqual(try bench.text("letter"), String(repeating: "a", count: 100))
  }

  func testAnEditorsSaveIsOneReplacement() throws {
    let bench = try VolumeBench(["doc": "old"])
    bench.volume.pause()
    try bench.driver.write("doc.tmp", "new")
    try bench.driver.rename("doc.tmp", "doc")
    bench.volume.resume()
    bench.idle()
    XCTAssertEqual(bench.gate.mutations, ["put doc"], "at no moment there is no document")
    XCTAssertEqual(try bench.text("doc"), "new")
    XCTAssertEqual(try bench.names(), ["doc"])
  }

  func testSwappedNamesEndAsTheyShould() throws {
    let bench = try VolumeBench(["a": "1", "b": "2", "f/x": "3", "g/x": "4"])
    try bench.driver.rename("a", "b", .exchange)
    try bench.driver.rename("f", "g", .exchange)
    bench.idle()
    XCTAssertEqual(try ["a", "b", "f/x", "g/x"].map { try bench.text($0) }, ["2", "1", "4", "3"])
    XCTAssertEqual(try bench.names(), ["a", "b", "f", "g"])
  }

  func testAFolderThatMovesWhileItsFilesGoUp() throws {
    let bench = try VolumeBench()
    try bench.driver.makeFolder("a")
    for index in 0..<20 { try bench.driver.write("a/\(index)", "text \(index)") }
    bench.gate.hold(.put)
    XCTAssert(bench.gate.waitUntilHeld())
    try bench.driver.rename("a", "b")
    try bench.driver.write("b/last", "one")
    bench.gate.open()
    bench.idle()
    XCTAssertEqual(try bench.names(), ["b"])
    XCTAssertEqual(try bench.names("b").count, 21)
    XCTAssertEqual(try bench.text("b/7"), "text 7")
    XCTAssertEqual(try bench.driver.list("b").count, 21)
  }

  func testWhatIsWrittenDuringItsUploadGoesUpToo() throws {
    let bench = try VolumeBench()
    try bench.driver.write("doc", "one")
    bench.gate.hold(.put, .after)
    XCTAssert(bench.gate.waitUntilHeld())
    try bench.driver.write("doc", "two")
    bench.gate.open()
    bench.idle()
    XCTAssertEqual(try bench.text("doc"), "two")
    XCTAssertEqual(try bench.driver.list(), ["doc"])
  }

  /// The first file of the name is just going up when it is deleted and made anew.
  func testANewFileWaitsForTheLastOneOfItsName() throws {
    let bench = try VolumeBench()
    bench.gate.hold(.put, .after)
    try bench.driver.write("doc", "one")
    XCTAssert(bench.gate.waitUntilHeld())
    try bench.driver.unlink("doc")
    try bench.driver.write("doc", "two")
    // Time for the second one to go wrong.
    usleep(300_000)
    bench.gate.open()
    bench.idle()
    XCTAssertEqual(try bench.driver.list(), ["doc"])
    XCTAssertEqual(try bench.names(), ["doc"])
    XCTAssertEqual(try bench.text("doc"), "two")
  }

  // MARK: Failures

  func testAFailedUploadIsTriedAgain() throws {
    let bench = try VolumeBench()
    bench.gate.fail(.put, .timedOut, times: 1)
    try bench.driver.write("doc", "text")
    XCTAssert(eventually { bench.volume.status().failing.first?.path == "doc" })
    XCTAssertEqual(try bench.driver.text("doc"), "text", "the bytes are as safe as before")
    bench.idle()
    XCTAssertEqual(try bench.text("doc"), "text")
    XCTAssertEqual(try bench.sync("doc"), "current")
    XCTAssert(bench.volume.status().failing.isEmpty)
  }

  func testAFailingItemBlocksOnlyWhatDependsOnIt() throws {
    let bench = try VolumeBench()
    bench.gate.fail(.makeFolder, .permissionDenied, times: .max)
    try bench.driver.makeFolder("folder")
    try bench.driver.write("folder/inside", "1")
    try bench.driver.write("beside", "2")
    XCTAssert(eventually { (try? bench.text("beside")) == "2" })
    XCTAssertEqual(try bench.names(), ["beside"])
    bench.gate.open()
    bench.idle()
    XCTAssertEqual(try bench.text("folder/inside"), "1")
  }

  func testALostAnswerIsNoConflict() throws {
    let bench = try VolumeBench(["doc": "old"])
    XCTAssertEqual(try bench.driver.text("doc"), "old")
    bench.gate.fail(.put, .timedOut, times: 2, .after)
    bench.gate.fail(.makeFolder, .timedOut, times: 1, .after)
    bench.gate.fail(.rename, .timedOut, times: 1, .after)
    try bench.driver.write("doc", "new")
    try bench.driver.write("made", "here")
    try bench.driver.makeFolder("folder")
    bench.idle()
    try bench.driver.rename("doc", "letter")
    bench.idle()
    XCTAssertEqual(try bench.names(), ["folder", "letter", "made"])
    XCTAssertEqual(try bench.text("letter"), "new")
    XCTAssertEqual(try bench.driver.list(), ["folder", "letter", "made"])
  }

  func testALostAnswerOfARemovalIsNoFailure() throws {
    let bench = try VolumeBench(["doc": "old"])
    bench.gate.fail(.remove, .timedOut, times: 1, .after)
    try bench.driver.unlink("doc")
    bench.idle()
    XCTAssertEqual(try bench.names(), [])
    XCTAssertEqual(try bench.driver.list(), [])
  }

  // MARK: Conflicts

  func testBothSidesOfAConflictAreKept() throws {
    let bench = try VolumeBench(["doc.txt": "base"])
    XCTAssertEqual(try bench.driver.text("doc.txt"), "base")
    bench.volume.pause()
    try bench.driver.write("doc.txt", "mine")
    try bench.write("doc.txt", "theirs")
    bench.volume.resume()
    bench.idle()
    let names = try bench.driver.list()
    let mine = try XCTUnwrap(conflicts(names).first)
    XCTAssertEqual(names.count, 2)
    XCTAssert(mine.hasPrefix("doc (conflict ") && mine.hasSuffix(").txt"), mine)
    XCTAssertEqual(try bench.driver.text("doc.txt"), "theirs")
    XCTAssertEqual(try bench.driver.text(mine), "mine")
    XCTAssertEqual(try bench.names(), names)
    XCTAssertEqual(try bench.text("doc.txt"), "theirs")
    XCTAssertEqual(try bench.text(mine), "mine")
    XCTAssertEqual(try bench.sync(mine), "conflict")
  }

  /// While one upload finds out what a mismatch means, no other one of the item begins.
  func testAConflictIsResolvedOnce() throws {
    let bench = try VolumeBench(["doc": "base"])
    XCTAssertEqual(try bench.driver.text("doc"), "base")
    bench.volume.pause()
    try bench.driver.write("doc", "mine")
    try bench.write("doc", "theirs")
    bench.gate.hold(.item) { $0.path == path("doc") }
    bench.volume.resume()
    XCTAssert(eventually { bench.gate.count(.put) == 1 })
    XCTAssert(bench.gate.waitUntilHeld())
    bench.volume.resume()
    // Time for a second one to go wrong.
    usleep(300_000)
    bench.gate.open()
    bench.idle()
    let names = try bench.driver.list()
    XCTAssertEqual(names.count, 2, "\(names)")
    XCTAssertEqual(try Set(names.map { try bench.driver.text($0) }), ["mine", "theirs"])
  }

  func testTwoNewFilesOfOneNameAreBothKept() throws {
    let bench = try VolumeBench()
    _ = try bench.driver.list()
    bench.volume.pause()
    try bench.driver.write("doc", "mine")
    try bench.write("doc", "theirs")
    bench.volume.resume()
    bench.idle()
    let names = try bench.driver.list()
    XCTAssertEqual(names.count, 2)
    XCTAssertEqual(try bench.driver.text("doc"), "theirs")
    XCTAssertEqual(try bench.driver.text(try XCTUnwrap(conflicts(names).first)), "mine")
    XCTAssertEqual(try bench.names(), names)
  }

  func testAnEditOutlivesARemovalElsewhere() throws {
    let bench = try VolumeBench(["folder/doc": "base"])
    XCTAssertEqual(try bench.driver.text("folder/doc"), "base")
    bench.volume.pause()
    try bench.driver.write("folder/doc", "mine")
    try bench.remove("folder")
    bench.volume.resume()
    bench.idle()
    XCTAssertEqual(try bench.driver.text("folder/doc"), "mine")
    XCTAssertEqual(try bench.text("folder/doc"), "mine")
  }

  func testANewerVersionOutlivesARemovalHere() throws {
    let bench = try VolumeBench(["doc": "base", "over": "base"])
    XCTAssertEqual(try bench.driver.list(), ["doc", "over"])
    bench.volume.pause()
    try bench.driver.unlink("doc")
    try bench.driver.write("new", "mine")
    try bench.driver.rename("new", "over")
    try bench.write("doc", "theirs")
    try bench.write("over", "theirs")
    bench.volume.resume()
    bench.idle()
    XCTAssertEqual(try bench.text("doc"), "theirs")
    XCTAssertEqual(try bench.text("over"), "theirs")
    XCTAssert(try eventually { try bench.driver.exists("doc") })
    XCTAssertEqual(try bench.driver.text("doc"), "theirs")
    XCTAssertEqual(try bench.driver.text("over"), "theirs")
    let mine = try XCTUnwrap(conflicts(try bench.names()).first)
    XCTAssertEqual(try bench.text(mine), "mine")
  }

  func testWhatSomebodyPutsIntoADeletedFolderBringsItBack() throws {
    let bench = try VolumeBench(["folder/doc": "1"])
    XCTAssertEqual(try bench.driver.list("folder"), ["doc"])
    bench.volume.pause()
    try bench.driver.unlink("folder/doc")
    try bench.driver.removeFolder("folder")
    try bench.write("folder/theirs", "2")
    bench.volume.resume()
    bench.idle()
    XCTAssert(
      try eventually { try bench.driver.exists("folder") && bench.driver.list("folder") == ["theirs"] })
    XCTAssertEqual(try bench.text("folder/theirs"), "2")
  }
}
