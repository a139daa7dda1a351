import CLinux
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// kill -9 of the daemon in the middle of work: what a system call has promised, holds.
///
/// `DOCSFS_ROUNDS` sets how often; 200 by hand before a release.
final class CrashTests: MountedTestCase {
  override var patience: Double { 120 + 60 * Double(Effort.rounds(20)) }
  private let program = MountedTestCase.program("acknowledged.py")

  func testKilledDuringACopyWithSyncs() throws {
    try rounds(arguments: ["sync"])
  }

  func testKilledDuringWritesRenamesAndDeletes() throws {
    try rounds(arguments: [])
  }

  private func rounds(arguments: [String]) throws {
    try skipUnlessInstalled("python3")
    let volume = try mount()
    var generator = SystemRandomNumberGenerator()
    for round in 0..<Effort.rounds(arguments.isEmpty ? 5 : 20) {
      let seed = Int.random(in: 0..<1_000_000, using: &generator)
      // Mostly early, sometimes late among the 2,000.
      let count = Int(2_000 * pow(Double.random(in: 0..<1, using: &generator), 3))
      try kill(volume, round: round, seed: seed, after: count, arguments)
      if testRun?.totalFailureCount != 0 {
        return XCTFail("round \(round), seed \(seed), killed after \(count)")
      }
    }
    try volume.must("diff -r --no-dereference $M $C --exclude='.docsfs*'")
  }

  private func kill(
    _ volume: MountedVolume, round: Int, seed: Int, after count: Int, _ arguments: [String]
  ) throws {
    let folder = volume.path("round\(round)")
    let log = volume.home + "/log\(round)"
    try Sys.makeFolder(folder)
    let writer = try Subprocess(["python3", program, "work", folder, log, "2000", "\(seed)"] + arguments)
    _ = eventually(within: 120) { !writer.isRunning || acknowledged(log) >= count }
    volume.killDaemon()
    XCTAssertNotNil(writer.wait(30), "the writer hangs")
    try volume.mount()
    let check = Shell.run(["python3", program, "check", folder, log])
    XCTAssertTrue(check.succeeded, "broken promises: \(check)")
    try volume.settle()
    try volume.must("diff -r '\(folder)' $C/round\(round)")
    let again = Shell.run(["python3", program, "check", volume.remote("round\(round)"), log])
    XCTAssertTrue(again.succeeded, "in the container: \(again)")
    try volume.must("rm -r '\(folder)'")
    try volume.settle()
    try volume.unmount()
    let doctor = volume.doctor()
    XCTAssertTrue(doctor.succeeded, "doctor: \(doctor)")
    try volume.mount()
  }

  private func acknowledged(_ log: String) -> Int {
    (try? Sys.contents(log))?.split(separator: 0x0a).count { $0.starts(with: Array("ok".utf8)) } ?? 0
  }

  // MARK: Other moments

  func testKilledRightAfterEachKindOfCall() throws {
    let volume = try mount()
    try volume.must("mkdir $M/d; echo base >$M/d/f; echo other >$M/d/g; ln -s f $M/d/old")
    try volume.settle()
    let steps: [(String, String)] = [
      ("echo written >$M/d/f", "grep -q written $M/d/f"),
      ("mkdir $M/d/sub", "test -d $M/d/sub"),
      ("ln -s target $M/d/l", "test $(readlink $M/d/l) = target"),
      ("chmod 640 $M/d/f", "test $(stat -c %a $M/d/f) = 640"),
      ("touch -d '2001-02-03 04:05:06.123456789 UTC' $M/d/f", "test $(stat -c %Y $M/d/f) = 981173106"),
      ("setfattr -n user.k -v v $M/d/f", "test $(getfattr -n user.k --only-values $M/d/f) = v"),
      ("truncate -s 3 $M/d/f", "test $(stat -c %s $M/d/f) = 3"),
      ("mv $M/d/f $M/d/h", "test -e $M/d/h -a ! -e $M/d/f"),
      ("mv $M/d/h $M/d/g", "test $(stat -c %s $M/d/g) = 3 -a ! -e $M/d/h"),
      ("rm $M/d/old", "test ! -L $M/d/old"),
      ("rmdir $M/d/sub", "test ! -e $M/d/sub"),
      ("mv $M/d $M/e", "test -e $M/e/g -a ! -e $M/d"),
      ("fallocate -l 8192 $M/e/g", "test $(stat -c %s $M/e/g) = 8192"),
    ]
    for (step, check) in steps {
      try volume.must(step)
      volume.killDaemon()
      try volume.mount()
      XCTAssertTrue(volume.shell(check).succeeded, "after \(step)")
    }
    try volume.settle()
    try volume.must("diff -r --no-dereference $M/e $C/e")
  }

  func testKilledDuringMaterialization() throws {
    let bytes = patterned(4 << 20, seed: 1)
    let volume = try mount(query: "rate=1MiB") { try Sys.put($0.remote("f"), bytes) }
    let reader = try Subprocess(["cat", volume.path("f")])
    assertEventually("something has come") { reader.outcome.output.count > 300_000 }
    volume.killDaemon()
    XCTAssertNotNil(reader.wait(30), "the reader hangs")
    XCTAssertNotEqual(reader.outcome.status, 0, "it was told")
    volume.query = ""
    try volume.mount()
    XCTAssertEqual(try Sys.size(volume.path("f")), 4 << 20)
    assertBytes(try Sys.contents(volume.path("f")), bytes)
  }

  func testKilledDuringEviction() throws {
    let volume = try mount()
    try volume.must("mkdir $M/d; for i in $(seq 300); do echo $i >$M/d/$i; done")
    try volume.settle()
    for round in 1...3 {
      let evictor = try Subprocess(
        [MountedVolume.binary, "evict", "-r", volume.path("d")], environment: volume.variables)
      usleep(UInt32(15_000 * round))
      volume.killDaemon()
      XCTAssertNotNil(evictor.wait(30))
      try volume.mount()
      try volume.must("for i in $(seq 300); do test $(cat $M/d/$i) = $i; done")
    }
  }

  func testAFileThatWasUnlinkedWhileOpenLeavesNothingBehind() throws {
    let volume = try mount()
    let holder = try Subprocess([
      "bash", "-c",
      "exec 3>'\(volume.path("f"))'; echo lost >&3; rm '\(volume.path("f"))'; touch '\(volume.home)/now'; sleep 100",
    ])
    assertEventually("unlinked") { Sys.exists(volume.home + "/now") }
    volume.killDaemon()
    holder.signal(SIGKILL, group: true)
    _ = holder.wait(10)
    try volume.mount()
    XCTAssertEqual(try volume.names(), [])
    try volume.settle()
    XCTAssertEqual(try volume.remoteNames(), [])
    XCTAssertEqual(try volume.statusNumber("cacheBytes"), 0)
    try volume.unmount()
    XCTAssertTrue(volume.doctor().succeeded)
  }
}
