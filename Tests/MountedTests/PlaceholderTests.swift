import CLinux
import StorageErrors
import TestSupport
import XCTest

/// Placeholders, and what gives them their bytes.
final class PlaceholderTests: MountedTestCase {
  func testAPlaceholderLooksLikeTheFile() throws {
    let volume = try mount()
    let bytes = patterned(1 << 20, seed: 1)
    try Sys.put(volume.path("f"), bytes, mode: 0o640)
    try Sys.setTimes(
      volume.path("f"), accessed: timespec(5, 5), modified: timespec(1_234_567_890, 123_456_789))
    try volume.settle()
    let before = try Sys.info(volume.path("f"))
    XCTAssertEqual(try volume.state("f"), "materialized")
    try volume.evict("f")
    XCTAssertEqual(try volume.state("f"), "placeholder")
    try assertSame(try Sys.info(volume.path("f")), before)
    XCTAssertEqual(try Sys.info(volume.path("f")).st_blocks, 1, "0 would let tar archive zeros")
    assertBytes(try Sys.contents(volume.path("f")), bytes)
    try assertEventually("materialized") { try volume.state("f") == "materialized" }
    try assertSame(try Sys.info(volume.path("f")), before)
    XCTAssertGreaterThanOrEqual(try Sys.info(volume.path("f")).st_blocks * 512, 1 << 20)
  }

  func testStatIsStableWhileMaterializing() throws {
    let volume = try mount(query: "rate=2MiB") { try Sys.put($0.remote("f"), patterned(4 << 20, seed: 2)) }
    let before = try Sys.info(volume.path("f"))
    let reader = try Subprocess(["cat", volume.path("f")])
    var states: Set<String> = []
    while reader.isRunning {
      try assertSame(try Sys.info(volume.path("f")), before)
      states.insert(try volume.state("f"))
      usleep(20_000)
    }
    XCTAssertEqual(reader.outcome.output.count, 4 << 20)
    XCTAssertTrue(states.contains("materializing"), "\(states)")
    XCTAssertTrue(states.isSubset(of: ["placeholder", "partial", "materializing", "materialized"]))
  }

  func testWhatTheContainerHadBeforeIsAPlaceholder() throws {
    let volume = try mount { volume in
      try Sys.makeFolders(volume.remote("a/b"))
      try Sys.put(volume.remote("a/b/f"), "there before")
      try Sys.symlink("b/f", at: volume.remote("a/l"))
    }
    XCTAssertEqual(try volume.names("a"), ["b", "l"])
    XCTAssertEqual(try volume.state("a/b/f"), "placeholder")
    XCTAssertEqual(try Sys.readlink(volume.path("a/l")), "b/f")
    XCTAssertEqual(try Sys.text(volume.path("a/l")), "there before")
  }

  func testOpeningMaterializesWithoutARead() throws {
    let volume = try mount { try Sys.put($0.remote("f"), patterned(300_000, seed: 3)) }
    let file = try OpenFile(volume.path("f"), O_RDONLY)
    try assertEventually("materialized") { try volume.state("f") == "materialized" }
    XCTAssertEqual(try file.info().st_size, 300_000)
  }

  func testMaterializeByHand() throws {
    let volume = try mount { volume in
      try Sys.makeFolder(volume.remote("d"))
      for index in 0..<20 { try Sys.put(volume.remote("d/\(index)"), patterned(10_000, seed: UInt64(index))) }
    }
    try volume.run("materialize", "-r", volume.path("d"))
    for index in 0..<20 { XCTAssertEqual(try volume.state("d/\(index)"), "materialized") }
    try volume.run("evict", "-r", volume.path("d"))
    for index in 0..<20 { XCTAssertEqual(try volume.state("d/\(index)"), "placeholder") }
    XCTAssertEqual(try volume.statusNumber("cacheBytes"), 0)
    try volume.run("download", volume.path("d/7"))
    assertBytes(try Sys.contents(volume.path("d/7")), patterned(10_000, seed: 7))
  }

  // MARK: What never materializes

  func testLookingNeverMaterializes() throws {
    let volume = try mount { volume in
      try Sys.makeFolder(volume.remote("d"))
      try Sys.put(volume.remote("d/f"), patterned(500_000, seed: 4))
    }
    let looks = [
      "ls -lR $M", "stat $M/d/f", "find $M -size +1k", "test -r $M/d/f -a -w $M/d/f", "getfattr -d $M/d/f",
      "getfattr -n user.docsfs.state $M/d/f", "setfattr -n user.mine -v 1 $M/d/f", "chmod 600 $M/d/f",
      "chown 12:34 $M/d/f", "touch -c -d 2001-02-03 $M/d/f", "mv $M/d/f $M/d/g && mv $M/d/g $M/d/f",
      "mv $M/d $M/e && mv $M/e $M/d", "df $M", "du -s $M", "readlink -f $M/d/f",
    ]
    for look in looks {
      try volume.must(look)
      XCTAssertEqual(try volume.state("d/f"), "placeholder", look)
    }
    try volume.settle()
    XCTAssertEqual(try volume.statusNumber("fetchedBytes"), 0)
    XCTAssertEqual(try volume.state("d/f"), "placeholder", "uploading its new mode needs no bytes")
    assertBytes(try Sys.contents(volume.path("d/f")), patterned(500_000, seed: 4))
  }

  func testEmptyingAndRemovingNeverMaterialize() throws {
    let volume = try mount { volume in
      for name in ["a", "b", "c", "d"] { try Sys.put(volume.remote(name), patterned(200_000, seed: 5)) }
    }
    try volume.must(": >$M/a; rm $M/c; echo new >$M/d")
    try Sys.truncate(volume.path("b"), 0)
    try volume.settle()
    XCTAssertEqual(try volume.statusNumber("fetchedBytes"), 0)
    XCTAssertEqual(try Sys.size(volume.remote("a")), 0)
    XCTAssertEqual(try Sys.size(volume.remote("b")), 0)
    XCTAssertEqual(try Sys.text(volume.remote("d")), "new\n")
    XCTAssertEqual(try volume.remoteNames(), ["a", "b", "d"])
  }

  func testListedProgramsGetADeadlockError() throws {
    let volume = try mount { try Sys.put($0.remote("f"), "never for an indexer") }
    let indexer = try outside("bin") + "/updatedb"
    try Shell.must("cp $(which cat) '\(indexer)'")
    let outcome = Shell.run([indexer, volume.path("f")])
    XCTAssertTrue(outcome.errors.contains("Resource deadlock avoided"), outcome.description)
    XCTAssertEqual(try volume.state("f"), "placeholder")
    XCTAssertEqual(try Sys.text(volume.path("f")), "never for an indexer")
    try assertEventually("whole") { try volume.state("f") == "materialized" }
    XCTAssertEqual(
      Shell.run([indexer, volume.path("f")]).text, "never for an indexer", "the bytes are here now")
  }

  func testProgramsListedByOption() throws {
    let volume = try mount("no_materialize=peeker") { try Sys.put($0.remote("f"), "x") }
    let peeker = try outside("bin") + "/peeker"
    try Shell.must("cp $(which cat) '\(peeker)'")
    XCTAssertTrue(Shell.run([peeker, volume.path("f")]).errors.contains("Resource deadlock avoided"))
    XCTAssertEqual(try volume.state("f"), "placeholder")
  }

  // MARK: Writing to placeholders

  func testTheFirstWriteMakesTheFileWhole() throws {
    let bytes = patterned(1_000_000, seed: 6)
    let volume = try mount { try Sys.put($0.remote("f"), bytes) }
    try OpenFile(volume.path("f"), O_WRONLY).write("HELLO", at: 500_000)
    var wanted = bytes
    wanted.replaceSubrange(500_000..<500_005, with: Array("HELLO".utf8))
    XCTAssertEqual(try volume.state("f"), "materialized", "a dirty item is whole")
    assertBytes(try Sys.contents(volume.path("f")), wanted)
    try volume.settle()
    assertBytes(try Sys.contents(volume.remote("f")), wanted)
  }

  func testAppendingToAPlaceholder() throws {
    let volume = try mount { try Sys.put($0.remote("log"), "first\n") }
    try volume.must("echo second >>$M/log")
    XCTAssertEqual(try Sys.text(volume.path("log")), "first\nsecond\n")
    try volume.settle()
    XCTAssertEqual(try Sys.text(volume.remote("log")), "first\nsecond\n")
  }

  func testGrowingAPlaceholder() throws {
    let bytes = patterned(100_000, seed: 7)
    let volume = try mount { try Sys.put($0.remote("f"), bytes) }
    try Sys.truncate(volume.path("f"), 150_000)
    assertBytes(try Sys.contents(volume.path("f")), bytes + [UInt8](repeating: 0, count: 50_000))
  }

  func testAPunchedPlaceholder() throws {
    let bytes = patterned(100_000, seed: 8)
    let volume = try mount { try Sys.put($0.remote("f"), bytes) }
    let file = try OpenFile(volume.path("f"), O_RDWR)
    try file.allocate(mode: LX_FALLOC_PUNCH_HOLE | LX_FALLOC_KEEP_SIZE, offset: 10_000, length: 20_000)
    var wanted = bytes
    wanted.replaceSubrange(10_000..<30_000, with: repeatElement(0, count: 20_000))
    assertBytes(try Sys.contents(volume.path("f")), wanted)
  }

  func testAMappedPlaceholder() throws {
    let bytes = patterned(200_000, seed: 9)
    let volume = try mount { try Sys.put($0.remote("f"), bytes) }
    let file = try OpenFile(volume.path("f"), O_RDWR)
    try file.withMapping(200_000) { map in
      assertBytes(Array(map), bytes)
      map[100_000] = bytes[100_000] &+ 1
    }
    try file.close()
    try volume.settle()
    var wanted = bytes
    wanted[100_000] &+= 1
    assertBytes(try Sys.contents(volume.remote("f")), wanted)
  }

  // MARK: Missing ranges are data

  func testSeekingCountsMissingRangesAsData() throws {
    let volume = try mount("materialize=range") { try Sys.put($0.remote("f"), patterned(1 << 20, seed: 10)) }
    let file = try OpenFile(volume.path("f"), O_RDONLY)
    XCTAssertEqual(try file.seek(0, LX_SEEK_DATA), 0)
    XCTAssertEqual(try file.seek(700_000, LX_SEEK_DATA), 700_000)
    XCTAssertEqual(try file.seek(0, LX_SEEK_HOLE), 1 << 20)
  }

  func testSparseArchivesOfPlaceholdersHoldTheBytes() throws {
    let bytes = patterned(300_000, seed: 11)
    let volume = try mount { try Sys.put($0.remote("f"), bytes) }
    let folder = try outside("x")
    try volume.must("tar -cSf '\(folder)/t.tar' -C $M f; tar -xf '\(folder)/t.tar' -C '\(folder)'")
    assertBytes(try Sys.contents(folder + "/f"), bytes)
    try volume.evict("f")
    try volume.must("cp --sparse=always $M/f '\(folder)/g'")
    assertBytes(try Sys.contents(folder + "/g"), bytes)
  }

  // MARK: Ranges

  func testRangeModeFetchesWhatIsRead() throws {
    let bytes = patterned(16 << 20, seed: 12)
    let volume = try mount("materialize=range") { try Sys.put($0.remote("f"), bytes) }
    let file = try OpenFile(volume.path("f"), O_RDONLY)
    assertBytes(try file.read(65_536, at: 8 << 20), Array(bytes[(8 << 20)..<(8 << 20 + 65_536)]))
    try assertEventually("a part is here") { try volume.state("f") == "partial" }
    XCTAssertLessThan(try volume.statusNumber("fetchedBytes"), 2 << 20)
    assertBytes(try Sys.contents(volume.path("f")), bytes, "the rest follows when it is read")
    try assertEventually("materialized") { try volume.state("f") == "materialized" }
    XCTAssertLessThanOrEqual(try volume.statusNumber("fetchedBytes"), 16 << 20, "no byte twice")
  }

  func testReadersShareOneFetch() throws {
    let bytes = patterned(4 << 20, seed: 13)
    let volume = try mount(query: "latency=300ms") { try Sys.put($0.remote("f"), bytes) }
    let readers = try (0..<10).map { _ in try Subprocess(["cat", volume.path("f")]) }
    for reader in readers { assertBytes(reader.finish(within: 120).output, bytes) }
    XCTAssertEqual(try volume.statusNumber("fetchedBytes"), 4 << 20)
  }

  private func assertSame(
    _ a: stat, _ b: stat, file: StaticString = #filePath, line: UInt = #line
  ) throws {
    XCTAssertEqual(a.st_ino, b.st_ino, "inode", file: file, line: line)
    XCTAssertEqual(a.st_size, b.st_size, "size", file: file, line: line)
    XCTAssertEqual(a.st_mode, b.st_mode, "mode", file: file, line: line)
    XCTAssertEqual(a.st_mtim.nanoseconds, b.st_mtim.nanoseconds, "mtime", file: file, line: line)
    XCTAssertEqual(a.st_blksize, b.st_blksize, "st_blksize", file: file, line: line)
  }
}
