import Foundation
import StorageErrors
import TestSupport
import XCTest

/// Faults that users of comparable systems reported, brought about by commands to a running mount. Those that come
/// about without are in `FieldCaseTests` and `LatencyTests`.
final class FieldFaultTests: MountedTestCase {
  // MARK: Case 2: unreachable is not deleted

  func testAFolderThatCannotBeListedIsNeitherEmptyNorGone() throws {
    let volume = try mount("timeo=2s") { try $0.must("mkdir $C/d; echo text >$C/d/f; echo known >$C/known") }
    XCTAssertEqual(try volume.names(), ["d", "known"])
    XCTAssertEqual(try Sys.text(volume.path("known")), "known\n")
    for condition in ["status=500", "status=404", "truncate=0", "offline", "latency=10m", "auth=expired"] {
      try volume.control("cloud op=list,look \(condition)")
      let wanted: Errno = condition == "auth=expired" ? .EACCES : .EIO
      assertErrno(wanted, "\(condition): names") { _ = try volume.names("d") }
      assertErrno(wanted, "\(condition): f") { _ = try Sys.info(volume.path("d/f")) }
      assertErrno(wanted, "\(condition): rmdir") { try Sys.removeFolder(volume.path("d")) }
      try? volume.control("refresh /")
      XCTAssertEqual(try volume.names(), ["d", "known"], condition)
      XCTAssertEqual(try Sys.text(volume.path("known")), "known\n", condition)
      try volume.control("cloud online")
      try assertEventually("connected after \(condition)") { try volume.statusText("link") == "connected" }
    }
    XCTAssertEqual(try Sys.text(volume.path("d/f")), "text\n")
    try volume.settle()
    XCTAssertEqual(try volume.remoteNames(), ["d", "known"])
    XCTAssertEqual(try volume.remoteNames("d"), ["f"])
  }

  /// What of a file can be fetched is all of it, or an error; its size stays.
  func testBytesThatCannotBeFetchedAreNoEmptyFile() throws {
    let volume = try mount("timeo=2s")
    let bytes = patterned(300_000, seed: 1)
    try volume.putPlaceholder("f", bytes)
    for condition in ["status=500", "status=404", "truncate=0", "offline", "latency=10m"] {
      try volume.control("cloud op=fetch \(condition)")
      let reader = Shell.run(["cat", volume.path("f")])
      XCTAssertNotEqual(reader.status, 0, condition)
      XCTAssertEqual(reader.output.count, 0, condition)
      XCTAssertEqual(try Sys.size(volume.path("f")), 300_000, condition)
      try volume.control("cloud online")
      assertEventually("readable after \(condition)") { (try? Sys.contents(volume.path("f"))) == bytes }
      assertEventually("evicted") { volume.docsfs("evict", volume.path("f")).succeeded }
    }
    try volume.control("cloud op=fetch truncate=70000")
    assertBytes(try Sys.contents(volume.path("f")), bytes, "piece by piece")
  }

  // MARK: Case 7: df hangs

  func testWhatIsKnownIsAnsweredWhileTheContainerStalls() throws {
    let volume = try mount("timeo=300s")
    try volume.must("mkdir $M/d; echo text >$M/d/here")
    try volume.putPlaceholder("d/there", patterned(10_000, seed: 2))
    try volume.control("cloud latency=10m")
    let reader = try Subprocess(["cat", volume.path("d/there")])
    try assertEventually("it waits") { try volume.state("d/there") == "materializing" }
    for command in ["df $M", "stat -f $M/d", "ls -lR $M", "stat $M/d/there", "cat $M/d/here", "touch $M/d/new"] {
      try volume.must(command, within: 20)
    }
    XCTAssertTrue(reader.isRunning, "the container stalls all the while")
    try volume.control("cloud online")
    XCTAssertEqual(reader.finish(within: 60).output, patterned(10_000, seed: 2))
  }

  // MARK: Case 10: an overwrite that is refused

  func testAnOverwriteThatIsRefusedLeavesTheOldThereAndTheNewHere() throws {
    let refusals = [
      ("status=403", "permission denied"), ("status=423", "HTTP 423"), ("quota=10", "no room"),
      ("auth=expired", "credentials"), ("truncate=1K", "connection broke"), ("corrupt", "altered"),
    ]
    // An edit in place, and an editor's save by rename.
    let edits = ["cat $NEW >$M/f", "cat $NEW >$M/f.tmp; sync $M/f.tmp; mv $M/f.tmp $M/f"]
    let volume = try mount()
    var old = patterned(20_000, seed: 3)
    try Sys.put(volume.path("f"), old)
    try volume.settle()
    volume.environment["NEW"] = try outside("new") + "/bytes"
    for (number, (condition, reason)) in refusals.enumerated() {
      let new = patterned(30_000 + number, seed: UInt64(10 + number))
      try Sys.put(volume.environment["NEW"] ?? "", new)
      try volume.control("cloud op=upload \(condition)")
      try volume.must(edits[number % 2])
      try assertEventually("\(condition) shows") { try volume.sync("f") == "error" }
      XCTAssertTrue(volume.reason("f")?.contains(reason) ?? false, "\(condition): \(volume.reason("f") ?? "no reason")")
      assertBytes(try Sys.contents(volume.remote("f")), old, "\(condition): there")
      assertBytes(try Sys.contents(volume.path("f")), new, "\(condition): here")
      XCTAssertEqual(try volume.remoteNames(), ["f"], condition)
      assertErrno(.EBUSY, "evict") { try volume.control("evict f") }
      try volume.control("cloud online")
      try volume.settle()
      assertBytes(try Sys.contents(volume.remote("f")), new, "\(condition), afterwards")
      XCTAssertNil(volume.reason("f"))
      old = new
    }
    XCTAssertEqual(try volume.names(), ["f"], "no conflict")
  }

  // MARK: Case 13: offline is not read-only

  func testWhatIsDoneOfflineArrivesCausesBeforeEffects() throws {
    let volume = try mount()
    try volume.must("mkdir $M/old; for n in a edited gone old/inside; do echo $n >$M/$n; done")
    try volume.settle()
    try volume.control("disconnect")
    try volume.must(
      """
      echo more >>$M/edited; rm $M/gone; mkdir -p $M/new/deep; echo new >$M/new/deep/f
      mv $M/a $M/b; echo 'another a' >$M/a; mv $M/old/inside $M/new/; rmdir $M/old
      """)
    XCTAssertEqual(try volume.remoteNames(), ["a", "edited", "gone", "old"], "nothing of it while offline")
    try volume.control("cloud latency=20ms", "reconnect")
    // The new `a` never takes the place of the old one before that has become `b`.
    assertEventually(within: 60, "the new a is there") {
      guard (try? Sys.text(volume.remote("a"))) == "another a\n" else { return false }
      XCTAssertEqual(try? Sys.text(volume.remote("b")), "a\n")
      return true
    }
    try volume.settle()
    XCTAssertEqual(try volume.remoteNames(), ["a", "b", "edited", "new"])
    XCTAssertEqual(try volume.remoteNames("new"), ["deep", "inside"])
    XCTAssertEqual(try Sys.text(volume.remote("edited")), "edited\nmore\n")
    XCTAssertEqual(try Sys.text(volume.remote("new/deep/f")), "new\n")
    XCTAssertEqual(try Sys.text(volume.remote("new/inside")), "old/inside\n")
  }

  func testStartedWhileOffline() throws {
    let volume = try mount("poll=1s")
    try Sys.put(volume.path("here"), "here")
    try volume.putPlaceholder("there", Array("there".utf8))
    try volume.unmount()
    // As a mountpoint whose disk is away.
    try Sys.rename(volume.container, volume.container + ".away")
    try Sys.makeFolder(volume.container)
    try volume.mount()
    XCTAssertEqual(try Sys.text(volume.path("here")), "here")
    XCTAssertEqual(try Sys.size(volume.path("there")), 5)
    assertErrno(.ENXIO) { _ = try Sys.text(volume.path("there")) }
    try volume.must("echo ' edited' >>$M/here; mkdir $M/d; mv $M/there $M/d/there")
    try Sys.removeFolder(volume.container)
    try Sys.rename(volume.container + ".away", volume.container)
    try assertEventually("connected") { try volume.statusText("link") == "connected" }
    try volume.settle()
    XCTAssertEqual(try Sys.text(volume.remote("here")), "here edited\n")
    XCTAssertEqual(try Sys.text(volume.path("d/there")), "there")
    XCTAssertEqual(try volume.remoteNames("d"), ["there"])
  }

  // MARK: Case 16: a slow or dead container

  /// Each needs the container: a folder that was never listed, bytes that are not here.
  private static let waiting = [
    "exec ls $M/far", "exec stat $M/far/f", "exec rmdir $M/far", "exec touch $M/far/new", "exec mv $M/near $M/far/near",
    "exec cat $M/1", "echo x >>$M/2", "exec truncate -s 5 $M/3", "exec cp $M/4 /dev/null",
    "exec python3 -c 'import mmap; f = open(\"'$M/5'\", \"r+b\"); print(mmap.mmap(f.fileno(), 0)[5])'",
  ]

  private func far(_ options: String...) throws -> MountedVolume {
    let volume = try unmounted(options)
    try volume.must("mkdir $C/far; echo f >$C/far/f; echo n >$C/near; for i in 1 2 3 4 5; do seq 999 >$C/$i; done")
    try volume.mount()
    XCTAssertEqual(try volume.names(), ["1", "2", "3", "4", "5", "far", "near"])
    return volume
  }

  func testEveryOperationOnADeadContainerEnds() throws {
    let volume = try far("timeo=2s")
    for condition in ["latency=10m", "status=503"] {
      try volume.control("cloud \(condition)")
      let callers = try Self.waiting.map { try Subprocess(["bash", "-c", $0], environment: volume.variables) }
      for (caller, command) in zip(callers, Self.waiting) {
        let outcome = caller.finish(within: 60)
        XCTAssertNotNil(outcome.status, "\(condition): \(command) still waits")
        XCTAssertNotEqual(outcome.status, 0, "\(condition): \(command)")
      }
      try volume.control("cloud online")
      try assertEventually("connected") { try volume.statusText("link") == "connected" }
    }
    XCTAssertEqual(try volume.names("far"), ["f"])
    XCTAssertEqual(
      try Sys.size(volume.path("2")), try Sys.size(volume.remote("2")), "an append that failed left nothing")
    XCTAssertEqual(try Sys.size(volume.path("3")), try Sys.size(volume.remote("3")))
  }

  func testWhoeverWaitsForADeadContainerCanBeKilled() throws {
    let volume = try far("timeo=300s")
    try volume.control("cloud latency=10m")
    let callers = try Self.waiting.map { try Subprocess(["bash", "-c", $0], environment: volume.variables) }
    assertEventually("they wait") {
      (try? (1...5).allSatisfy { try volume.state("\($0)") == "materializing" }) ?? false
    }
    for (caller, command) in zip(callers, Self.waiting) {
      XCTAssertTrue(caller.isRunning, "\(command): \(caller.outcome)")
      caller.signal(SIGKILL, group: true)
    }
    for (caller, command) in zip(callers, Self.waiting) {
      XCTAssertNotNil(caller.wait(20), "\(command): in state \(Processes.state(caller.pid) ?? "?")")
    }
    try volume.control("cloud online")
    XCTAssertEqual(try volume.names("far"), ["f"])
  }
}
