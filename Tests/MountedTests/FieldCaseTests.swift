import CLinux
import StorageErrors
import TestSupport
import XCTest

/// Faults that users of comparable systems reported, each named after its scene.
final class FieldCaseTests: MountedTestCase {
  /// Case 1.
  func testUploadFailsFileVanishes() throws {
    let disk = try disk("cloud", megabytes: 32)
    let volume = try mount(container: disk.path + "/c")
    try Sys.put(volume.path("before"), "uploaded before")
    try volume.settle()
    try disk.setReadOnly(true)
    let bytes = patterned(300_000, seed: 1)
    try Sys.put(volume.path("f"), bytes)
    try assertEventually(within: 60, "the error shows") { try volume.sync("f") == "error" }
    XCTAssertNotNil(volume.reason("f"))
    let outcome = volume.docsfs("sync", volume.mountpoint, "--timeout", "2")
    XCTAssertNotEqual(outcome.status, 0)
    XCTAssertTrue((outcome.text + outcome.errors).contains("f"), "lists what is not uploaded: \(outcome)")
    try volume.remount()
    assertBytes(try Sys.contents(volume.path("f")), bytes)
    XCTAssertNotEqual(try volume.sync("f"), "current")
    try disk.setReadOnly(false)
    try volume.settle()
    assertBytes(try Sys.contents(volume.remote("f")), bytes)
    XCTAssertEqual(try volume.sync("f"), "current")
    XCTAssertNil(volume.reason("f"))
  }

  func testAFullContainerKeepsTheEditHere() throws {
    let disk = try disk("cloud", megabytes: 32)
    let volume = try mount(container: disk.path + "/c")
    try volume.putPlaceholder("kept", patterned(100_000, seed: 2))
    try disk.fill()
    let bytes = patterned(2_000_000, seed: 3)
    try Sys.put(volume.path("f"), bytes)
    try assertEventually(within: 60, "the error shows") { try volume.sync("f") == "error" }
    assertBytes(try Sys.contents(volume.path("kept")), patterned(100_000, seed: 2))
    XCTAssertFalse(try volume.remoteNames().contains("f"), "nothing half")
    try disk.empty()
    try volume.settle()
    assertBytes(try Sys.contents(volume.remote("f")), bytes)
  }

  /// Case 2.
  func testUnreachableIsNotDeleted() throws {
    let volume = try mount("poll=1s")
    try volume.must("mkdir $M/d; for i in 1 2 3; do echo $i >$M/d/$i; done")
    try volume.settle()
    try Sys.rename(volume.container, volume.container + ".away")
    try assertEventually("the loss is noticed") { try volume.statusText("link") != "connected" }
    XCTAssertEqual(try volume.names("d"), ["1", "2", "3"])
    XCTAssertEqual(try Sys.text(volume.path("d/2")), "2\n")
    try Sys.makeFolder(volume.container)
    usleep(3_000_000)
    XCTAssertEqual(try volume.names("d"), ["1", "2", "3"], "an empty folder in its place is not it")
    try Sys.put(volume.path("d/4"), "meanwhile")
    usleep(2_500_000)
    XCTAssertEqual(try Sys.names(volume.container), [], "nothing is put into another container")
    try volume.remount()
    XCTAssertEqual(try Sys.text(volume.path("d/2")), "2\n", "also after a start without it")
    XCTAssertEqual(try volume.names("d"), ["1", "2", "3", "4"])
    try Sys.removeFolder(volume.container)
    try Sys.rename(volume.container + ".away", volume.container)
    try assertEventually("connected again") { try volume.statusText("link") == "connected" }
    try volume.settle()
    XCTAssertEqual(try volume.remoteNames("d"), ["1", "2", "3", "4"])
  }

  func testAPlaceholderOfAnUnreachableContainerIsNoEmptyFile() throws {
    let volume = try mount("poll=1s", "timeo=3s")
    try volume.putPlaceholder("f", patterned(10_000, seed: 4))
    try Sys.rename(volume.container, volume.container + ".away")
    try assertEventually("the loss is noticed") { try volume.statusText("link") != "connected" }
    XCTAssertEqual(try Sys.size(volume.path("f")), 10_000)
    assertErrno(.ENXIO) { _ = try OpenFile(volume.path("f"), O_RDONLY) }
    XCTAssertEqual(try Sys.size(volume.path("f")), 10_000)
    try Sys.rename(volume.container + ".away", volume.container)
    assertEventually("readable again") { (try? Sys.contents(volume.path("f")))?.count == 10_000 }
  }

  /// Case 3.
  func testStaleContentBehindFreshMetadata() throws {
    let old = patterned(400_000, seed: 5)
    let new = patterned(700_001, seed: 6)
    let volume = try mount("poll=1s") { try Sys.put($0.remote("f"), old) }
    assertBytes(try Sys.contents(volume.path("f")), old)
    let handle = try OpenFile(volume.path("f"), O_RDONLY)
    XCTAssertEqual(try handle.read(1000, at: 0), Array(old.prefix(1000)))
    let inode = try Sys.info(volume.path("f")).st_ino
    try Sys.put(volume.remote("f"), new)
    try assertEventually("the new size") { try Sys.size(volume.path("f")) == 700_001 }
    assertBytes(try Sys.contents(volume.path("f")), new)
    XCTAssertEqual(try Sys.info(volume.path("f")).st_ino, inode)
    do {
      assertBytes(try handle.read(1 << 20, at: 0), old, "an old handle reads all of the old")
    } catch {
      XCTAssertEqual(error, .ESTALE)
    }
    try handle.close()
    assertBytes(try Sys.contents(volume.path("f")), new)
  }

  func testSmallerAndEqualSizesArriveToo() throws {
    let volume = try mount("poll=1s") { try Sys.put($0.remote("f"), "0123456789") }
    XCTAssertEqual(try Sys.text(volume.path("f")), "0123456789")
    for text in ["abcdefghij", "xyz", "", "back to something longer than ever"] {
      try Sys.put(volume.remote("f"), text)
      try assertEventually("\(text)") { try Sys.text(volume.path("f")) == text }
      XCTAssertEqual(try Sys.size(volume.path("f")), Int64(text.utf8.count))
    }
  }

  /// Case 4.
  func testRenamedAndDeletedBeforeUpload() throws {
    let volume = try mount()
    try volume.must(
      "mkdir -p $M/d/s; for i in $(seq 50); do echo $i >$M/d/s/$i; done; mv $M/d $M/e; rm -r $M/e")
    try Sys.put(volume.path("marker"), "x")
    try volume.settle()
    XCTAssertEqual(try volume.remoteNames(), ["marker"])
    try volume.remount()
    XCTAssertEqual(try volume.names(), ["marker"])
    XCTAssertEqual(try volume.remoteNames(), ["marker"])
  }

  func testAStormEndsInTheLeastWork() throws {
    let volume = try mount()
    try volume.must(
      "for i in $(seq 200); do head -c 100000 /dev/zero >$M/f; mv $M/f $M/g; rm $M/g; done; echo end >$M/f")
    try volume.settle()
    XCTAssertEqual(try volume.remoteNames(), ["f"])
    XCTAssertLessThan(try volume.statusNumber("uploadedBytes"), 2_000_000)
  }

  /// Case 6.
  func testTheModificationTimeStaysThroughUploadEvictionAndBack() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), patterned(100_000, seed: 7))
    let saved = try Sys.info(volume.path("f")).st_mtim.nanoseconds
    try volume.settle()
    XCTAssertEqual(try Sys.info(volume.path("f")).st_mtim.nanoseconds, saved)
    XCTAssertEqual(try Sys.info(volume.remote("f")).st_mtim.nanoseconds, saved)
    try volume.evict("f")
    _ = try Sys.contents(volume.path("f"))
    XCTAssertEqual(try Sys.info(volume.path("f")).st_mtim.nanoseconds, saved)
    try volume.remount()
    XCTAssertEqual(try Sys.info(volume.path("f")).st_mtim.nanoseconds, saved)
    try Sys.setTimes(volume.path("f"), accessed: Sys.timeOmit, modified: timespec(999, 987_654_321))
    try volume.settle()
    XCTAssertEqual(try Sys.info(volume.remote("f")).st_mtim.nanoseconds, 999_987_654_321)
  }

  func testModesReachTheContainer() throws {
    let volume = try mount()
    try volume.must("echo '#!/bin/sh' >$M/run; chmod 750 $M/run; mkdir -m 711 $M/d")
    try volume.settle()
    XCTAssertEqual(try Sys.info(volume.remote("run")).permissions, 0o750)
    XCTAssertEqual(try Sys.info(volume.remote("d")).permissions, 0o711)
    try Sys.setMode(volume.path("run"), 0o700)
    try volume.settle()
    XCTAssertEqual(try Sys.info(volume.remote("run")).permissions, 0o700)
  }

  /// Case 8.
  func testAnEditorSavesWhileTheOriginalUploads() throws {
    let volume = try mount(query: "rate=256KiB")
    try Sys.put(volume.path("doc.txt"), patterned(400_000, seed: 8))
    try volume.run("pin", volume.path("doc.txt"))
    try assertEventually("uploading") { try volume.sync("doc.txt") == "uploading" }
    for save in 1...3 {
      let file = try OpenFile(volume.path(".doc.txt.tmp"), O_WRONLY | O_CREAT | O_EXCL)
      try file.write(patterned(100_000, seed: UInt64(100 + save)))
      try file.sync()
      try file.close()
      try Sys.rename(volume.path(".doc.txt.tmp"), volume.path("doc.txt"))
    }
    try volume.settle()
    assertBytes(try Sys.contents(volume.remote("doc.txt")), patterned(100_000, seed: 103))
    XCTAssertEqual(try volume.remoteNames(), ["doc.txt"], "no temporary file, no conflict copy")
    XCTAssertEqual(try volume.names(), ["doc.txt"])
    XCTAssertTrue(try volume.isPinned("doc.txt"))
  }

  func testEditorsThatKeepABackup() throws {
    let volume = try mount()
    try Sys.put(volume.path("doc"), "one")
    try volume.settle()
    try volume.must("mv $M/doc $M/doc~; echo two >$M/doc; rm $M/doc~")
    try volume.settle()
    XCTAssertEqual(try volume.remoteNames(), ["doc"])
    XCTAssertEqual(try Sys.text(volume.remote("doc")), "two\n")
  }

  /// Case 9.
  func testStarvation() throws {
    let volume = try mount()
    let writer = try Subprocess(
      ["bash", "-c", "while :; do for i in 1 2 3 4; do date >>$M/noise$i; done; sleep 0.05; done"],
      environment: volume.variables)
    defer { writer.signal(SIGKILL, group: true); _ = writer.wait(10) }
    assertEventually("noise") { Sys.exists(volume.path("noise4")) }
    try Sys.put(volume.path("quiet"), "the oldest")
    assertEventually(within: 60, "the quiet file is uploaded") {
      (try? Sys.text(volume.remote("quiet"))) == "the oldest"
    }
    assertEventually(within: 120, "even a file that is never quiet is uploaded") {
      (try? Sys.size(volume.remote("noise1"))).map { $0 > 0 } ?? false
    }
    XCTAssertTrue(writer.isRunning)
  }

  /// Case 11.
  func testKilledInTheMiddleOfAnUpload() throws {
    let volume = try mount()
    let old = patterned(600_000, seed: 9)
    let new = patterned(600_000, seed: 10)
    try Sys.put(volume.path("f"), old)
    try volume.settle()
    for round in 0..<3 {
      volume.query = "rate=256KiB"
      try volume.remount()
      try Sys.put(volume.path("f"), new)
      try Sys.put(volume.path("g\(round)"), new)
      try assertEventually("uploading") { try volume.sync("f") == "uploading" }
      usleep(UInt32(200_000 * round))
      volume.killDaemon()
      let seen = try Sys.contents(volume.remote("f"))
      XCTAssertTrue(seen == old || seen == new, "\(seen.count) bytes that are neither")
      if let first = try? Sys.contents(volume.remote("g\(round)")) { assertBytes(first, new, "a new file") }
      volume.query = ""
      try volume.mount()
      try volume.settle()
      assertBytes(try Sys.contents(volume.remote("f")), new)
      assertBytes(try Sys.contents(volume.remote("g\(round)")), new)
      XCTAssertEqual(try volume.remoteNames().filter { $0.contains("conflict") }, [])
      try Sys.put(volume.path("f"), old)
      try volume.settle()
    }
  }

  /// Case 12.
  func testLookingDownloadsEverything() throws {
    let volume = try mount("materialize=range") {
      try $0.must("for i in $(seq 100); do truncate -s 10M $C/$i; done")
    }
    try volume.must("for f in $M/*; do head -c 65536 $f >/dev/null; done")
    let fetched = try volume.statusNumber("fetchedBytes")
    XCTAssertGreaterThanOrEqual(fetched, 100 * 65_536)
    XCTAssertLessThan(fetched, 100 * 65_536 * 5, "about what was read")
  }

  // MARK: Case 15: odd sizes

  func testOddSizes() throws {
    let volume = try mount()
    for size in [0, 1, 4095, 4096, 4097, 131_071, 131_073, 1_048_577] {
      let name = "s\(size)"
      let bytes = patterned(size, seed: UInt64(size))
      try volume.putPlaceholder(name, bytes)
      for _ in 0..<2 {
        XCTAssertEqual(try Sys.size(volume.path(name)), Int64(size))
        assertBytes(try Sys.contents(volume.path(name)), bytes, name)
        try assertEventually("whole") { try size == 0 || volume.state(name) == "materialized" }
        try volume.evict(name)
      }
    }
  }

  func testSizesBeyond32Bits() throws {
    let sizes: [Int64] = [1 << 31, (1 << 32) + 1]
    let volume = try mount(Effort.full ? "materialize=open" : "materialize=range") { volume in
      for size in sizes {
        let file = try OpenFile(volume.remote("s\(size)"), O_WRONLY | O_CREAT)
        try file.write("head", at: 0)
        try file.write("tail", at: size - 4)
      }
    }
    for name in sizes.map({ "s\($0)" }) {
      let size = try Sys.size(volume.path(name))
      XCTAssertEqual(size, Int64(name.dropFirst()))
      for _ in 0..<2 {
        let file = try OpenFile(volume.path(name), O_RDONLY)
        XCTAssertEqual(try file.text(4, at: 0), "head")
        XCTAssertEqual(try file.text(10, at: size - 4), "tail")
        XCTAssertEqual(try file.read(4, at: size / 2), [0, 0, 0, 0])
        try file.close()
        if Effort.full { try volume.must("cmp $M/\(name) $C/\(name)", within: 900) }
        assertEventually("evicted") { volume.docsfs("evict", volume.path(name)).succeeded }
      }
    }
  }

  func testATruncateOfAPlaceholderToHalfKeepsTheFirstHalf() throws {
    let bytes = patterned(2_000_002, seed: 11)
    let volume = try mount { try Sys.put($0.remote("f"), bytes) }
    try Sys.truncate(volume.path("f"), 1_000_001)
    assertBytes(try Sys.contents(volume.path("f")), Array(bytes.prefix(1_000_001)))
    try volume.settle()
    assertBytes(try Sys.contents(volume.remote("f")), Array(bytes.prefix(1_000_001)))
  }
}
