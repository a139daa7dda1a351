import CLinux
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// Opening, reading, writing, mapping, copying.
final class FileTests: PosixTestCase {
  func testExclusiveCreationRefusesWhatIsThere() throws {
    let flags = O_CREAT | O_EXCL | O_RDWR
    try OpenFile(path("f"), flags).write("one")
    assertErrno(.EEXIST) { _ = try OpenFile(path("f"), flags) }
    try Sys.symlink("nowhere", at: path("l"))
    assertErrno(.EEXIST) { _ = try OpenFile(path("l"), flags) }
    XCTAssertEqual(try Sys.text(path("f")), "one")
  }

  func testTwoExclusiveCreatorsHaveOneWinner() throws {
    let outcome = shell(
      """
      for i in $(seq 40); do
        for w in 1 2 3 4; do (set -C; echo $w >"f$i") 2>/dev/null && echo "$i" & done; wait
      done
      """)
    XCTAssertEqual(outcome.lines.count, 40)
    XCTAssertEqual(Set(outcome.lines).count, 40)
  }

  func testCreationAppliesTheUmask() throws {
    let outcome = shell("umask 027; : >f; mkdir d; stat -c %a f d")
    XCTAssertEqual(outcome.lines, ["640", "750"])
  }

  func testTruncatingOpenEmptiesAndKeepsTheInode() throws {
    try Sys.put(path("f"), "some bytes")
    let before = try Sys.info(path("f"))
    let file = try OpenFile(path("f"), O_RDWR | O_TRUNC)
    XCTAssertEqual(try file.info().st_size, 0)
    XCTAssertEqual(try file.info().st_ino, before.st_ino)
  }

  func testAppendingWritersNeverOverwriteEachOther() throws {
    let first = try OpenFile(path("log"), O_WRONLY | O_APPEND | O_CREAT)
    let second = try OpenFile(path("log"), O_WRONLY | O_APPEND)
    for index in 0..<50 { try (index % 2 == 0 ? first : second).write("\(index)\n") }
    XCTAssertEqual(try Sys.text(path("log")), (0..<50).map { "\($0)\n" }.joined())
  }

  func testAppendingProcessesNeverOverwriteEachOther() throws {
    let outcome = shell(
      "for w in a b c d; do (for i in $(seq 100); do echo $w$i >>log; done) & done; wait; sort -u log | wc -l"
    )
    XCTAssertEqual(outcome.text, "400")
  }

  func testAppendIgnoresThePositionOfPwrite() throws {
    // What Linux does, against POSIX: see pwrite(2), BUGS.
    let file = try OpenFile(path("f"), O_RDWR | O_APPEND | O_CREAT)
    try file.write("head")
    try file.write("tail", at: 0)
    XCTAssertEqual(try Sys.text(path("f")), "headtail")
  }

  func testReadsAndWritesAtOffsets() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.write("0123456789", at: 0)
    try file.write("AB", at: 3)
    XCTAssertEqual(try file.text(4, at: 2), "2AB5")
    XCTAssertEqual(try file.text(100, at: 8), "89")
    XCTAssertEqual(try file.read(10, at: 10), [])
    XCTAssertEqual(try file.read(10, at: 1 << 40), [])
  }

  func testAWriteBeyondTheEndLeavesZerosBetween() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.write("a")
    try file.write("z", at: 100_000)
    XCTAssertEqual(try file.info().st_size, 100_001)
    assertBytes(try file.read(100_001, at: 0), [0x61] + [UInt8](repeating: 0, count: 99_999) + [0x7a])
  }

  func testAWriteBeyondFourGigabytes() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    let far: Int64 = 1 << 32 + 5
    try file.write("far", at: far)
    XCTAssertEqual(try file.info().st_size, off_t(far + 3))
    XCTAssertEqual(try file.text(10, at: far), "far")
    XCTAssertEqual(try file.read(4, at: 1 << 31), [0, 0, 0, 0])
  }

  func testLargeWritesOfAnyAlignmentReadBack() throws {
    let bytes = patterned(3_000_001, seed: 1)
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    for (start, end) in [(0, 4095), (4095, 131_073), (131_073, 2_000_000), (2_000_000, 3_000_001)] {
      XCTAssertEqual(try file.write(Array(bytes[start..<end]), at: Int64(start)), end - start)
    }
    assertBytes(try Sys.contents(path("f")), bytes)
  }

  func testDescriptorsRefuseWhatTheyWereNotOpenedFor() throws {
    try Sys.put(path("f"), "x")
    assertErrno(.EBADF) { try OpenFile(path("f"), O_RDONLY).write("y") }
    assertErrno(.EBADF) { _ = try OpenFile(path("f"), O_WRONLY).read(1) }
    assertErrno(.EISDIR) { _ = try OpenFile(folder, O_WRONLY) }
    assertErrno(.EISDIR) { _ = try OpenFile(folder, O_RDONLY).read(1) }
    assertErrno(.ENOTDIR) { _ = try OpenFile(path("f"), O_RDONLY | O_DIRECTORY) }
    assertErrno(.ENOTDIR) { _ = try OpenFile(path("f/below"), O_RDONLY) }
    assertErrno(.ENOENT) { _ = try OpenFile(path("missing"), O_RDONLY) }
    assertErrno(.ENOENT) { _ = try OpenFile(path("missing/f"), O_CREAT | O_RDWR) }
  }

  func testDirectReadsAndWrites() throws {
    let outcome = shell(
      """
      head -c 1048576 /dev/urandom >f
      dd if=f of=g bs=65536 iflag=direct oflag=direct status=none && cmp f g && echo same
      """)
    XCTAssertEqual(outcome.text, "same", outcome.description)
  }

  // MARK: Mappings

  func testASharedMappingWritesToTheFile() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.truncate(20_000)
    try file.withMapping(20_000) { map in
      map[0] = 0x41
      map[8191] = 0x42
      map[19_999] = 0x43
      XCTAssertEqual(msync(map.baseAddress, map.count, MS_SYNC), 0)
    }
    let bytes = try Sys.contents(path("f"))
    XCTAssertEqual([bytes[0], bytes[8191], bytes[19_999], bytes[1]], [0x41, 0x42, 0x43, 0])
  }

  func testAMappingOutlivesItsDescriptor() throws {
    let outcome = python(
      """
      import mmap, os
      with open("f", "w+b") as f:
          f.truncate(8192)
          m = mmap.mmap(f.fileno(), 8192)
      m[4096:4100] = b"late"
      m.close()
      print(open("f", "rb").read()[4096:4100].decode())
      """)
    XCTAssertEqual(outcome.text, "late", outcome.description)
  }

  func testWritesShowInAMapping() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.write([UInt8](repeating: 0, count: 4096))
    let other = try OpenFile(path("f"), O_WRONLY)
    try file.withMapping(4096) { map in
      XCTAssertEqual(map[10], 0)
      try other.write("now", at: 10)
      XCTAssertEqual(Array(map[10..<13]), Array("now".utf8))
    }
  }

  func testAMappingIsSharedBetweenProcesses() throws {
    let outcome = python(
      """
      import mmap, os
      f = open("f", "w+b"); f.truncate(4096)
      m = mmap.mmap(f.fileno(), 4096)
      if os.fork() == 0:
          n = mmap.mmap(os.open("f", os.O_RDWR), 4096); n[0:2] = b"hi"; os._exit(0)
      os.wait(); print(m[0:2].decode())
      """)
    XCTAssertEqual(outcome.text, "hi", outcome.description)
  }

  // MARK: Copies in the kernel

  func testCopyFileRange() throws {
    let bytes = patterned(300_000, seed: 2)
    try Sys.put(path("a"), bytes)
    let from = try OpenFile(path("a"), O_RDONLY)
    let to = try OpenFile(path("b"), O_RDWR | O_CREAT)
    var done = 0
    while done < 200_000 {
      let count = try to.copy(from: from, at: Int64(1000 + done), to: Int64(7 + done), count: 200_000 - done)
      guard count > 0 else { return XCTFail("copied \(done) bytes only") }
      done += count
    }
    XCTAssertEqual(try to.info().st_size, 200_007)
    assertBytes(try to.read(200_000, at: 7), Array(bytes[1000..<201_000]))
    XCTAssertEqual(try to.copy(from: from, at: 300_000, to: 0, count: 10), 0, "at the end of the source")
  }

  func testCopyFileRangeWithinAFile() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.write("abcdef")
    XCTAssertEqual(try file.copy(from: file, at: 0, to: 6, count: 6), 6)
    XCTAssertEqual(try file.text(20, at: 0), "abcdefabcdef")
    assertErrno(.EINVAL, "overlapping") { _ = try file.copy(from: file, at: 0, to: 3, count: 6) }
  }

  func testSendfileIntoAndOutOf() throws {
    let outcome = python(
      """
      import os
      open("a", "wb").write(b"q" * 500000)
      a, b = os.open("a", os.O_RDONLY), os.open("b", os.O_RDWR | os.O_CREAT)
      n = 0
      while n < 500000: n += os.sendfile(b, a, n, 500000 - n)
      print(open("b", "rb").read() == b"q" * 500000)
      """)
    XCTAssertEqual(outcome.text, "True", outcome.description)
  }

  // MARK: Syncing

  func testTheSyncFamilySucceeds() throws {
    let file = try OpenFile(path("f"), O_RDWR | O_CREAT)
    try file.write("x")
    try file.sync()
    try file.syncData()
    try file.syncVolume()
    try OpenFolder(folder).sync()
    let reader = try OpenFile(path("f"), O_RDONLY)
    try reader.sync()
    let strict = try OpenFile(path("g"), O_RDWR | O_CREAT | O_SYNC)
    try strict.write("y")
    XCTAssertEqual(try Sys.text(path("g")), "y")
  }
}
