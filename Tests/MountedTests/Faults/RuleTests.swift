import CLinux
import Containers
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// What rules do to the calls of a program, on a real mount: as often as they say, and seen as often.
final class RuleTests: MountedTestCase {
  /// The errno of a call; nil: it succeeded.
  private func errno(_ body: () throws -> Void) throws -> String? {
    do {
      try body()
      return nil
    } catch let error as Errno { return error.name }
  }

  /// Arms a rule that fires twice, makes the call five times: the first two fail, the rest succeed, and the mount has
  /// counted two that were seen.
  private func assertTwice(
    _ volume: MountedVolume, _ rule: String, _ errno: String, line: UInt = #line, _ body: () throws -> Void
  ) throws {
    try volume.control("clear", "add id=t errno=\(errno) times=2 \(rule)")
    var got: [String?] = []
    for _ in 0..<5 { got.append(try self.errno(body)) }
    XCTAssertEqual(got, [errno, errno, nil, nil, nil], "\(rule) errno=\(errno)", line: line)
    let counts = try volume.counts("t")
    XCTAssertEqual(counts.fired, 2, rule, line: line)
    XCTAssertEqual(counts.visible, 2, rule, line: line)
    try volume.control("clear")
  }

  /// ESTALE is what the kernel tries again by itself; EIO on a known name costs a second lookup; EINTR does not.
  func testCallsByPathFailExactlyAsOftenAsTheRuleSays() throws {
    let volume = try mount()
    let f = volume.path("f")
    try Sys.put(f, "bytes")
    try Sys.makeFolder(volume.path("d"))
    try Sys.symlink("f", at: volume.path("l"))
    for errno in ["ESTALE", "EIO", "EACCES", "EINTR", "ENXIO"] {
      let once: [(String, () throws -> Void)] = [
        ("op=open path=f", { try OpenFile(f, O_RDONLY).close() }),
        ("op=lookup path=f", { _ = try Sys.info(f) }),
        ("op=getattr path=f", { _ = try Sys.info(f) }),
        (
          "op=create path=new",
          {
            try Sys.put(volume.path("new"), ""); try Sys.remove(volume.path("new"))
          }
        ),
        (
          "op=mkdir",
          {
            try Sys.makeFolder(volume.path("m")); try Sys.removeFolder(volume.path("m"))
          }
        ),
        (
          "op=rmdir",
          {
            if !Sys.exists(volume.path("m")) { try Sys.makeFolder(volume.path("m")) }
            try Sys.removeFolder(volume.path("m"))
          }
        ),
        (
          "op=rename path=f",
          {
            try Sys.rename(f, volume.path("g")); try Sys.rename(volume.path("g"), f)
          }
        ),
        (
          "op=unlink path=x",
          {
            if !Sys.exists(volume.path("x")) { try Sys.put(volume.path("x"), "") }
            try Sys.remove(volume.path("x"))
          }
        ),
        (
          "op=symlink",
          {
            try Sys.symlink("t", at: volume.path("s")); try Sys.remove(volume.path("s"))
          }
        ),
        ("op=readlink path=l", { _ = try Sys.readlink(volume.path("l")) }),
        ("op=chmod path=f", { try Sys.setMode(f, 0o600) }),
        ("op=truncate path=f", { try Sys.truncate(f, 5) }),
        ("op=utimens path=f", { try Sys.setTimes(f, accessed: timespec(1, 1), modified: timespec(1, 1)) }),
        ("op=getxattr path=f", { _ = try Sys.xattrText(f, "user.docsfs.state") }),
        ("op=setxattr path=f", { try Sys.setXattr(f, "user.a", [1]) }),
        ("op=listxattr path=f", { _ = try Sys.xattrNames(f) }),
        ("op=opendir path=d", { _ = try Sys.names(volume.path("d")) }),
        ("op=statfs", { _ = try Sys.volumeInfo(f) }),
      ]
      for (rule, body) in once { try assertTwice(volume, rule, errno, body) }
    }
  }

  func testCallsOnAnOpenFileFailExactlyAsOftenAsTheRuleSays() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "bytes")
    let file = try OpenFile(volume.path("f"), O_RDWR)
    for errno in ["ESTALE", "EIO", "ENOSPC", "ETIMEDOUT"] {
      try assertTwice(volume, "op=write path=f", errno) { try file.write("B", at: 0) }
      try assertTwice(volume, "op=fsync", errno) { try file.sync() }
      try assertTwice(volume, "op=getattr path=f", errno) { _ = try file.info() }
      try assertTwice(volume, "op=truncate path=f", errno) { try file.truncate(5) }
      try assertTwice(volume, "op=fallocate path=f", errno) { try file.allocate(mode: 0, offset: 0, length: 5) }
      try assertTwice(volume, "op=flush path=f", errno) { try OpenFile(volume.path("f"), O_RDONLY).close() }
      try assertTwice(volume, "op=read path=f", errno) { _ = try file.read(5, at: 0) }
      try assertTwice(volume, "op=read path=f", errno) {
        _ = try OpenFile(volume.path("f"), O_RDONLY).read(5, at: 0)
      }
    }
    XCTAssertEqual(try file.text(5, at: 0), "Bytes")
  }

  /// Through the page cache, whose readahead hides a failure; the file was read and cached before.
  func testABufferedReadOfALargeFileFailsAsOftenAsTheRuleSays() throws {
    let volume = try mount()
    let bytes = patterned(3 << 20, seed: 3)
    try Sys.put(volume.path("f"), bytes)
    let file = try OpenFile(volume.path("f"), O_RDONLY)
    _ = try file.read(1 << 20, at: 0)
    for times in [1, 3, 10] {
      try volume.control("clear", "add id=t op=read path=f errno=EIO times=\(times)")
      var failures = 0
      var place: Int64 = 0
      while place < bytes.count {
        do throws(Errno) {
          let got = try file.read(10_000, at: place)
          assertBytes(got, Array(bytes[Int(place)..<Int(place) + got.count]))
          place += Int64(got.count)
        } catch {
          XCTAssertEqual(error, .EIO)
          failures += 1
          XCTAssertLessThanOrEqual(failures, times)
        }
      }
      XCTAssertEqual(failures, times)
      XCTAssertEqual(try volume.counts("t").visible, times)
    }
  }

  func testEightThreadsTogetherSeeAsManyStaleOpensAsTheRuleSays() throws {
    let volume = try mount()
    let paths = (0..<8).map { volume.path("f\($0)") }
    for path in paths { try Sys.put(path, "bytes") }
    try volume.control("add id=t op=open errno=ESTALE times=100")
    let failures = Guarded(0)
    DispatchQueue.concurrentPerform(iterations: 8) { index in
      for _ in 0..<100 {
        do throws(Errno) { try OpenFile(paths[index], O_RDONLY).close() } catch {
          failures.withLock { $0 += error == .ESTALE ? 1 : 1_000_000 }
        }
      }
    }
    XCTAssertEqual(failures.withLock { $0 }, 100)
    XCTAssertEqual(try volume.counts("t"), RuleCounts(matched: 100, fired: 100, visible: 100))
  }

  // MARK: Effects

  func testATornWriteLandsInPartAndFails() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "0123456789")
    let file = try OpenFile(volume.path("f"), O_RDWR)
    try volume.control("add id=t op=write path=f torn=4 errno=ENOSPC times=1")
    assertErrno(.ENOSPC) { try file.write("ABCDEFGHIJ", at: 0) }
    XCTAssertEqual(try file.text(10, at: 0), "ABCD456789")
    XCTAssertEqual(try volume.counts("t"), RuleCounts(matched: 1, fired: 1, visible: 1))
    XCTAssertEqual(try file.write("ABCDEFGHIJ", at: 0), 10)
    try volume.control("clear", "add id=t op=write path=f torn=512 times=1")
    assertErrno(.EIO) { try file.write([UInt8](repeating: 7, count: 4096), at: 0) }
    XCTAssertEqual(try Sys.size(volume.path("f")), 512)
    try volume.settle()
    XCTAssertEqual(try Sys.contents(volume.remote("f")), try Sys.contents(volume.path("f")))
  }

  func testShortReadsAndWritesSayHowMuchTheyMoved() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "0123456789")
    try volume.control("add id=w op=write path=f short=3 times=1", "add id=r op=read path=f short=2 times=1")
    let file = try OpenFile(volume.path("f"), O_RDWR)
    XCTAssertEqual(try file.write("ABCDEFGHIJ", at: 0), 3)
    XCTAssertEqual(try file.text(10, at: 0), "AB")
    XCTAssertEqual(try file.text(10, at: 0), "ABC3456789")
  }

  func testCorruptionIsReadAndNeverStored() throws {
    let volume = try mount()
    let bytes = patterned(200_000, seed: 4)
    try Sys.put(volume.path("f"), bytes)
    try volume.control("seed 7", "add id=t op=read path=f corrupt=3 times=1")
    let file = try OpenFile(volume.path("f"), O_RDONLY)
    let got = try file.read(4096, at: 8192)
    let flipped = zip(got, bytes[8192..<12_288]).reduce(0) { $0 + ($1.0 ^ $1.1).nonzeroBitCount }
    XCTAssertEqual(flipped, 3)
    assertBytes(try Sys.contents(volume.path("f")), bytes)
    try volume.settle()
    assertBytes(try Sys.contents(volume.remote("f")), bytes)
  }

  func testWhatWasNotSyncedIsLost() throws {
    let volume = try mount()
    try volume.control("add id=t op=fsync errno=EIO lose=dirty when=2")
    let file = try OpenFile(volume.path("f"), O_RDWR | O_CREAT)
    try file.write("first")
    try file.sync()
    try file.write("SECOND, longer", at: 0)
    assertErrno(.EIO) { try file.sync() }
    XCTAssertEqual(try Sys.text(volume.path("f")), "first")
    XCTAssertEqual(try file.text(100, at: 0), "first")
    try volume.control("clear")
    try file.write("third", at: 0)
    try file.sync()
    try volume.settle()
    XCTAssertEqual(try Sys.text(volume.remote("f")), "third")
    try file.close()
    XCTAssertTrue(try volume.unmount().succeeded)
    XCTAssertTrue(volume.doctor().succeeded)
  }

  func testADelayHoldsUpOnlyItsCall() throws {
    let volume = try mount()
    try Sys.put(volume.path("slow"), "bytes")
    try Sys.put(volume.path("f"), "bytes")
    try volume.control("add id=t op=open path=slow delay=20s")
    let readers = try (0..<30).map { _ in try Subprocess(["cat", volume.path("slow")]) }
    try volume.run("fault", volume.mountpoint, "wait", "id=t", "fired=30", "timeout=60s")
    XCTAssertEqual(try Sys.text(volume.path("f")), "bytes", "nobody else waits")
    XCTAssertTrue(readers.allSatisfy(\.isRunning))
    try volume.control("del t")
    for reader in readers { XCTAssertEqual(reader.finish(within: 15).text, "bytes") }
  }

  func testAHangEndsByClearAndItsCallersByKill() throws {
    let volume = try mount()
    // Each has a file of its own: the kernel lets others wait behind a lookup of the same name.
    for index in 0..<16 { try Sys.put(volume.path("f\(index)"), "bytes") }
    for rule in ["op=open", "op=lookup", "op=getattr", "op=read", "op=flush"] {
      try volume.control("add id=t \(rule) path=f* hang")
      let script = "exec 3<$F; stat $F; cat <&3; exec 3<&-"
      let callers = try (0..<16).map { index in
        try Subprocess(["bash", "-c", script], environment: ["F": volume.path("f\(index)")])
      }
      try volume.run("fault", volume.mountpoint, "wait", "id=t", "fired=16", "timeout=60s")
      for caller in callers[..<8] { caller.signal(SIGKILL) }
      for caller in callers[..<8] {
        XCTAssertEqual(caller.finish(within: 20).status, 128 + SIGKILL, "\(rule): a killed caller")
      }
      XCTAssertTrue(callers[8...].allSatisfy(\.isRunning), rule)
      try volume.control("clear")
      for caller in callers[8...] { XCTAssertEqual(caller.finish(within: 20).status, 0, rule) }
    }
  }

  func testAHangEndsWithItsTime() throws {
    let volume = try mount()
    try volume.control("add id=t op=mkdir hang for=300ms")
    try Sys.makeFolder(volume.path("d"))
    XCTAssertTrue(Sys.exists(volume.path("d")))
    XCTAssertEqual(try volume.counts("t").fired, 1)
  }

  func testTheCallerIsKilled() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "bytes")
    try volume.control("add id=t op=open path=f exe=cat kill=TERM")
    let caller = try Subprocess(["cat", volume.path("f")])
    XCTAssertEqual(caller.finish(within: 20).status, 128 + SIGTERM)
    XCTAssertEqual(try Sys.text(volume.path("f")), "bytes", "another program is not meant")
    XCTAssertEqual(try volume.counts("t").fired, 1)
  }

  // MARK: Matches

  func testOnlyWhatMatches() throws {
    let volume = try mount()
    for name in ["a.txt", "b.txt", "c.pdf"] { try Sys.put(volume.path(name), "0123456789") }
    try Sys.makeFolder(volume.path("d"))
    try Sys.put(volume.path("d/a.txt"), "0123456789")
    func fails(_ name: String) throws -> Bool { try errno { _ = try Sys.contents(volume.path(name)) } != nil }
    func failing(_ rule: String) throws -> [String] {
      try volume.control("clear", "add \(rule) errno=EIO")
      return try ["a.txt", "b.txt", "c.pdf", "d/a.txt"].filter(fails)
    }
    XCTAssertEqual(try failing("op=open path=*.pdf"), ["c.pdf"])
    XCTAssertEqual(try failing("op=open path=/a.txt"), ["a.txt"])
    XCTAssertEqual(try failing("op=open path=a.txt"), ["a.txt", "d/a.txt"])
    XCTAssertEqual(try failing("op=open path=re:/[ab][.]txt$"), ["a.txt", "b.txt", "d/a.txt"])
    XCTAssertEqual(try failing("op=open uid=\(getuid())"), ["a.txt", "b.txt", "c.pdf", "d/a.txt"])
    XCTAssertEqual(try failing("op=open uid=4711"), [])
    XCTAssertEqual(try failing("op=open pid=\(getpid()) path=b.*"), ["b.txt"])
    XCTAssertEqual(try failing("op=open exe=/no/such"), [])
    XCTAssertEqual(try failing("op=open when=2..3"), ["b.txt", "c.pdf"])
    XCTAssertEqual(try failing("op=open when=1+2"), ["a.txt", "c.pdf"])
    try volume.control("clear", "add op=write path=a.txt range=4K-8K errno=EIO")
    let file = try OpenFile(volume.path("a.txt"), O_RDWR)
    XCTAssertEqual(try file.write("x", at: 0), 1)
    assertErrno(.EIO) { try file.write("x", at: 4096) }
    XCTAssertEqual(try file.write("x", at: 8192), 1)
  }

  /// An armed rule takes effect although the kernel has everything in its caches.
  func testArmingReachesWhatTheKernelHasCached() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "bytes")
    _ = try Sys.text(volume.path("f"))
    _ = try Sys.names(volume.mountpoint)
    XCTAssertFalse(Sys.exists(volume.path("absent")))
    try volume.control(
      "add op=stat errno=EIO path=f", "add op=lookup errno=ESHUTDOWN path=absent", "add op=opendir errno=EPERM")
    assertErrno(.EIO) { _ = try Sys.info(volume.path("f")) }
    assertErrno(Errno(name: "ESHUTDOWN")!) { _ = try Sys.info(volume.path("absent")) }
    assertErrno(.EPERM) { _ = try Sys.names(volume.mountpoint) }
    try volume.control("clear")
    XCTAssertEqual(try Sys.text(volume.path("f")), "bytes")
    assertErrno(.ENOENT) { _ = try Sys.info(volume.path("absent")) }
  }
}
