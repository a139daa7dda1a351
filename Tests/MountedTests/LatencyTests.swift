import CLinux
import StorageErrors
import TestSupport
import XCTest

/// A container that is far away: who waits for it, and who does not. No test measures time against a machine's speed;
/// the latencies are so long that what needs no fetch is done while others still wait.
final class LatencyTests: MountedTestCase {
  func testFiftyBlockedReadersHoldUpNobody() throws {
    let volume = try farAway(latency: 25, placeholders: 50)
    let readers = try (0..<50).map { try Subprocess(["cat", volume.path("far/\($0)")]) }
    assertEventually("all of them wait") { readers.allSatisfy { $0.isRunning } }
    usleep(500_000)
    for command in [
      "ls -l $M/near $M/far | wc -l", "stat $M/far/7", "df $M", "cat $M/near/cold", "echo new >$M/near/new",
      "mv $M/near/new $M/near/other", "rm $M/near/other", "getfattr -n user.docsfs.state $M/far/3",
      "mkdir $M/far/sub",
    ] {
      try volume.must(command, within: 20)
      XCTAssertTrue(readers.allSatisfy(\.isRunning), "\(command) waited for the container")
    }
    for reader in readers { reader.signal(SIGKILL) }
    for reader in readers {
      XCTAssertNotNil(reader.wait(10), "in state \(Processes.state(reader.pid) ?? "?")")
    }
  }

  /// Case 7.
  func testDfHangs() throws {
    let volume = try farAway(latency: 25, placeholders: 1)
    let reader = try Subprocess(["cat", volume.path("far/0")])
    for command in ["df $M", "ls -R $M", "stat $M/far/0", "test -e $M/near/cold"] {
      try volume.must(command, within: 20)
    }
    XCTAssertTrue(reader.isRunning)
    reader.signal(SIGKILL)
    XCTAssertNotNil(reader.wait(10))
  }

  func testTheFirstByteTakesFewRoundTrips() throws {
    let latency = 3.0
    let volume = try mount("timeo=120s", query: "latency=\(Int(latency))s&rate=32MiB") { volume in
      try volume.must("truncate -s 1G $C/big")
    }
    _ = try Sys.info(volume.path("big"))
    let start = Clock.now
    let file = try OpenFile(volume.path("big"), O_RDONLY)
    XCTAssertEqual(try file.read(1, at: 700 << 20), [0])
    XCTAssertLessThan((Clock.now - start) / latency, 3, "round trips")
    XCTAssertNotEqual(try volume.state("big"), "materialized", "it did not wait for the whole")
    XCTAssertLessThan(try volume.statusNumber("fetchedBytes"), 1 << 29)
  }

  func testBlockedReadersAndWritersCanBeKilled() throws {
    let volume = try farAway(latency: 55, placeholders: 8)
    let far = volume.path("far")
    let programs = [
      "exec cat \(far)/0", "exec head -c 1 \(far)/1", "exec dd if=\(far)/2 of=/dev/null bs=4096 iflag=direct",
      "echo x >>\(far)/3", "exec truncate -s 5 \(far)/4", "exec cmp \(far)/5 \(far)/6",
      "exec python3 -c \"import mmap; f = open('\(far)/7', 'r+b'); print(mmap.mmap(f.fileno(), 0)[5])\"",
    ]
    for signal in [SIGKILL, SIGTERM, SIGINT] {
      // A page fault ends by a deadly signal only, and Python catches SIGINT.
      let programs = signal == SIGINT ? programs.dropLast() : programs
      let blocked = try programs.map { try Subprocess(["bash", "-c", $0]) }
      usleep(700_000)
      for (process, program) in zip(blocked, programs) {
        // Python handles SIGINT, and no handler runs in the middle of a page fault: only fatal signals end one.
        let signal = signal == SIGINT && program.contains("mmap") ? SIGTERM : signal
        XCTAssertTrue(process.isRunning, "\(program) did not wait: \(process.outcome)")
        process.signal(signal, group: true)
        let limit = signal == SIGKILL ? 10.0 : 20.0
        XCTAssertNotNil(
          process.wait(limit), "\(program): signal \(signal), state \(Processes.state(process.pid) ?? "?")")
      }
    }
    XCTAssertEqual(try Sys.size(volume.path("far/3")), 10_000, "an append that was given up changed nothing")
    XCTAssertEqual(try Sys.size(volume.path("far/4")), 10_000)
  }

  func testADeadContainerEndsWithinTimeo() throws {
    let volume = try farAway(latency: 600, placeholders: 2, options: ["timeo=2s"])
    let reader = try Subprocess(["cat", volume.path("far/0")])
    let outcome = try XCTUnwrap(reader.wait(60), "still waits")
    XCTAssertNotEqual(outcome.status, 0)
    XCTAssertTrue(
      outcome.errors.contains("Input/output error") || outcome.errors.contains("No such device"),
      outcome.errors)
    XCTAssertEqual(try Sys.text(volume.path("near/cold")), "materialized")
  }

  func testUnmountingDoesNotWaitForTheContainer() throws {
    let volume = try farAway(latency: 55, placeholders: 1)
    let reader = try Subprocess(["cat", volume.path("far/0")])
    usleep(500_000)
    reader.signal(SIGKILL)
    XCTAssertNotNil(reader.wait(10))
    try volume.unmount(within: 30)
  }

  func testAnUploadThatIsSlowDoesNotHoldUpLocalWork() throws {
    let volume = try mount(query: "rate=1KiB")
    try Sys.put(volume.path("big"), patterned(500_000, seed: 1))
    try assertEventually("uploading") { try volume.sync("big") == "uploading" }
    try volume.must(
      "for i in $(seq 50); do echo $i >$M/f$i; done; cat $M/big | wc -c; sync $M/f1; rm $M/f*", within: 60)
    try Sys.truncate(volume.path("big"), 10)
    XCTAssertEqual(try Sys.size(volume.path("big")), 10)
  }

  /// `near/cold` is materialized, `far/0…` are placeholders of 10,000 bytes, all known here; and then the container
  /// moves away.
  private func farAway(latency: Int, placeholders: Int, options: [String] = ["timeo=300s"]) throws
    -> MountedVolume
  {
    let volume = try unmounted(options)
    try volume.mount()
    try volume.must("mkdir $M/near $M/far")
    try Sys.put(volume.path("near/cold"), "materialized")
    for index in 0..<placeholders {
      try Sys.put(volume.path("far/\(index)"), patterned(10_000, seed: UInt64(index)))
    }
    try volume.settle()
    try volume.run("evict", "-r", volume.path("far"))
    try volume.control("cloud latency=\(latency)s")
    return volume
  }
}
