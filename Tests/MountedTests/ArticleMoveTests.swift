import Foundation
import TestSupport
import XCTest

/// The moves of seeds/icloud-documents.md as their author wrote them, in a process of their own.
final class ArticleMoveTests: MountedTestCase {
  private func article(_ volume: MountedVolume, _ what: String) throws -> Outcome {
    let binary = URL(fileURLWithPath: MountedVolume.binary).deletingLastPathComponent().path + "/ArticleMoves"
    try XCTSkipUnless(Sys.exists(binary), "needs \(binary)")
    let home = volume.home + "/home"
    try Sys.makeFolders(home + "/Documents")
    let environment = ["DOCSFS_MOUNT": volume.mountpoint, "CFFIXED_USER_HOME": home, "LC_ALL": "C.UTF-8"]
    let outcome = Shell.run([binary, what], environment: environment)
    XCTAssertEqual(outcome.status, 0, outcome.description)
    return outcome
  }
  private func local(_ volume: MountedVolume, _ name: String) -> String { volume.home + "/home/Documents/" + name }

  func testToICloud() throws {
    let volume = try mount()
    try volume.must("mkdir -p '\(local(volume, "日記/旅"))'; echo one >'\(local(volume, "a.txt"))'")
    try Sys.put(local(volume, "日記/旅/b"), patterned(3 << 20, seed: 1))
    let outcome = try article(volume, "to-icloud")
    XCTAssert(outcome.lines.contains("moved: a.txt"), outcome.description)
    XCTAssert(outcome.lines.contains("moved: 日記"), outcome.description)
    XCTAssertEqual(try Sys.names(volume.home + "/home/Documents"), [])
    try volume.settle()
    XCTAssertEqual(try Sys.text(volume.remote("Documents/a.txt")), "one\n")
    assertBytes(try Sys.contents(volume.remote("Documents/日記/旅/b")), patterned(3 << 20, seed: 1))
    XCTAssertEqual(try volume.remoteNames("Documents"), ["a.txt", "日記"], "nothing of the move is left")
  }

  func testPlaceholdersAndMaterializedFilesToLocal() throws {
    let volume = try mount { try fill($0) }
    _ = try Sys.contents(volume.path("Documents/d/two"))
    let outcome = try article(volume, "to-local-and-remove")
    XCTAssert(outcome.lines.contains("moved: one"), outcome.description)
    try assertIsLocal(volume)
    XCTAssertEqual(try volume.names("Documents"), [])
    try volume.settle()
    XCTAssertEqual(try volume.remoteNames("Documents"), [], "which other devices see, as the article says")
  }

  func testStubsToLocal() throws {
    let volume = try mount("placeholder_style=stub") { try fill($0) }
    XCTAssertEqual(try volume.names("Documents"), [".one.icloud", "d"])
    _ = try article(volume, "to-local-and-remove")
    try assertIsLocal(volume)
    XCTAssertEqual(try volume.names("Documents"), [])
  }

  /// On Apple's systems the copy back throws 516, for the folder is there; on Linux it goes into it.
  func testKeepingTheCloudsCopy() throws {
    let volume = try mount { try fill($0) }
    let outcome = try article(volume, "to-local")
    XCTAssertFalse(outcome.text.contains("516"), outcome.description)
    try assertIsLocal(volume)
    try volume.settle()
    XCTAssertEqual(try Sys.text(volume.remote("Documents/one")), "eins")
    assertBytes(try Sys.contents(volume.remote("Documents/d/two")), patterned(2 << 20, seed: 2))
  }

  func testWithoutTheContainerNothingIsLost() throws {
    let volume = try mount("poll=1") { try fill($0) }
    _ = try volume.names("Documents/d")
    try Sys.rename(volume.container, volume.container + ".away")
    try assertEventually("disconnected") { try volume.statusText("link") != "connected" }
    let outcome = try article(volume, "to-local-and-remove")
    XCTAssert(outcome.text.contains("failed: one"), outcome.description)
    XCTAssertEqual(try Sys.names(volume.home + "/home/Documents"), [], "not even a part of one")
    try Sys.rename(volume.container + ".away", volume.container)
    try assertEventually("connected") { try volume.statusText("link") == "connected" }
    XCTAssertEqual(try Sys.text(volume.path("Documents/one")), "eins")
    assertBytes(try Sys.contents(volume.path("Documents/d/two")), patterned(2 << 20, seed: 2))
  }

  private func fill(_ volume: MountedVolume) throws {
    try Sys.makeFolders(volume.remote("Documents/d"))
    try Sys.put(volume.remote("Documents/one"), "eins")
    try Sys.put(volume.remote("Documents/d/two"), patterned(2 << 20, seed: 2))
  }

  private func assertIsLocal(_ volume: MountedVolume) throws {
    XCTAssertEqual(try Sys.text(local(volume, "one")), "eins")
    assertBytes(try Sys.contents(local(volume, "d/two")), patterned(2 << 20, seed: 2))
    XCTAssertEqual(try Sys.names(volume.home + "/home/Documents"), ["d", "one"])
    XCTAssertEqual(try Sys.names(local(volume, "d")), ["two"])
  }
}
