import CLinux
import StorageErrors
import TestSupport
import XCTest

/// flock(2) and fcntl(2) locks between processes.
final class LockTests: PosixTestCase {
  func testFlockExcludesAnotherProcess() throws {
    try Sys.put(path("f"), "x")
    let file = try OpenFile(path("f"), O_RDWR)
    try file.lock(LOCK_EX)
    XCTAssertEqual(shell("flock -n f true").status, 1)
    XCTAssertEqual(shell("flock -n -s f true").status, 1)
    try file.lock(LOCK_SH)
    XCTAssertEqual(shell("flock -n -s f true").status, 0)
    XCTAssertEqual(shell("flock -n f true").status, 1)
    try file.lock(LOCK_UN)
    XCTAssertEqual(shell("flock -n f true").status, 0)
  }

  func testFlockOfTwoDescriptorsInOneProcess() throws {
    let one = try OpenFile(path("f"), O_RDWR | O_CREAT)
    let two = try OpenFile(path("f"), O_RDWR)
    try one.lock(LOCK_EX)
    assertErrno(.EAGAIN) { try two.lock(LOCK_EX | LOCK_NB) }
    try one.close()
    try two.lock(LOCK_EX | LOCK_NB)
  }

  func testFlockWaitsForItsTurn() throws {
    let outcome = shell(
      """
      : >f; : >log
      flock f sh -c 'touch held; sleep 1; echo first >>log' &
      while [ ! -e held ]; do sleep 0.05; done
      flock f sh -c 'echo second >>log'; wait; cat log
      """)
    XCTAssertEqual(outcome.lines, ["first", "second"], outcome.description)
  }

  func testADeadHolderLetsGo() throws {
    let outcome = shell(
      """
      : >f; flock f sh -c 'touch held; exec sleep 100' & while [ ! -e held ]; do sleep 0.05; done
      flock -n f true && echo free; kill -9 $! $(pgrep -P $!); wait 2>/dev/null; flock -w 10 f echo mine
      """)
    XCTAssertEqual(outcome.text, "mine", outcome.description)
  }

  func testRecordLocksExcludeRangesBetweenProcesses() throws {
    let outcome = python(
      """
      import fcntl, os, struct
      f = open("f", "w+b"); f.write(b"0" * 100); f.flush()
      fcntl.lockf(f, fcntl.LOCK_EX, 10, 20)
      def ask(kind, length, start):
          g = os.open("f", os.O_RDWR)
          try: fcntl.lockf(g, kind | fcntl.LOCK_NB, length, start); return "got"
          except OSError as e: return os.strerror(e.errno)
          finally: os.close(g)
      r, w = os.pipe()
      if os.fork() == 0:
          answers = [ask(fcntl.LOCK_EX, 5, 25), ask(fcntl.LOCK_SH, 1, 29), ask(fcntl.LOCK_EX, 20, 0), ask(fcntl.LOCK_EX, 0, 30)]
          q = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
          held = struct.unpack("hhqqi4x", fcntl.fcntl(os.open("f", os.O_RDWR), fcntl.F_GETLK, q))
          answers.append(str(held[2:4])); os.write(w, "\\n".join(answers).encode()); os._exit(0)
      os.wait(); print(os.read(r, 1000).decode())
      """)
    let busy = "Resource temporarily unavailable"
    XCTAssertEqual(outcome.lines, [busy, busy, "got", "got", "(20, 10)"], outcome.description)
  }

  func testSharedRecordLocksCoexist() throws {
    let outcome = python(
      """
      import fcntl, os
      f = open("f", "w+b"); fcntl.lockf(f, fcntl.LOCK_SH)
      if os.fork() == 0:
          g = open("f", "r+b"); fcntl.lockf(g, fcntl.LOCK_SH | fcntl.LOCK_NB)
          try: fcntl.lockf(g, fcntl.LOCK_EX | fcntl.LOCK_NB); os._exit(2)
          except OSError: os._exit(0)
      print(os.wait()[1])
      """)
    XCTAssertEqual(outcome.text, "0", outcome.description)
  }

  func testOpenFileDescriptionLocks() throws {
    let outcome = python(
      """
      import fcntl, os, struct
      OFD_SETLK = 37
      def lock(fd): fcntl.fcntl(fd, OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
      a = os.open("f", os.O_RDWR | os.O_CREAT); b = os.open("f", os.O_RDWR)
      lock(a)
      try: lock(b); print("both")
      except OSError as e: print(os.strerror(e.errno))
      os.close(a); lock(b); print("then")
      """)
    XCTAssertEqual(outcome.lines, ["Resource temporarily unavailable", "then"], outcome.description)
  }
}
