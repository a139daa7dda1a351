import CLinux
import Containers
import StorageErrors
import TestSupport
import XCTest

/// Content files that the kernel reads and writes by itself: what programs do to them is noticed all the same.
/// `PosixReferenceTests` runs the POSIX suite on such a mount.
final class PassthroughTests: MountedTestCase {
  private let megabyte = 1 << 20

  private func passthrough(
    _ options: String..., query: String = "", state: String? = nil, name: String = "v",
    before prepare: (MountedVolume) throws -> Void = { _ in }
  ) throws -> MountedVolume {
    try skipUnlessRoot()
    let volume = try unmounted(
      ["faults=off", "io=auto", "poll=1s"] + options, query: query, state: state, name: name)
    try prepare(volume)
    try volume.mount()
    try XCTSkipUnless(try io(volume) == "passthrough", "this kernel or disk has no passthrough")
    return volume
  }

  private func io(_ volume: MountedVolume) throws -> String { try volume.statusText("io") }

  /// A file at the container, all of it local.
  private func materialized(_ volume: MountedVolume, _ name: String, _ bytes: [UInt8]) throws {
    try Sys.put(volume.path(name), bytes)
    try volume.settle()
  }

  /// Before the first write to a file the kernel asks for its capabilities, which it then remembers.
  private func askedOnce(_ file: OpenFile) throws {
    let first = try file.read(1, at: 0)
    try file.write(first.isEmpty ? [0] : first, at: 0)
  }

  // MARK: Who reads and writes

  func testReadsAndWritesNeedNoDaemon() throws {
    let volume = try passthrough()
    let bytes = patterned(megabyte, seed: 1)
    let file = try OpenFile(volume.path("f"), O_RDWR | O_CREAT)
    try askedOnce(file)
    try volume.whileDaemonStops {
      try file.write(bytes)
      assertBytes(try file.read(megabyte, at: 0), bytes)
    }
    try file.close()
    XCTAssertEqual(try Sys.size(volume.path("f")), Int64(megabyte))
    try volume.settle()
    assertBytes(try Sys.contents(volume.remote("f")), bytes)
  }

  func testFaultsKeepTheVolumeInTheWay() throws {
    let volume = try mount()
    XCTAssertEqual(try io(volume), "cached")
    let refused = try unmounted(["io=passthrough"], name: "w").docsfs(["mount", "/nowhere", "-o", "io=passthrough"])
    XCTAssertEqual(refused.status, 64)
    XCTAssertTrue(refused.errors.contains("faults=off"), refused.errors)
  }

  func testAnOrdinaryUserGetsTheVolume() throws {
    try skipUnlessRoot()
    let mode = try Sys.info("/dev/fuse").st_mode & 0o777
    try Sys.setMode("/dev/fuse", 0o666)
    defer { try? Sys.setMode("/dev/fuse", mode) }
    let volume = try unmounted(["faults=off"])
    for folder in [volume.home, volume.mountpoint, volume.container, volume.state, volume.home + "/home"] {
      try Sys.setOwner(folder, user: 65_534, group: 65_534)
    }
    let words = volume.mountArguments.map { "'\($0)'" }.joined(separator: " ")
    try volume.must("'\(MountedVolume.binary)' \(words)", as: 65_534)
    defer { _ = volume.shell("'\(MountedVolume.binary)' unmount $M", as: 65_534) }
    let told = try volume.must(
      "'\(MountedVolume.binary)' status $M --json; echo x >$M/f; cat $M/f", as: 65_534
    ).text
    XCTAssertTrue(told.contains("CAP_SYS_ADMIN"), told)
    XCTAssertTrue(told.hasSuffix("x"), told)
  }

  func testADiskThatDoesNotTellOfMappingsIsRefused() throws {
    try skipUnlessRoot()
    let disk = try outside("memory")
    try Shell.must("mount -t tmpfs none '\(disk)'")
    defer { _ = Shell.run(["umount", "-l", disk]) }
    let volume = try unmounted(["faults=off", "io=passthrough"], state: disk + "/s")
    XCTAssertThrowsError(try volume.mount()) { error in
      XCTAssertTrue("\(error)".contains("through mappings"), "\(error)")
    }
    volume.options = ["faults=off"]
    try volume.mount()
    XCTAssertEqual(try io(volume), "cached")
    try Sys.put(volume.path("f"), "x")
    XCTAssertEqual(try Sys.text(volume.path("f")), "x")
  }

  // MARK: What is shown

  func testSizesAndTimesAreThoseOfTheMoment() throws {
    let volume = try passthrough()
    let file = try OpenFile(volume.path("f"), O_RDWR | O_CREAT)
    for round in 1...5 {
      let before = Int(Timestamp.now().nanoseconds) - 20_000_000
      try file.write(patterned(10_000, seed: UInt64(round)))
      XCTAssertEqual(try Sys.size(volume.path("f")), Int64(round * 10_000), "by path")
      XCTAssertEqual(Int(try file.info().st_size), round * 10_000, "by descriptor")
      XCTAssertEqual(try file.seek(0, Int(SEEK_END)), Int64(round * 10_000))
      XCTAssertGreaterThanOrEqual(try Sys.modified(volume.path("f")), before)
      XCTAssertEqual(try volume.must("ls -l $M | awk '/f$/ {print $5}'").lines, ["\(round * 10_000)"])
    }
    try file.truncate(3)
    XCTAssertEqual(try Sys.size(volume.path("f")), 3)
    try file.allocate(mode: 0, offset: 0, length: 9_000)
    XCTAssertEqual(try Sys.size(volume.path("f")), 9_000)
  }

  func testATimeThatWasSetStays() throws {
    let volume = try passthrough()
    let time = timespec(tv_sec: 1_000_000_000, tv_nsec: 123_456_789)
    let file = try OpenFile(volume.path("f"), O_RDWR | O_CREAT)
    try file.write(patterned(200_000, seed: 1))
    try file.setTimes(accessed: time, modified: time)
    XCTAssertEqual(try Sys.modified(volume.path("f")), 1_000_000_000_123_456_789)
    try file.close()
    try volume.settle()
    XCTAssertEqual(try Sys.modified(volume.path("f")), 1_000_000_000_123_456_789)
    try volume.remount()
    XCTAssertEqual(try Sys.modified(volume.path("f")), 1_000_000_000_123_456_789)
  }

  /// What was cached of a small file is not what is read after it was written past the cache.
  func testPagesOfBeforeAreNotReadAfterwards() throws {
    let volume = try passthrough()
    for round in 1...5 {
      let bytes = patterned(50_000 + round, seed: UInt64(round))
      let file = try OpenFile(volume.path("f"), O_WRONLY | O_CREAT | O_TRUNC)
      try file.write(bytes)
      try file.close()
      assertBytes(try Sys.contents(volume.path("f")), bytes, "round \(round)")
      assertBytes(try Sys.contents(volume.path("f")), bytes, "again, round \(round)")
    }
  }

  func testCopiesWithinTheMountSeeWhatWasJustWritten() throws {
    let volume = try passthrough()
    let from = try OpenFile(volume.path("a"), O_RDWR | O_CREAT)
    let to = try OpenFile(volume.path("b"), O_RDWR | O_CREAT)
    let bytes = patterned(300_000, seed: 3)
    try from.write(bytes)
    var done = 0
    while done < bytes.count {
      let n = try to.copy(from: from, at: Int64(done), to: Int64(done), count: bytes.count - done)
      guard n > 0 else { break }
      done += n
    }
    assertBytes(try Sys.contents(volume.path("b")), bytes)
  }

  func testWritingClearsSetuid() throws {
    let volume = try passthrough("allow_other")
    try volume.must("head -c 200000 /dev/zero >$M/f; chmod 6777 $M/f")
    try volume.must("printf x | dd of=$M/f bs=1 conv=notrunc status=none", as: 65_534)
    XCTAssertEqual(try Sys.info(volume.path("f")).st_mode & 0o6777, 0o777)
  }

  // MARK: What is uploaded

  func testAFileThatStaysOpenIsUploaded() throws {
    let volume = try passthrough()
    let file = try OpenFile(volume.path("f"), O_RDWR | O_CREAT)
    try file.write(patterned(400_000, seed: 1))
    assertEventually("the first bytes") { (try? Sys.contents(volume.remote("f"))) == patterned(400_000, seed: 1) }
    try file.write("changed", at: 10)
    try assertEventually("the change") { try OpenFile(volume.remote("f"), O_RDONLY).text(7, at: 10) == "changed" }
    try volume.settle()
    XCTAssertEqual(try volume.sync("f"), "current", "open, and nothing to upload")
    XCTAssertEqual(try volume.statusNumber("dirtyItems"), 0)
  }

  /// The mapping outlives the last close, and the daemon hears of no write.
  func testWritesThroughAMappingAfterCloseAreUploaded() throws {
    let volume = try passthrough()
    try materialized(volume, "f", patterned(megabyte, seed: 1))
    let file = try OpenFile(volume.path("f"), O_RDWR)
    try file.withMapping(megabyte) { map in
      try file.close()
      try volume.settle()
      for round in UInt8(1)...3 {
        map[Int(round)] = round
        try assertEventually("round \(round)") {
          try OpenFile(volume.remote("f"), O_RDONLY).read(1, at: Int64(round)) == [round]
        }
        // A page that was written and uploaded is written once more.
        map[100] = round
        try assertEventually("the same page, round \(round)") {
          try OpenFile(volume.remote("f"), O_RDONLY).read(1, at: 100) == [round]
        }
      }
      let refused = volume.docsfs("evict", volume.path("f"))
      XCTAssertNotEqual(refused.status, 0, "it is mapped")
    }
    try volume.settle()
    assertEventually("evicted when nobody maps it") { volume.docsfs("evict", volume.path("f")).succeeded }
    XCTAssertEqual(try OpenFile(volume.path("f"), O_RDONLY).read(4, at: 0)[1...3], [1, 2, 3])
  }

  func testOpeningForWritingIsNoEdit() throws {
    let volume = try passthrough()
    try materialized(volume, "f", patterned(megabyte, seed: 1))
    let before = try Sys.info(volume.remote("f"))
    let uploaded = try volume.statusNumber("uploadedBytes")
    let modified = try Sys.modified(volume.path("f"))
    try OpenFile(volume.path("f"), O_RDWR).close()
    try volume.settle()
    let file = try OpenFile(volume.path("f"), O_RDWR)
    XCTAssertEqual(try file.read(10, at: 0).count, 10)
    try file.close()
    assertEventually("evicted: nothing keeps it") { volume.docsfs("evict", volume.path("f")).succeeded }
    XCTAssertEqual(try volume.statusNumber("uploadedBytes"), uploaded)
    XCTAssertEqual(try Sys.info(volume.remote("f")).st_ino, before.st_ino, "nobody has replaced it")
    XCTAssertEqual(try Sys.modified(volume.path("f")), modified)
  }

  // MARK: Other devices

  func testARemoteChangeWaitsForWhoHasItOpenForWriting() throws {
    let volume = try passthrough()
    try materialized(volume, "f", patterned(megabyte, seed: 1))
    let file = try OpenFile(volume.path("f"), O_RDWR)
    try volume.must("echo theirs >$C/f.new; mv $C/f.new $C/f")
    try assertEventually("seen") { try volume.sync("f") == "remote-newer" }
    try file.close()
    try assertEventually("taken over") { try Sys.text(volume.path("f")) == "theirs\n" }
    XCTAssertEqual(try volume.names(), ["f"], "no conflict")
  }

  func testAnEditBesideARemoteChangeIsKept() throws {
    let volume = try passthrough()
    try materialized(volume, "f", patterned(megabyte, seed: 1))
    let file = try OpenFile(volume.path("f"), O_RDWR)
    try volume.must("echo theirs >$C/f.new; mv $C/f.new $C/f")
    try assertEventually("seen") { try volume.sync("f") == "remote-newer" }
    try file.write("mine", at: 0)
    try file.close()
    try assertEventually("both") { try volume.names().count == 2 }
    XCTAssertEqual(try Sys.text(volume.path("f")), "theirs\n")
    let other = try volume.names().first { $0 != "f" }!
    XCTAssertEqual(try OpenFile(volume.path(other), O_RDONLY).text(4, at: 0), "mine")
  }

  func testADeletionElsewhereDoesNotTakeAnEdit() throws {
    let volume = try passthrough()
    try materialized(volume, "f", patterned(megabyte, seed: 1))
    let file = try OpenFile(volume.path("f"), O_RDWR)
    try askedOnce(file)
    try volume.whileDaemonStops {
      try Sys.remove(volume.remote("f"))
      try file.write("mine", at: 0)
    }
    try file.close()
    assertEventually("it goes up again") {
      (try? OpenFile(volume.remote("f"), O_RDONLY).text(4, at: 0)) == "mine"
    }
  }

  /// Nobody could refuse the writes that come after the deletion is known.
  func testWritesAfterADeletionElsewhereAreNotLost() throws {
    let volume = try passthrough()
    try Sys.makeFolder(volume.path("d"))
    for name in ["f", "d/g"] { try materialized(volume, name, patterned(megabyte, seed: 1)) }
    let files = try ["f", "d/g"].map { try OpenFile(volume.path($0), O_RDWR) }
    try volume.must("rm -r $C/f $C/d; touch $C/seen")
    try assertEventually("noticed") { try volume.names().contains("seen") }
    assertEventually("they go up again") { Sys.exists(volume.remote("f")) && Sys.exists(volume.remote("d/g")) }
    for file in files {
      try file.write("mine", at: 0)
      try file.close()
    }
    for name in ["f", "d/g"] {
      assertEventually(name) { (try? OpenFile(volume.remote(name), O_RDONLY).text(4, at: 0)) == "mine" }
      XCTAssertEqual(try OpenFile(volume.path(name), O_RDONLY).text(4, at: 0), "mine")
    }
  }

  // MARK: Death

  func testDoctorTakesWhatWasLentForEdited() throws {
    let volume = try passthrough()
    try materialized(volume, "f", patterned(megabyte, seed: 1))
    let file = try OpenFile(volume.path("f"), O_RDWR | O_APPEND)
    try askedOnce(file)
    try volume.settle()
    try volume.whileDaemonStops { try file.write("appended") }
    volume.killDaemon()
    _ = volume.doctor("--repair")
    try volume.mount()
    XCTAssertEqual(try Sys.size(volume.path("f")), Int64(megabyte + 9))
    try volume.settle()
    XCTAssertEqual(try OpenFile(volume.remote("f"), O_RDONLY).text(8, at: Int64(megabyte + 1)), "appended")
  }

  func testAKilledDaemonFindsWhatWasWritten() throws {
    let volume = try passthrough()
    try materialized(volume, "f", patterned(megabyte, seed: 1))
    let file = try OpenFile(volume.path("f"), O_RDWR)
    let new = try OpenFile(volume.path("new"), O_RDWR | O_CREAT)
    try new.write("the ")
    try askedOnce(file)
    try volume.whileDaemonStops {
      try file.write("mine", at: 500_000)
      try new.write("new")
    }
    volume.killDaemon()
    try volume.mount()
    XCTAssertEqual(try OpenFile(volume.path("f"), O_RDONLY).text(4, at: 500_000), "mine")
    XCTAssertEqual(try Sys.text(volume.path("new")), "the new")
    try volume.settle()
    XCTAssertEqual(try OpenFile(volume.remote("f"), O_RDONLY).text(4, at: 500_000), "mine")
    try volume.unmount()
    let doctor = volume.doctor()
    XCTAssertTrue(doctor.succeeded, "\(doctor)")
  }

  func testAMappingOutlivesTheDaemon() throws {
    let volume = try passthrough()
    try materialized(volume, "f", patterned(megabyte, seed: 1))
    let file = try OpenFile(volume.path("f"), O_RDWR)
    try file.withMapping(megabyte) { map in
      try file.close()
      volume.killDaemon()
      try volume.mount()
      try volume.settle()
      map[5] = 77
      try assertEventually("uploaded by the next one") {
        try OpenFile(volume.remote("f"), O_RDONLY).read(1, at: 5) == [77]
      }
      XCTAssertEqual(try OpenFile(volume.path("f"), O_RDONLY).read(1, at: 5), [77])
    }
  }

  /// A clean file that is lent for writing is known to be so before its first byte can change.
  func testPowerLossDoesNotMakeAnEditLookClean() throws {
    let disk = try disk("state", megabytes: 128)
    let volume = try passthrough(query: "rate=64KiB", state: disk.path + "/s") {
      try Sys.put($0.remote("f"), patterned(300_000, seed: 1))
    }
    XCTAssertEqual(try Sys.contents(volume.path("f")).count, 300_000)
    try volume.settle()
    let file = try OpenFile(volume.path("f"), O_RDWR)
    try file.write("mine", at: 100)
    // As fsync does it, but the daemon does not hear of it: msync of a mapping of the content file itself.
    try file.withMapping(4096) { XCTAssertEqual(msync($0.baseAddress, 4096, MS_SYNC), 0) }
    try disk.losePower()
    try? file.close()
    volume.killDaemon()
    try disk.powerUp()
    try volume.mount()
    XCTAssertEqual(try OpenFile(volume.path("f"), O_RDONLY).text(4, at: 100), "mine")
    try volume.settle()
    XCTAssertEqual(try OpenFile(volume.remote("f"), O_RDONLY).text(4, at: 100), "mine")
  }
}
