import CLinux
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// The command line, and how a mount begins and ends.
final class CommandLineTests: MountedTestCase {
  private let failed: Int32 = 1
  private let inPart: Int32 = 2
  private let usage: Int32 = 64
  private let noSuch: Int32 = 69
  private let tryAgain: Int32 = 75

  // MARK: Background and foreground

  func testTheCommandReturnsWhenTheMountAnswers() throws {
    let volume = try unmounted()
    try Sys.put(volume.remote("f"), "hello")
    let outcome = volume.docsfs(volume.mountArguments)
    XCTAssertEqual(outcome.status, 0, outcome.description)
    XCTAssertEqual(try Sys.text(volume.path("f")), "hello")
    try volume.run("unmount", volume.mountpoint)
    try assertGone(volume)
  }

  func testABackgroundMountFailsWithTheReason() throws {
    let volume = try unmounted(container: nil)
    volume.url = "dir:" + volume.home + "/nothing-here"
    let outcome = volume.docsfs(volume.mountArguments)
    assertRefused(outcome, noSuch, naming: "nothing-here")
    XCTAssertFalse(volume.isMounted)
    XCTAssertFalse(Sys.exists(volume.home + "/nothing-here"), "nothing is made")
  }

  func testEveryWayToUnmount() throws {
    for way in ["docsfs", "umount", "fusermount3", "TERM", "INT"] {
      let volume = try mount(name: way)
      try Sys.put(volume.path("f"), "kept")
      switch way {
      case "docsfs": try volume.run("unmount", volume.mountpoint)
      case "umount": try volume.must("umount $M")
      case "fusermount3": try volume.must("fusermount3 -u $M")
      default: kill(try XCTUnwrap(volume.pid), way == "TERM" ? SIGTERM : SIGINT)
      }
      try assertGone(volume)
      _ = volume.stop()
      try volume.mount()
      XCTAssertEqual(try Sys.text(volume.path("f")), "kept", way)
    }
  }

  func testUnmountCanWaitForUploads() throws {
    let volume = try mount()
    for index in 0..<20 { try Sys.put(volume.path("\(index)"), "x") }
    try volume.unmount("--wait=60")
    XCTAssertEqual(try volume.remoteNames().count, 20)
  }

  func testABusyMountSaysWhoHoldsIt() throws {
    let volume = try mount()
    let holder = try Subprocess(["bash", "-c", "cd '\(volume.mountpoint)' && touch here && exec sleep 100"])
    assertEventually("inside") { Sys.exists(volume.path("here")) }
    let outcome = volume.docsfs("unmount", volume.mountpoint)
    XCTAssertTrue([failed, tryAgain].contains(outcome.status), outcome.description)
    XCTAssertTrue(outcome.errors.contains("sleep"), outcome.description)
    XCTAssertEqual(try Sys.names(volume.mountpoint), ["here"], "still there")
    try volume.unmount("--force")
    holder.signal(SIGKILL)
    XCTAssertNotNil(holder.wait(10))
  }

  func testADeadMountIsReplaced() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "survives")
    volume.killDaemonOnly()
    assertErrno(.ENOTCONN) { _ = try Sys.info(volume.path("f")) }
    try volume.mount()
    XCTAssertEqual(try Sys.text(volume.path("f")), "survives")
    XCTAssertEqual(MountTable.all.filter { $0.path == volume.mountpoint }.count, 1)
  }

  func testADeadMountCanBeUnmounted() throws {
    let volume = try mount()
    volume.killDaemonOnly()
    XCTAssertTrue(volume.docsfs("unmount", volume.mountpoint).succeeded)
    XCTAssertFalse(volume.isMounted)
  }

  // MARK: What a mount refuses

  func testMountpointsThatWillNotDo() throws {
    let volume = try unmounted()
    let place = volume.home
    try Sys.put(place + "/file", "x")
    try Sys.makeFolder(place + "/full")
    try Sys.put(place + "/full/f", "x")
    for (mountpoint, word) in [
      ("missing", "missing"), ("file", "file"), ("full", "empty"), ("container/in", "container"),
    ] {
      if mountpoint == "container/in" { try Sys.makeFolder(volume.remote("in")) }
      let arguments = [
        "mount", "\(place)/\(mountpoint)", "--container", "dir:\(volume.container)", "--state", volume.state,
      ]
      let outcome = volume.docsfs(arguments)
      assertRefused(outcome, nil, naming: word)
      XCTAssertEqual(MountTable.mounts(below: place).count, 0)
    }
    XCTAssertFalse(Sys.exists(place + "/missing"))
    XCTAssertEqual(try volume.remoteNames(), ["in"], "nothing changed")
  }

  func testABusyMountpoint() throws {
    let volume = try mount()
    let other = try unmounted(name: "w")
    let arguments = [
      "mount", volume.mountpoint, "--container", "dir:\(other.container)", "--state", other.state,
    ]
    assertRefused(other.docsfs(arguments), nil, naming: volume.mountpoint)
    try Sys.put(volume.path("f"), "still served")
  }

  func testAContainerInsideTheMount() throws {
    let volume = try mount()
    try Sys.makeFolder(volume.path("inside"))
    let other = try unmounted(name: "w")
    let arguments = [
      "mount", other.mountpoint, "--container", "dir:\(volume.path("inside"))", "--state",
      volume.path("state"),
    ]
    XCTAssertNotEqual(other.docsfs(arguments, within: 30).status, 0)
    let own = ["mount", volume.container, "--container", "dir:\(volume.container)", "--state", other.state]
    XCTAssertNotEqual(other.docsfs(own, within: 30).status, 0)
  }

  func testAStateThatAnotherDaemonHolds() throws {
    let volume = try mount()
    let other = try unmounted(state: volume.state, name: "w")
    let arguments = [
      "mount", other.mountpoint, "--container", "dir:\(volume.container)", "--state", volume.state,
    ]
    let outcome = other.docsfs(arguments)
    XCTAssertTrue([failed, tryAgain].contains(outcome.status), outcome.description)
    XCTAssertTrue(outcome.errors.contains("\(try XCTUnwrap(volume.pid))"), "says the pid: \(outcome)")
    try Sys.put(volume.path("f"), "undisturbed")
  }

  func testAStateThatANewerDocsfsMade() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "x")
    try volume.unmount()
    let catalog = try catalog(of: volume)
    try skipUnlessInstalled("sqlite3")
    try Shell.must("sqlite3 '\(catalog)' 'PRAGMA user_version = 1000000'")
    let before = try Sys.contents(catalog)
    assertRefused(volume.docsfs(volume.mountArguments), nil, naming: "newer")
    XCTAssertEqual(try Sys.contents(catalog), before, "nothing changed")
  }

  func testADamagedState() throws {
    let volume = try mount()
    try volume.must("for i in $(seq 100); do echo $i >$M/$i; done")
    try volume.unmount()
    let catalog = try catalog(of: volume)
    try Sys.put(catalog, [UInt8](repeating: 0x5a, count: 8192))
    // What lies in the write-ahead log would mend it.
    try volume.must("rm -f '\(catalog)-wal' '\(catalog)-shm'")
    let outcome = volume.docsfs(volume.mountArguments)
    assertRefused(outcome, nil, naming: "doctor")
    XCTAssertTrue(try Sys.contents(catalog).starts(with: [0x5a, 0x5a]), "it is kept")
  }

  func testAContainerThatCannotBeWritten() throws {
    let disk = try disk("cloud", megabytes: 16)
    let made = try mount(container: disk.path + "/c")
    try Sys.put(made.path("f"), "x")
    try made.settle()
    try made.unmount()
    try disk.setReadOnly(true)
    let volume = try mount("ro", container: disk.path + "/c", name: "w")
    XCTAssertEqual(try Sys.text(volume.path("f")), "x")
    assertErrno(.EROFS) { try Sys.put(volume.path("g"), "y") }
    try volume.unmount()
    try disk.setReadOnly(false)
  }

  func testAReadOnlyMount() throws {
    let volume = try mount("ro") { try Sys.put($0.remote("f"), "x") }
    XCTAssertEqual(try Sys.text(volume.path("f")), "x")
    assertErrno(.EROFS) { try Sys.put(volume.path("f"), "y") }
    assertErrno(.EROFS) { try Sys.remove(volume.path("f")) }
    assertErrno(.EROFS) { try Sys.makeFolder(volume.path("d")) }
    assertErrno(.EROFS) { try Sys.setMode(volume.path("f"), 0o600) }
    XCTAssertEqual(try Sys.names(volume.container), ["f"], "not even a marker")
  }

  // MARK: Words it does not know

  func testUnknownWordsNameTheNearest() throws {
    let volume = try unmounted()
    let base = [
      "mount", volume.mountpoint, "--container", "dir:\(volume.container)", "--state", volume.state,
    ]
    assertRefused(volume.docsfs(base + ["-o", "cach_size=1G"]), usage, naming: "cache_size")
    assertRefused(volume.docsfs(base + ["-o", "materialise=open"]), usage, naming: "materialize")
    assertRefused(volume.docsfs(base + ["-o", "cache_size=lots"]), usage, naming: "cache_size")
    assertRefused(volume.docsfs(base + ["-o", "materialize=never"]), usage, naming: "range")
    assertRefused(volume.docsfs("mout", volume.mountpoint), usage, naming: "mount")
    XCTAssertEqual(volume.docsfs("mount").status, usage)
    XCTAssertEqual(volume.docsfs("mount", volume.mountpoint, "--contaner", "x").status, usage)
    XCTAssertEqual(volume.docsfs("evict").status, usage)
    XCTAssertEqual(volume.docsfs([]).status, usage)
    assertRefused(
      volume.docsfs("mount", volume.mountpoint, "--container", "gopher://x"), usage, naming: "gopher")
    XCTAssertFalse(volume.isMounted)
  }

  func testPathsThatAreInNoMount() throws {
    let volume = try unmounted()
    try Sys.put(volume.home + "/plain", "x")
    for command in ["evict", "materialize", "pin", "unpin", "status", "sync", "unmount"] {
      assertRefused(volume.docsfs(command, volume.home + "/plain"), noSuch, naming: "plain")
    }
    let mounted = try mount(name: "w")
    let outcome = mounted.docsfs("evict", mounted.path("missing"))
    XCTAssertNotEqual(outcome.status, 0)
    XCTAssertTrue(outcome.errors.contains("missing"), outcome.description)
  }

  func testHelpAndVersion() throws {
    let volume = try unmounted()
    let help = volume.docsfs("--help")
    XCTAssertEqual(help.status, 0)
    for word in ["mount", "unmount", "status", "materialize", "evict", "pin", "sync", "run", "doctor"] {
      XCTAssertTrue(help.text.contains(word), word)
    }
    XCTAssertEqual(volume.docsfs("mount", "--help").status, 0)
    let version = volume.docsfs("--version")
    XCTAssertEqual(version.status, 0)
    XCTAssertTrue(version.text.contains("docsfs"), version.text)
  }

  // MARK: What commands print

  func testStatusAsJSON() throws {
    let volume = try mount { try Sys.put($0.remote("f"), "12345") }
    try Sys.put(volume.path("g"), "x")
    for arguments in [
      ["status", "--json"], ["status", volume.mountpoint, "--json"], ["status", volume.path("f"), "--json"],
    ] {
      let outcome = volume.docsfs(arguments)
      XCTAssertNoThrow(
        try JSONSerialization.jsonObject(with: Data(outcome.output)), "\(arguments) \(outcome)")
    }
    let item = volume.docsfs("status", volume.path("f"), "--json").text
    XCTAssertTrue(item.contains("placeholder") && item.contains("5"), item)
    XCTAssertTrue(volume.docsfs("status", volume.path("f")).text.contains("placeholder"))
    XCTAssertTrue(volume.docsfs("status").text.contains(volume.mountpoint))
  }

  func testSyncTellsWhatIsNotUploaded() throws {
    let volume = try mount(query: "rate=1KiB")
    try Sys.put(volume.path("slow"), patterned(100_000, seed: 1))
    let outcome = volume.docsfs("sync", volume.mountpoint, "--timeout", "1")
    XCTAssertTrue([failed, inPart, tryAgain].contains(outcome.status), outcome.description)
    XCTAssertTrue((outcome.text + outcome.errors).contains("slow"), outcome.description)
  }

  func testCommandsFindTheMountFromAPathInside() throws {
    let volume = try mount()
    try volume.must("mkdir $M/d; echo x >$M/d/f")
    try volume.settle()
    let binary = MountedVolume.binary
    try volume.must(
      "cd $M/d && '\(binary)' evict f && '\(binary)' pin ./f && '\(binary)' unpin ../d/f && '\(binary)' sync ."
    )
    try volume.must(
      "ln -s '\(volume.path("d"))' '\(volume.home)/link' && '\(binary)' status '\(volume.home)/link/f'")
  }

  func testRun() throws {
    let folder = try outside("with")
    try Sys.put(folder + "/f", "given")
    let volume = try unmounted()
    let script =
      "cat \"$DOCSFS_MOUNT/f\" && getfattr -n user.docsfs.state --only-values \"$1/f\"; echo x >\"$1/new\"; exit 7"
    let outcome = volume.docsfs("run", "--with", folder, "--", "sh", "-c", script, "sh", "{mount}")
    XCTAssertEqual(outcome.status, 7, outcome.description)
    XCTAssertTrue(outcome.text.hasPrefix("given"), outcome.description)
    XCTAssertEqual(try Sys.names(folder), ["f"], "the folder it was filled from is left alone")
    XCTAssertEqual(volume.docsfs("run", "--", "true").status, 0)
    let piped = volume.docsfs("run", "--", "sh", "-c", "yes | head -n 1")
    XCTAssertEqual(piped.errors, "", "signals are as they should be")
  }

  func testTheDefaultContainer() throws {
    let volume = try unmounted()
    let outcome = volume.docsfs("mount", volume.mountpoint)
    XCTAssertEqual(outcome.status, 0, outcome.description)
    try Sys.put(volume.path("f"), "hello")
    try volume.settle()
    try volume.unmountByHand()
    XCTAssertEqual(try Sys.text(volume.home + "/home/data/docsfs/containers/default/f"), "hello")
    try assertGone(volume)
  }

  func testDoctorOfAHealthyState() throws {
    let volume = try mount()
    try volume.must("mkdir $M/d; echo 1 >$M/d/1; echo 2 >$M/2")
    try volume.settle()
    try volume.unmount()
    let outcome = volume.doctor()
    XCTAssertEqual(outcome.status, 0, outcome.description)
  }

  func testDoctorRepairsALostContentFile() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), patterned(100_000, seed: 1))
    try volume.settle()
    try volume.unmount()
    try volume.must(
      "find '\(volume.state)' -type f -size +90k ! -name '*catalog*' ! -name '*.sqlite*' ! -name '*.db*' -delete"
    )
    XCTAssertNotEqual(volume.doctor().status, 0)
    XCTAssertTrue(volume.doctor("--repair").succeeded)
    XCTAssertTrue(volume.doctor().succeeded)
    try volume.mount()
    assertBytes(try Sys.contents(volume.path("f")), patterned(100_000, seed: 1), "fetched again")
  }

  // MARK: Users

  func testAnOrdinaryUserMounts() throws {
    try skipUnlessRoot()
    let user: uid_t = 65_534  // fusermount3 wants one that has a name
    let device = try Sys.info("/dev/fuse").permissions
    try Sys.setMode("/dev/fuse", 0o666)
    defer { try? Sys.setMode("/dev/fuse", device) }
    let volume = try unmounted()
    let binary = volume.home + "/docsfs"
    try volume.must(
      "cp '\(MountedVolume.binary)' '\(binary)' && chmod 755 '\(binary)' && chown -R \(user) '\(volume.home)'"
    )
    try XCTSkipUnless(
      volume.shell("'\(binary)' --version", as: user).succeeded,
      "the product's libraries are not for everybody")
    let arguments = volume.mountArguments.map { "'\($0)'" }.joined(separator: " ")
    try volume.must("'\(binary)' \(arguments) && echo mine >$M/f && stat -c %u $M/f && cat $M/f", as: user)
    assertErrno(.EACCES, "not even root looks in without allow_other") { _ = try Sys.info(volume.path("f")) }
    try volume.must("'\(binary)' unmount $M", as: user)
    try assertGone(volume)
    XCTAssertEqual(try Sys.info(volume.state).permissions, 0o700)
  }

  // MARK: Helpers

  private func assertGone(_ volume: MountedVolume, file: StaticString = #filePath, line: UInt = #line) throws {
    let gone = eventually { !volume.isMounted && Processes.mentioning(volume.home).isEmpty }
    XCTAssertTrue(gone, "\(Processes.mentioning(volume.home))", file: file, line: line)
  }

  /// One line that names what it is about, and nothing on standard output.
  private func assertRefused(
    _ outcome: Outcome, _ status: Int32?, naming word: String, file: StaticString = #filePath,
    line: UInt = #line
  ) {
    if let status { XCTAssertEqual(outcome.status, status, outcome.description, file: file, line: line) }
    XCTAssertNotEqual(outcome.status, 0, file: file, line: line)
    XCTAssertEqual(
      outcome.errors.split(separator: "\n").count, 1, outcome.description, file: file, line: line)
    XCTAssertTrue(outcome.errors.contains(word), outcome.description, file: file, line: line)
    XCTAssertEqual(outcome.text, "", file: file, line: line)
  }

  private func catalog(of volume: MountedVolume) throws -> String {
    let files = try volume.must("find '\(volume.state)' -type f").lines
    return try XCTUnwrap(
      files.first { file in
        (try? OpenFile(file, O_RDONLY).text(13, at: 0)) == "SQLite format"
      })
  }
}

extension MountedVolume {
  /// For a daemon that `mount()` has not started.
  func unmountByHand() throws { try run("unmount", mountpoint) }
}
