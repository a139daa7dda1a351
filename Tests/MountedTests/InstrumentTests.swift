import CLinux
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// The instruments of the other tests, without a mount: an instrument that always says yes proves nothing.
final class InstrumentTests: XCTestCase {
  private var home = ""

  override func setUpWithError() throws { home = try MountedTestCase.makeHome() }
  override func tearDownWithError() throws {
    XCTAssertEqual(MountedTestCase.leftovers(below: home), [])
    MountedTestCase.remove(home)
  }

  func testADiskThatLosesItsPowerKeepsWhatWasSyncedAndLosesTheRest() throws {
    try withDisk { disk in
      let lost = try losePower(disk, preload: nil)
      XCTAssertTrue(lost.succeeded, "synced, and yet: \(lost)")
      XCTAssertFalse(Sys.exists(disk.path + "/unsynced"))
    }
  }

  func testWithoutSyncsAPowerLossIsNoticed() throws {
    try skipUnlessInstalled("cc")
    let library = home + "/withoutsync.so"
    try Shell.must("cc -shared -fPIC -o '\(library)' '\(MountedTestCase.program("withoutsync.c"))'")
    try withDisk { disk in
      let lost = try losePower(disk, preload: library)
      XCTAssertEqual(lost.status, 1, lost.description)
    }
  }

  func testADiskCanBeFullAndReadOnly() throws {
    try withDisk { disk in
      try disk.fill()
      assertErrno(.ENOSPC) { try Sys.put(disk.path + "/f", patterned(8192, seed: 1)) }
      try disk.empty()
      try Sys.put(disk.path + "/f", patterned(8192, seed: 1))
      try disk.setReadOnly(true)
      assertErrno(.EROFS) { try Sys.put(disk.path + "/g", "x") }
      try disk.setReadOnly(false)
    }
  }

  func testBrokenPromisesAreNoticed() throws {
    try skipUnlessInstalled("python3")
    let program = MountedTestCase.program("acknowledged.py")
    let (folder, log) = (home + "/d", home + "/log")
    try Sys.makeFolder(folder)
    try Shell.must("python3 '\(program)' work '\(folder)' '\(log)' 60 5")
    let check = { Shell.run(["python3", program, "check", folder, log]) }
    XCTAssertTrue(check().succeeded, "\(check())")
    let intact = try Sys.contents(folder + "/f1")
    try Sys.put(folder + "/f1", intact + [0])
    XCTAssertEqual(check().text, "f1: other bytes")
    try Sys.remove(folder + "/f1")
    XCTAssertEqual(check().text, "f1: missing")
    try Sys.put(folder + "/f1", intact)
    try Sys.put(folder + "/f6", "removed, and there again")
    XCTAssertEqual(check().text, "f6: there again")
    try Sys.remove(folder + "/f6")
    try Sys.put(folder + "/stray", "x")
    XCTAssertEqual(check().text, "stray: never promised")
  }

  func testProgramsAreBoundedAndTheirOutputIsKept() throws {
    let outcome = Shell.run("echo out; echo err >&2; exit 3")
    XCTAssertEqual([outcome.text, outcome.errors, "\(outcome.status ?? -1)"], ["out", "err", "3"])
    XCTAssertEqual(Shell.run("kill -9 $$").status, 128 + SIGKILL)
    XCTAssertNil(Shell.run("echo early; sleep 100 & sleep 100", within: 0.3).status)
    XCTAssertEqual(Shell.run(["no such program"]).status, 127)
  }

  func testWhatIsLeftBehindIsFound() throws {
    try Sys.put(home + "/f", "x")
    let process = try Subprocess(["tail", "-f", home + "/f"])
    defer { _ = process.wait(10) }
    assertEventually("it runs") { Processes.mentioning(home).count == 1 }
    XCTAssertEqual(MountedTestCase.leftovers(below: home).count, 1)
    XCTAssertEqual(process.wait(10)?.status, 128 + SIGKILL)
  }

  private func withDisk(_ body: (LoopDisk) throws -> Void) throws {
    try XCTSkipUnless(getuid() == 0 && Sys.exists("/dev/loop-control"), "needs root and loop devices")
    let disk = try LoopDisk("disk", in: home, megabytes: 64)
    defer { disk.discard() }
    try body(disk)
  }

  /// What the check of the synced files says after a power loss.
  private func losePower(_ disk: LoopDisk, preload: String?) throws -> Outcome {
    try skipUnlessInstalled("python3")
    let program = MountedTestCase.program("acknowledged.py")
    let log = home + "/log"
    try Sys.makeFolder(disk.path + "/d")
    let variables = preload.map { ["LD_PRELOAD": $0] } ?? [:]
    try Shell.must("python3 '\(program)' work '\(disk.path)/d' '\(log)' 50 1 sync", environment: variables)
    try Sys.put(disk.path + "/unsynced", patterned(100_000, seed: 9))
    try disk.losePower()
    try disk.powerUp()
    try? Sys.makeFolder(disk.path + "/d")
    return Shell.run(["python3", program, "check", disk.path + "/d", log, "synced"])
  }
}
