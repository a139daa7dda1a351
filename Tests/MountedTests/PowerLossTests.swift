import CLinux
import StorageErrors
import TestSupport
import XCTest

/// The state's disk loses its power: what was synced is whole afterwards.
final class PowerLossTests: MountedTestCase {
  private let program = MountedTestCase.program("acknowledged.py")

  func testSyncedFilesSurvive() throws {
    for round in 0..<(Effort.full ? 20 : 4) {
      let (volume, log) = try loseDuringWork(round: round)
      try volume.mount()
      let check = Shell.run(["python3", program, "check", volume.path("d"), log, "synced"])
      XCTAssertTrue(check.succeeded, "lost: \(check)")
      try volume.settle()
      try volume.unmount()
      let doctor = volume.doctor()
      XCTAssertTrue(doctor.succeeded, "doctor: \(doctor)")
    }
  }

  /// The same with a daemon whose syncs do nothing. Were nothing lost here, the test above would prove nothing.
  func testTheTestNoticesSyncsThatDoNothing() throws {
    try skipUnlessInstalled("cc")
    let library = try outside("lib") + "/withoutsync.so"
    try Shell.must("cc -shared -fPIC -o '\(library)' '\(MountedTestCase.program("withoutsync.c"))'")
    let (volume, log) = try loseDuringWork(round: 100, preload: library)
    volume.environment = [:]
    do {
      try volume.mount()
    } catch is ProgramFailure {
      return  // The catalog itself did not survive.
    }
    let check = Shell.run(["python3", program, "check", volume.path("d"), log, "synced"])
    XCTAssertFalse(check.succeeded, "nothing was lost although nothing was synced")
  }

  func testASyncedFolderKeepsItsNames() throws {
    let disk = try disk("state", megabytes: 128)
    let volume = try mount(query: "rate=1KiB", state: disk.path + "/s")
    try volume.must(
      "mkdir $M/d; for i in $(seq 30); do : >$M/d/$i; done; mv $M/d/1 $M/d/moved; rm $M/d/2; sync $M/d")
    let names = try volume.names("d")
    try cut(volume, disk)
    try volume.mount()
    XCTAssertEqual(try volume.names("d"), names)
  }

  func testWhatSyncsOnTheMountIsAsSafeAsFsync() throws {
    let disk = try disk("state", megabytes: 128)
    let volume = try mount(query: "rate=1KiB", state: disk.path + "/s")
    let bytes = patterned(500_000, seed: 1)
    let direct = try OpenFile(volume.path("osync"), O_WRONLY | O_CREAT | O_SYNC)
    try direct.write(bytes)
    let mapped = try OpenFile(volume.path("msync"), O_RDWR | O_CREAT)
    try mapped.truncate(500_000)
    try mapped.withMapping(500_000) { map in
      map.copyBytes(from: bytes)
      XCTAssertEqual(msync(map.baseAddress, map.count, MS_SYNC), 0)
    }
    let data = try OpenFile(volume.path("fdatasync"), O_WRONLY | O_CREAT)
    try data.write(bytes)
    try data.syncData()
    try cut(volume, disk)
    try volume.mount()
    for name in ["osync", "msync", "fdatasync"] {
      assertBytes(try Sys.contents(volume.path(name)), bytes, name)
    }
  }

  private func loseDuringWork(round: Int, preload: String? = nil) throws -> (MountedVolume, String) {
    try skipUnlessInstalled("python3")
    let disk = try disk("state\(round)", megabytes: 256)
    // So slow that what the state has lost is not at the container either.
    let volume = try mount(query: "rate=1KiB", state: disk.path + "/s", name: "v\(round)") { volume in
      if let preload { volume.environment = ["LD_PRELOAD": preload] }
    }
    let log = volume.home + "/log"
    try Sys.makeFolder(volume.path("d"))
    let writer = try Subprocess([
      "python3", program, "work", volume.path("d"), log, "2000", "\(round)", "sync",
    ])
    let wanted = 5_000 + round % 4 * 11_000
    _ = eventually(within: 60) { !writer.isRunning || (try? Sys.size(log)) ?? 0 > wanted }
    try cut(volume, disk)
    XCTAssertNotNil(writer.wait(30), "the writer hangs")
    volume.query = ""
    return (volume, log)
  }

  private func cut(_ volume: MountedVolume, _ disk: LoopDisk) throws {
    try disk.losePower()
    volume.killDaemon()
    try disk.powerUp()
  }
}
