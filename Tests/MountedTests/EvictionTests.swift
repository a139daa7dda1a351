import CLinux
import StorageErrors
import TestSupport
import XCTest

/// Evicting, pinning, the cache's limit, and what the virtual attributes tell.
final class EvictionTests: MountedTestCase {
  // MARK: Virtual attributes

  func testVirtualAttributesAreReadByNameAndNeverListed() throws {
    let volume = try mount { try Sys.makeFolder($0.remote("d")) }
    try Sys.put(volume.path("d/f"), "x")
    try volume.settle()
    for name in ["d", "d/f"] {
      XCTAssertEqual(try Sys.xattrNames(volume.path(name)), [], name)
      XCTAssertEqual(try volume.sync(name), "current", name)
      XCTAssertFalse(try volume.isPinned(name))
    }
    XCTAssertFalse(try Sys.xattr(volume.path("d/f"), "user.docsfs.version").isEmpty)
    XCTAssertNoThrow(try Sys.xattr(volume.path("d/f"), "user.docsfs.progress"))
    XCTAssertNil(volume.reason("d/f"))
    assertErrno(.ENODATA) { _ = try Sys.xattr(volume.path("d/f"), "user.docsfs.nonsense") }
    XCTAssertThrowsError(try Sys.setXattr(volume.path("d/f"), "user.docsfs.state", Array("dirty".utf8)))
  }

  func testCopiesDoNotDragThemAlong() throws {
    try skipUnlessInstalled("rsync")
    let volume = try mount()
    let folder = try outside("copy")
    try volume.must(
      "echo x >$M/f; setfattr -n user.mine -v 1 $M/f; cp -a $M/f '\(folder)/a'; rsync -aX $M/f '\(folder)/b'")
    XCTAssertEqual(try Sys.xattrNames(folder + "/a"), ["user.mine"])
    XCTAssertEqual(try Sys.xattrNames(folder + "/b"), ["user.mine"])
  }

  func testAnEditIsDirtyUntilItIsUploaded() throws {
    let volume = try mount(query: "rate=64KiB")
    try Sys.put(volume.path("f"), patterned(200_000, seed: 1))
    XCTAssertEqual(try volume.sync("f"), "dirty")
    try assertEventually("uploading") { try volume.sync("f") == "uploading" }
    try assertEventually("current") { try volume.sync("f") == "current" }
    XCTAssertEqual(try volume.statusNumber("dirtyItems"), 0)
  }

  func testPeoplesAttributesSurviveEvictionAndRemount() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "x")
    try Sys.setXattr(volume.path("f"), "user.tag", Array("red".utf8))
    try volume.settle()
    try volume.evict("f")
    XCTAssertEqual(try Sys.xattrText(volume.path("f"), "user.tag"), "red")
    try volume.remount()
    XCTAssertEqual(try Sys.xattrText(volume.path("f"), "user.tag"), "red")
    XCTAssertEqual(try volume.state("f"), "placeholder")
  }

  // MARK: Case 14: evict says why

  func testAnOpenFileIsNotEvicted() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "held")
    try volume.settle()
    let holder = try Subprocess([
      "bash", "-c", "exec 3<'\(volume.path("f"))'; touch \(volume.home)/held; exec sleep 100",
    ])
    assertEventually("held") { Sys.exists(volume.home + "/held") }
    let outcome = volume.docsfs("evict", volume.path("f"))
    XCTAssertNotEqual(outcome.status, 0)
    XCTAssertTrue(outcome.errors.contains("sleep"), "names the holder: \(outcome)")
    XCTAssertTrue(outcome.errors.contains("f"), outcome.errors)
    XCTAssertEqual(try volume.state("f"), "materialized")
    holder.signal(SIGKILL)
    _ = holder.wait(10)
    assertEventually("free") { volume.docsfs("evict", volume.path("f")).succeeded }
    XCTAssertEqual(try volume.state("f"), "placeholder")
  }

  func testAPinnedFileIsNotEvicted() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "pinned")
    try volume.settle()
    try volume.run("pin", volume.path("f"))
    let outcome = volume.docsfs("evict", volume.path("f"))
    XCTAssertNotEqual(outcome.status, 0)
    XCTAssertTrue(outcome.errors.contains("pin"), outcome.description)
    XCTAssertEqual(try volume.state("f"), "materialized")
    try volume.run("unpin", volume.path("f"))
    try volume.evict("f")
  }

  func testADirtyFileIsNotEvicted() throws {
    let volume = try mount(query: "rate=1KiB")
    try Sys.put(volume.path("f"), patterned(200_000, seed: 2))
    let outcome = volume.docsfs("evict", volume.path("f"))
    XCTAssertNotEqual(outcome.status, 0)
    XCTAssertTrue(outcome.errors.contains("upload"), "says what it waits for: \(outcome)")
    assertBytes(try Sys.contents(volume.path("f")), patterned(200_000, seed: 2))
  }

  func testAFolderIsEvictedAsFarAsItCan() throws {
    let volume = try mount()
    try volume.must("mkdir $M/d; for i in 1 2 3; do echo $i >$M/d/$i; done")
    try volume.settle()
    try volume.run("pin", volume.path("d/2"))
    let outcome = volume.docsfs("evict", "-r", volume.path("d"))
    XCTAssertEqual(outcome.status, 2, "done in part: \(outcome)")
    XCTAssertTrue(outcome.errors.contains("d/2"), outcome.description)
    XCTAssertEqual(
      try ["1", "2", "3"].map { try volume.state("d/\($0)") }, ["placeholder", "materialized", "placeholder"])
  }

  func testEvictingTwiceIsFine() throws {
    let volume = try mount()
    try volume.putPlaceholder("f", [1, 2, 3])
    try volume.evict("f")
    try volume.putPlaceholder("empty", [])
    XCTAssertEqual(try Sys.contents(volume.path("empty")), [])
  }

  // MARK: Pins

  func testAPinMaterializesAndHoldsOverARemount() throws {
    let volume = try mount { try Sys.put($0.remote("f"), "wanted") }
    try volume.run("pin", volume.path("f"))
    XCTAssertTrue(try volume.isPinned("f"))
    try assertEventually("materialized") { try volume.state("f") == "materialized" }
    try volume.remount()
    XCTAssertTrue(try volume.isPinned("f"))
    XCTAssertNotEqual(volume.docsfs("evict", volume.path("f")).status, 0)
  }

  func testThePinAttributeIsWritable() throws {
    let volume = try mount { try Sys.put($0.remote("f"), "x") }
    try Sys.setXattr(volume.path("f"), "user.docsfs.pin", [0x31])
    XCTAssertTrue(try volume.isPinned("f"))
    try assertEventually("materialized") { try volume.state("f") == "materialized" }
    try Sys.setXattr(volume.path("f"), "user.docsfs.pin", [0x30])
    XCTAssertFalse(try volume.isPinned("f"))
  }

  func testAFoldersPinIsInheritedByWhatArrivesLater() throws {
    let volume = try mount("poll=1s") { try Sys.makeFolder($0.remote("d")) }
    try volume.run("pin", volume.path("d"), "-r")
    try Sys.put(volume.remote("d/late"), "from another device")
    try assertEventually("arrived") { try volume.names("d") == ["late"] }
    XCTAssertTrue(try volume.isPinned("d/late"))
    try assertEventually("materialized") { try volume.state("d/late") == "materialized" }
  }

  func testAPinFollowsRenamesAndEditorsSaves() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "one")
    try volume.run("pin", volume.path("f"))
    try volume.must("mv $M/f $M/g; echo two >$M/g.tmp; mv $M/g.tmp $M/g")
    XCTAssertTrue(try volume.isPinned("g"))
  }

  // MARK: Limits

  /// Case 5.
  func testAFileInUseMayOutgrowTheCache() throws {
    let bytes = patterned(8 << 20, seed: 3)
    let volume = try mount("cache_size=1MiB") { try Sys.put($0.remote("big"), bytes) }
    let file = try OpenFile(volume.path("big"), O_RDONLY)
    for index in 0..<8 {
      assertBytes(
        try file.read(1 << 20, at: Int64(index) << 20), Array(bytes[(index << 20)..<((index + 1) << 20)]))
    }
    assertBytes(try file.read(1 << 20, at: 0), Array(bytes[0..<(1 << 20)]))
    try file.close()
    try assertEventually("the limit is regained") { try volume.statusNumber("cacheBytes") <= 1 << 20 }
    assertBytes(try Sys.contents(volume.path("big")), bytes)
  }

  /// Case 5, its second half.
  func testACacheFullOfEditsDropsNone() throws {
    let volume = try mount("cache_size=1MiB", query: "rate=1KiB")
    var written: [Int] = []
    for index in 0..<40 {
      do {
        try Sys.put(volume.path("f\(index)"), patterned(65_536, seed: UInt64(index)))
        written.append(index)
      } catch {
        XCTAssertEqual(error, .ENOSPC)
      }
    }
    XCTAssertGreaterThanOrEqual(written.count, 12)
    for index in written {
      assertBytes(
        try Sys.contents(volume.path("f\(index)")), patterned(65_536, seed: UInt64(index)), "f\(index)")
    }
  }

  func testTheLeastRecentlyUsedGoesFirst() throws {
    let volume = try mount("cache_size=1MiB") { volume in
      for name in ["a", "b", "c"] { try Sys.put(volume.remote(name), patterned(400_000, seed: 4)) }
    }
    for name in ["a", "b"] {
      _ = try Sys.contents(volume.path(name))
      try assertEventually("whole") { try volume.state(name) == "materialized" }
      usleep(1_100_000)
    }
    _ = try Sys.contents(volume.path("a"))
    usleep(1_100_000)
    _ = try Sys.contents(volume.path("c"))
    try assertEventually("evicted") { try volume.statusNumber("cacheBytes") <= 1 << 20 }
    XCTAssertEqual(try volume.state("b"), "placeholder")
    XCTAssertEqual(try volume.state("c"), "materialized")
  }

  func testAFillingDiskEvicts() throws {
    let disk = try disk("small", megabytes: 64)
    let volume = try mount("min_free=24MiB", state: disk.path + "/state") { volume in
      for index in 0..<10 { try Sys.put(volume.remote("f\(index)"), patterned(4 << 20, seed: UInt64(index))) }
    }
    for index in 0..<10 {
      assertBytes(try Sys.contents(volume.path("f\(index)")), patterned(4 << 20, seed: UInt64(index)))
    }
    try assertEventually("room again") {
      let room = try Sys.volumeInfo(disk.path)
      return Int(room.f_bavail) * Int(room.f_frsize) >= 20 << 20
    }
  }
}
