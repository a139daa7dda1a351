import CLinux
import Containers
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// Rules and commands as somebody gives them who means to break the mount.
final class HostileTests: MountedTestCase {
  // MARK: Calls that are held

  /// Other commands do not end it, although the rule is used up.
  func testWhoHangsByARuleThatIsUsedUpHangsUntilItIsDeleted() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "bytes")
    for effect in ["hang times=1", "hang when=1..1", "delay=100s times=1"] {
      try volume.control("add id=t op=open path=f \(effect)")
      let caller = try Subprocess(["cat", volume.path("f")])
      try volume.run("fault", volume.mountpoint, "wait", "id=t", "fired=1", "timeout=60s")
      try volume.control("mark other", "add id=other op=rmdir errno=EIO", "set other times=3", "del other")
      XCTAssertEqual(try volume.shownNumber("held"), 1, effect)
      XCTAssertTrue(caller.isRunning, effect)
      try volume.control("del t")
      XCTAssertEqual(caller.finish(within: 20).text, "bytes", effect)
    }
  }

  func testATimeEndsAHangOfARuleThatIsUsedUp() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "bytes")
    try volume.control("add id=t op=open path=f hang times=1 for=2s")
    let caller = try Subprocess(["cat", volume.path("f")])
    try volume.run("fault", volume.mountpoint, "wait", "id=t", "fired=1", "timeout=60s")
    try volume.control("mark other")
    XCTAssertEqual(caller.finish(within: 30).text, "bytes")
  }

  /// The new rule has the old one's name, and is another one.
  func testWhoHangsByARuleThatIsReplacedGoesOn() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "bytes")
    try volume.control(#"{"replace": [{"op": "open", "path": "f", "hang": true}]}"#)
    let caller = try Subprocess(["cat", volume.path("f")])
    try volume.run("fault", volume.mountpoint, "wait", "id=r1", "fired=1", "timeout=60s")
    try volume.control(#"{"replace": [{"op": "rmdir", "errno": "EIO"}]}"#)
    XCTAssertEqual(caller.finish(within: 20).text, "bytes")
  }

  /// A call may be judged before a rule goes, and held after that.
  func testNobodyStaysBehindWhenRulesComeAndGoUnderLoad() throws {
    let volume = try mount()
    let callers = try (0..<8).map { index in
      try Sys.makeFolder(volume.path("d\(index)"))
      let script = "for i in {1..60}; do stat $D >/dev/null; echo $i > $D/f; cat $D/f; rm $D/f; done"
      return try Subprocess(["bash", "-c", script], environment: ["D": volume.path("d\(index)")])
    }
    var round = 0
    let gaveUp = Clock.now + 150
    while callers.contains(where: \.isRunning), Clock.now < gaveUp {
      let effect = ["hang", "delay=50s", "hang times=2", "hang for=1ms"][round % 4]
      try volume.control("add op=lookup,getattr,open,create,read,write,flush,unlink \(effect)")
      try volume.control(round % 2 == 0 ? "clear" : #"{"replace":[]}"#)
      round += 1
    }
    try volume.control("clear")
    for caller in callers {
      let outcome = caller.finish(within: 30)
      XCTAssertTrue(outcome.succeeded, "\(outcome)")
      XCTAssertEqual(outcome.lines.filter { Int($0) != nil }, (1...60).map(String.init))
    }
    XCTAssertEqual(try volume.shownNumber("held"), 0)
  }

  /// The daemon ends although somebody arms anew what holds the callers.
  func testNothingCanBeArmedOnceTheDaemonEnds() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "bytes")
    let control = try OpenFile(volume.controlFile, O_WRONLY)
    try volume.control("add id=t op=open path=f hang")
    let caller = try Subprocess(["cat", volume.path("f")])
    try volume.run("fault", volume.mountpoint, "wait", "id=t", "fired=1", "timeout=60s")
    kill(try XCTUnwrap(volume.pid), SIGTERM)
    XCTAssertEqual(caller.finish(within: 30).text, "bytes")
    assertEventually("the mount is gone from the table") { !volume.isMounted }
    assertErrno(.EBUSY) { try control.write("add op=* hang\n", at: 0) }
    try control.close()
    XCTAssertEqual(volume.stop(), [])
  }

  /// What makes or removes a name in the root keeps that folder locked in the kernel; `.docsfs` is reached all the same.
  func testTheControlFileIsReachedWhileCallsHangInTheRoot() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "bytes")
    for (operation, command) in [
      ("mkdir", "mkdir $M/new"), ("create", "echo new > $M/made"), ("rename", "mv $M/f $M/g"), ("unlink", "rm $M/g"),
      ("symlink", "ln -s a $M/s"), ("rmdir", "rmdir $M/new"),
    ] {
      try volume.control("add id=t op=\(operation) hang")
      let caller = try Subprocess(["bash", "-c", command], environment: ["M": volume.mountpoint])
      try volume.run("fault", volume.mountpoint, "wait", "id=t", "fired=1", "timeout=60s")
      let clearing = try Subprocess(
        ["bash", "-c", "echo clear > $M/.docsfs/control"], environment: ["M": volume.mountpoint])
      XCTAssertEqual(clearing.wait(20)?.status, 0, operation)
      // What did not work would hang by the mount for good.
      try volume.run("fault", volume.mountpoint, "clear")
      XCTAssertEqual(caller.finish(within: 20).status, 0, operation)
    }
  }

  // MARK: Two who command at once

  /// What one of them arms holds when its write returns, whatever the other does meanwhile.
  func testTwoWritersOfControlDoNotUndoEachOther() throws {
    let volume = try mount()
    let script = """
      for i in {1..150}; do
        echo "add id=w$W op=mkdir path=d$W errno=ENOSPC" > $M/.docsfs/control || echo "$i: add"
        if mkdir $M/d$W 2> /dev/null; then echo "$i: armed, and mkdir succeeds"; rmdir $M/d$W; fi
        echo "del w$W" > $M/.docsfs/control || echo "$i: del"
        mkdir $M/d$W && rmdir $M/d$W || echo "$i: deleted, and mkdir fails"
      done
      """
    let writers = try (0..<4).map { index in
      try Subprocess(["bash", "-c", script], environment: ["M": volume.mountpoint, "W": "\(index)"])
    }
    for writer in writers {
      let outcome = writer.finish(within: 200)
      XCTAssertEqual(outcome.status, 0)
      XCTAssertEqual(outcome.text + outcome.errors, "")
    }
  }

  // MARK: What a held call must not change

  /// The kernel leaves it to the daemon to clear setuid; a write that a rule delays clears it all the same.
  func testADelayedWriteOfAnotherUserClearsSetuid() throws {
    try skipUnlessRoot()
    let volume = try mount("allow_other")
    for rule in ["op=write path=f delay=50ms", "op=open path=f delay=50ms", "op=write path=f short=1"] {
      try Sys.put(volume.path("f"), "bytes")
      try Sys.setMode(volume.path("f"), 0o4777)
      try volume.control("add id=t \(rule)")
      XCTAssertTrue(volume.shell("echo more >> $M/f", as: 65_534).succeeded, rule)
      XCTAssertGreaterThan(try volume.counts("t").fired, 0)
      try volume.control("clear")
      XCTAssertEqual(try Sys.info(volume.path("f")).st_mode & 0o7777, 0o777, rule)
    }
  }

  /// One signal for each time the rule fires, although the call is looked at again after its delay.
  func testADelayedCallSignalsItsCallerOnce() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "bytes")
    // A signal that is blocked does not interrupt the call; real-time ones would queue, so each sending is counted by
    // taking it up while the call waits.
    let script = """
      import signal, threading, time
      signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
      came = []
      def take():
          while signal.sigtimedwait([signal.SIGUSR1], 3): came.append(1)
      taker = threading.Thread(target=take)
      taker.start()
      open("\(volume.path("f"))").read()
      taker.join()
      print(len(came))
      """
    try volume.control("add id=t op=open path=f kill=USR1 delay=500ms times=1")
    try skipUnlessInstalled("python3")
    let caller = try Subprocess(["python3", "-c", script])
    XCTAssertEqual(caller.finish(within: 60).text, "1")
  }

  // MARK: Reads past the page cache

  /// The kernel hides no failure of theirs: each is seen. The file was opened before the rule came.
  func testReadsWithODirectFailAsOftenAsTheRuleSays() throws {
    let volume = try mount()
    let bytes = patterned(1 << 20, seed: 9)
    try Sys.put(volume.path("f"), bytes)
    let file = try OpenFile(volume.path("f"), O_RDONLY | Int32(LX_O_DIRECT))
    for size in [4096, 65_536] {
      try volume.control("add id=t op=read path=f errno=EIO times=3")
      let page = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 4096)
      defer { page.deallocate() }
      let failures = (0..<8).filter { index in
        guard pread(file.fd, page.baseAddress, size, off_t(index * size)) < 0 else {
          XCTAssertTrue(page.elementsEqual(bytes[index * size..<(index + 1) * size]))
          return false
        }
        XCTAssertEqual(errno, EIO)
        return true
      }
      XCTAssertEqual(failures, [0, 1, 2], "\(size)")
      XCTAssertEqual(try volume.counts("t"), RuleCounts(matched: 3, fired: 3, visible: 3))
      try volume.control("clear")
    }
  }

  /// A page whose readahead a rule failed is judged anew each time, as any call is. Of one page: how far the kernel
  /// reads ahead, and when, is its own affair.
  func testBufferedReadsFailEverySecondTime() throws {
    let volume = try mount()
    let bytes = patterned(4096, seed: 10)
    try Sys.put(volume.path("f"), bytes)
    let file = try OpenFile(volume.path("f"), O_RDONLY)
    XCTAssertEqual(try file.read(1, at: 0), [bytes[0]])
    try volume.control("add id=t op=read path=f errno=EIO when=1+2")
    for round in 0..<16 {
      assertErrno(.EIO, "round \(round)") { _ = try file.read(4096, at: 0) }
      assertBytes(try file.read(4096, at: 0), bytes, "round \(round)")
      XCTAssertEqual(posix_fadvise(file.fd, 0, 0, POSIX_FADV_DONTNEED), 0)
    }
    XCTAssertEqual(try volume.counts("t").visible, 16)
  }

  /// What has to ask the container does not hold up who writes after it: the kernel lets one write at a time.
  func testCommandsThatWaitForTheContainerHoldUpNobody() throws {
    let volume = try mount { try Sys.put($0.remote("far"), "bytes") }
    // What is not listed yet would have to be asked for.
    XCTAssertEqual(try volume.names(), ["far"])
    try volume.control("cloud latency=1000s")
    try volume.control("refresh /", "evict / recursive=1", "pin /far", "materialize /far")
    try volume.control("add id=t op=mkdir errno=EIO")
    assertErrno(.EIO) { try Sys.makeFolder(volume.path("d")) }
    try volume.control("clear", "cloud online")
    try Sys.makeFolder(volume.path("d"))
    XCTAssertEqual(try Sys.text(volume.path("far")), "bytes")
    assertErrno(.ENOENT) { try volume.control("pin /absent") }
    assertErrno(.EEXIST) { try volume.control("add id=t op=mkdir errno=EIO", "add id=t op=mkdir errno=EIO") }
    let said = try volume.controlError()
    XCTAssertTrue(said.hasPrefix("2:1: there is a rule t"), said)
  }

  /// All rules of one write take hold together: the time that it takes does not grow with what the kernel has cached.
  func testAThousandRulesInOneWrite() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "bytes")
    try volume.must("cd $M; for i in {1..300}; do echo $i > g$i; done")
    let rules = (1...1000).map { "add id=t\($0) op=open path=/x\($0) errno=EIO" }
    try volume.control(rules.dropLast().joined(separator: "\n") + "\nadd id=t1000 op=open path=f errno=EIO times=1")
    assertErrno(.EIO) { _ = try Sys.text(volume.path("f")) }
    XCTAssertEqual(try Sys.text(volume.path("f")), "bytes")
    assertErrno(.EFBIG) { try volume.control("add op=open errno=EIO") }
    let text = try volume.controlText()
    try volume.control("clear", text)
    XCTAssertEqual(try volume.controlText().split(separator: "\n").count, 1001)
  }

  // MARK: The control files as files

  func testTheControlFilesCannotBeMovedRemovedOrShadowed() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "bytes")
    try Sys.makeFolder(volume.path("d"))
    let own = volume.path(".docsfs")
    let calls: [(String, () throws -> Void)] = [
      ("rmdir", { try Sys.removeFolder(own) }),
      ("rename away", { try Sys.rename(own, volume.path("x")) }),
      ("rename away, not replacing", { try Sys.rename(own, volume.path("x"), flags: Int(LX_RENAME_NOREPLACE)) }),
      ("rename a folder over it", { try Sys.rename(volume.path("d"), own) }),
      ("rename into it", { try Sys.rename(volume.path("f"), own + "/x") }),
      ("rename over control", { try Sys.rename(volume.path("f"), own + "/control") }),
      ("rename control away", { try Sys.rename(own + "/control", volume.path("x")) }),
      ("unlink control", { try Sys.remove(own + "/control") }),
      ("link control", { try Sys.link(own + "/control", volume.path("x")) }),
      ("link into it", { try Sys.link(volume.path("f"), own + "/x") }),
      ("make a folder in it", { try Sys.makeFolder(own + "/x") }),
      ("truncate log", { try Sys.truncate(own + "/log", 0) }),
      ("write log", { try OpenFile(own + "/log", O_WRONLY).close() }),
    ]
    for (what, body) in calls { assertErrno(.EPERM, what, body) }
    XCTAssertEqual(try Sys.names(volume.mountpoint).sorted(), ["d", "f"])
    XCTAssertEqual(try Sys.names(own).sorted(), ["control", "error", "log", "status.json"])
    XCTAssertGreaterThan(try Sys.volumeInfo(own).f_frsize, 0)
    XCTAssertEqual(
      volume.shell("cd $M; find . | grep docsfs; cp -r . $C/../copy; ls -a $C/../copy").lines.sorted(),
      [".", "..", "d", "f"])
  }

  func testNothingFailsOnAMountWithFaultsOff() throws {
    let volume = try mount("faults=off")
    for command in [
      "add op=* errno=EIO", "cloud offline", "disconnect", "disconnect profile=unplugged", "set record=1",
    ] {
      assertErrno(.EPERM, command) { try volume.control(command) }
      XCTAssertTrue(try volume.controlError().hasPrefix("1:1: this volume is mounted with faults=off"), command)
      XCTAssertEqual(
        volume.docsfs(["fault", volume.mountpoint] + command.split(separator: " ").map(String.init)).status, 1)
    }
    try Sys.put(volume.path("f"), "bytes")
    try volume.settle()
    XCTAssertEqual(try Sys.text(volume.remote("f")), "bytes")
  }

  /// The kernel refuses the write; the socket takes the command.
  func testAReadOnlyMountFailsByCommandOfTheSocket() throws {
    let volume = try mount("ro") { try Sys.put($0.remote("f"), "bytes") }
    assertErrno(.EROFS) { try volume.control("clear") }
    try volume.run("fault", volume.mountpoint, "add", "op=open", "path=f", "errno=EIO", "times=1")
    assertErrno(.EIO) { _ = try Sys.text(volume.path("f")) }
    XCTAssertEqual(try Sys.text(volume.path("f")), "bytes")
  }

  /// Bytes of any kind, in pieces of any size: an errno, a sentence, and what is armed stays.
  func testRubbishIsRefusedAndChangesNothing() throws {
    let volume = try mount()
    try volume.control("add id=keep op=rmdir path=keep errno=EPERM")
    let before = try volume.controlText()
    let inputs: [(String, [UInt8])] = [
      ("NULs", [UInt8](repeating: 0, count: 5000) + [10]),
      ("no UTF-8", Array("add op=mkdir path=".utf8) + [0xff, 0xfe, 10]),
      ("braces", [UInt8](repeating: UInt8(ascii: "{"), count: 200_000)),
      ("brackets", Array("{\"replace\":".utf8) + [UInt8](repeating: UInt8(ascii: "["), count: 200_000)),
      ("10 MiB", [UInt8](repeating: UInt8(ascii: "a"), count: 10 << 20)),
      ("a good line behind a bad one", Array("nonsense\nclear\n".utf8)),
      ("a number beyond all", Array("add op=mkdir errno=99999999999999999999\n".utf8)),
      ("a time beyond all", Array("disconnect for=99999999999999h\n".utf8)),
    ]
    for (what, bytes) in inputs {
      for piece in [1 << 20, 7] where bytes.count < 1 << 18 || piece > 7 {
        let refusal = Self.write(bytes, to: volume.controlFile, inPiecesOf: piece)
        XCTAssertNotNil(refusal, "\(what), in pieces of \(piece)")
        XCTAssertFalse(try volume.controlError().isEmpty, what)
        XCTAssertEqual(try volume.controlText(), before, "\(what), in pieces of \(piece)")
      }
    }
  }

  /// The first errno of writing and closing; nil: all was taken.
  private static func write(_ bytes: [UInt8], to path: String, inPiecesOf size: Int) -> Errno? {
    do throws(Errno) {
      let file = try OpenFile(path, O_WRONLY)
      for start in stride(from: 0, to: bytes.count, by: size) {
        try file.write(Array(bytes[start..<min(start + size, bytes.count)]))
      }
      try file.close()
      return nil
    } catch { return error }
  }
}
