import Containers
import StorageErrors
import TestSupport
import XCTest

@testable import DocsEngine

/// The process is killed, and another one mounts what it left. Nothing that was answered is lost, and nothing that
/// the container has already got goes there twice or is taken for somebody else's.
final class KilledTests: XCTestCase {
  func testEveryAnsweredChangeIsThere() throws {
    let bench = try VolumeBench(["old/doc": "1", "old/gone": "2"]) { $0.uploadDelay = 3600 }
    let driver = bench.driver
    let handle = try driver.create("open")
    for index in 0..<20 { try driver.write("file \(index)", "text \(index)") }
    try driver.makeFolder("folder")
    try driver.rename("file 3", "folder/three")
    try driver.unlink("file 4")
    try driver.unlink("old/gone")
    try driver.rename("old/doc", "doc")
    try driver.change("doc") { $0.mode = 0o600 }
    try driver.setXattr("doc", "user.tag", "blue")
    try driver.write(handle, 5, Array("late".utf8))
    try bench.crash()
    let names = try bench.driver.list()
    let expected =
      (0..<20).filter { $0 != 3 && $0 != 4 }.map { "file \($0)" } + ["doc", "folder", "old", "open"]
    XCTAssertEqual(names, expected.sorted())
    XCTAssertEqual(try bench.driver.list("old"), [])
    XCTAssertEqual(try bench.driver.text("folder/three"), "text 3")
    XCTAssertEqual(try bench.driver.text("file 19"), "text 19")
    XCTAssertEqual(try bench.driver.text("doc"), "1")
    XCTAssertEqual(try bench.driver.attributes("doc").mode, 0o600)
    XCTAssertEqual(try bench.driver.xattr("doc", "user.tag"), "blue")
    XCTAssertEqual(try bench.driver.read("open"), [0, 0, 0, 0, 0] + Array("late".utf8))
    bench.idle()
    XCTAssertEqual(try bench.names(), names)
    XCTAssertEqual(try bench.bytes("open"), [0, 0, 0, 0, 0] + Array("late".utf8))
    XCTAssertEqual(try bench.names("old"), [])
  }

  func testItemsKeepTheirNumbersAndNoneIsUsedAgain() throws {
    let bench = try VolumeBench { $0.uploadDelay = 3600 }
    for index in 0..<10 { try bench.driver.write("\(index)", "x") }
    let numbers = try (0..<10).map { try bench.driver.attributes("\($0)").id }
    try bench.driver.unlink("9")
    try bench.crash()
    XCTAssertEqual(try (0..<9).map { try bench.driver.attributes("\($0)").id }, Array(numbers.dropLast()))
    try bench.driver.write("new", "x")
    XCTAssertFalse(numbers.contains(try bench.driver.attributes("new").id))
  }

  /// Kills the process when the container has done `operation`, and its answer is still to come.
  private func killAfter(
    _ operation: ContainerCall.Operation, _ files: [String: String] = [:],
    _ change: (VolumeDriver) throws -> Void,
    edit: ((VolumeDriver) throws -> Void)? = nil
  ) throws -> VolumeBench {
    let bench = try VolumeBench(files)
    for path in files.keys { _ = try bench.driver.read(path) }
    bench.gate.hold(operation, .after)
    try change(bench.driver)
    XCTAssert(bench.gate.waitUntilHeld())
    try edit?(bench.driver)
    try bench.crash()
    bench.idle()
    return bench
  }

  func testALostPutIsRecognised() throws {
    let bench = try killAfter(.put, [:]) { try $0.write("doc", "text") }
    XCTAssertEqual(bench.gate.mutations.filter { !$0.hasPrefix("setAttributes") }, [], "it went up twice")
    XCTAssertEqual(try bench.names(), ["doc"])
    XCTAssertEqual(try bench.driver.list(), ["doc"])
    XCTAssertEqual(try bench.text("doc"), "text")
  }

  func testALostReplacementIsRecognised() throws {
    let bench = try killAfter(.put, ["doc": "old"]) { try $0.write("doc", "new") }
    XCTAssertEqual(try bench.names(), ["doc"])
    XCTAssertEqual(try bench.driver.list(), ["doc"])
    XCTAssertEqual(try bench.text("doc"), "new")
    XCTAssertEqual(try bench.driver.text("doc"), "new")
  }

  func testEditsAfterALostPutReplaceIt() throws {
    let bench = try killAfter(
      .put, ["doc": "old"], { try $0.write("doc", "new") }, edit: { try $0.write("doc", "newest") })
    XCTAssertEqual(try bench.names(), ["doc"], "our own version is no conflict")
    XCTAssertEqual(try bench.text("doc"), "newest")
    XCTAssertEqual(try bench.driver.text("doc"), "newest")
  }

  func testARemovalAfterALostPutRemovesIt() throws {
    let bench = try killAfter(.put, [:], { try $0.write("doc", "text") }, edit: { try $0.unlink("doc") })
    XCTAssertEqual(try bench.names(), [])
    XCTAssertEqual(try bench.driver.list(), [])
  }

  func testARenameAfterALostPutMovesIt() throws {
    let bench = try killAfter(
      .put, [:], { try $0.write("doc", "text") }, edit: { try $0.rename("doc", "letter") })
    XCTAssertEqual(try bench.names(), ["letter"])
    XCTAssertEqual(try bench.driver.list(), ["letter"])
  }

  func testALostFolderIsRecognised() throws {
    let bench = try killAfter(.makeFolder) {
      try $0.makeFolder("folder")
      try $0.write("folder/doc", "text")
    }
    XCTAssertEqual(try bench.names(), ["folder"])
    XCTAssertEqual(try bench.text("folder/doc"), "text")
    XCTAssertEqual(try bench.driver.list(), ["folder"])
  }

  func testALostSymlinkIsRecognised() throws {
    let bench = try killAfter(.makeSymlink) { try $0.makeSymlink("link", target: "there") }
    XCTAssertEqual(try bench.names(), ["link"])
    XCTAssertEqual(try bench.driver.list(), ["link"])
  }

  func testALostRenameIsRecognised() throws {
    for path in ["doc", "folder/doc"] {
      let bench = try killAfter(.rename, [path: "text"]) {
        try $0.rename(path == "doc" ? "doc" : "folder", "new")
      }
      XCTAssertEqual(try bench.names(), ["new"])
      XCTAssertEqual(try bench.driver.list(), ["new"])
      XCTAssertEqual(try bench.driver.text(path == "doc" ? "new" : "new/doc"), "text")
    }
  }

  func testALostRemovalIsRecognised() throws {
    let bench = try killAfter(.remove, ["doc": "text", "other": "1"]) { try $0.unlink("doc") }
    XCTAssertEqual(try bench.names(), ["other"])
    XCTAssertEqual(try bench.driver.list(), ["other"])
  }

  /// Killed before the container has heard of anything: it is done now.
  func testWhatHasNotGoneOutGoesOut() throws {
    let bench = try VolumeBench(["old": "1"])
    XCTAssertEqual(try bench.driver.text("old"), "1")
    bench.gate.hold(.put)
    bench.gate.hold(.remove)
    try bench.driver.write("doc", "text")
    try bench.driver.unlink("old")
    XCTAssert(bench.gate.waitUntilHeld(2))
    try bench.crash()
    bench.idle()
    XCTAssertEqual(try bench.names(), ["doc"])
    XCTAssertEqual(try bench.text("doc"), "text")
  }

  /// Somebody else replaced what went up, before it could be recognised.
  func testALostPutThatSomebodyReplacedIsKeptBeside() throws {
    let bench = try VolumeBench()
    bench.gate.hold(.put, .after)
    try bench.driver.write("doc", "mine")
    XCTAssert(bench.gate.waitUntilHeld())
    try bench.crash { try bench.write("doc", "theirs") }
    bench.idle()
    let names = try bench.names()
    XCTAssertEqual(try bench.text("doc"), "theirs")
    XCTAssertEqual(try bench.driver.list(), names)
    XCTAssertEqual(try Set(names.map { try bench.text($0) }), ["mine", "theirs"])
  }

  func testBytesThatWereFetchedAreNotTrustedBeyondWhatIsSafe() throws {
    let text = String(repeating: "0123456789", count: 1_000_000)
    let bench = try VolumeBench(["film": text])
    bench.gate.hold(.read) { ($0.range?.lowerBound ?? 0) > 0 }
    let handle = try bench.driver.open("film")
    XCTAssertEqual(try bench.driver.read(handle, 0, 10), Array("0123456789".utf8))
    XCTAssert(bench.gate.waitUntilHeld())
    try bench.crash()
    XCTAssertEqual(try bench.driver.text("film"), text)
  }
}
