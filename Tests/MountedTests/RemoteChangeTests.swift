import CLinux
import StorageErrors
import TestSupport
import XCTest

/// Other programs work in the container's folder: other devices, as docsfs sees it.
final class RemoteChangeTests: MountedTestCase {
  func testAdditionsAppear() throws {
    let volume = try mount("poll=1s") { try Sys.makeFolder($0.remote("d")) }
    XCTAssertEqual(try volume.names("d"), [])
    XCTAssertFalse(Sys.exists(volume.path("d/new")), "now the kernel knows that there is none")
    try volume.must(
      "echo hello >$C/d/new; mkdir -p $C/d/tree/deep; echo leaf >$C/d/tree/deep/leaf; ln -s new $C/d/link")
    try assertEventually("listed") { try volume.names("d") == ["link", "new", "tree"] }
    XCTAssertEqual(try Sys.text(volume.path("d/new")), "hello\n")
    assertEventually("the leaf") { (try? Sys.text(volume.path("d/tree/deep/leaf"))) == "leaf\n" }
    XCTAssertEqual(try Sys.readlink(volume.path("d/link")), "new")
  }

  func testAFolderThatWasNeverListedIsCurrent() throws {
    let volume = try mount("poll=1s") { try Sys.makeFolders($0.remote("a/b")) }
    try Sys.put(volume.remote("a/b/f"), "x")
    XCTAssertEqual(try Sys.text(volume.path("a/b/f")), "x")
  }

  func testDeletionsArrive() throws {
    let volume = try mount("poll=1s")
    try volume.must("mkdir -p $M/d/e; for i in 1 2 3; do echo $i >$M/d/$i; echo $i >$M/d/e/$i; done")
    try volume.settle()
    try volume.must("rm $C/d/2; rm -r $C/d/e")
    try assertEventually("gone") { try volume.names("d") == ["1", "3"] }
    assertErrno(.ENOENT) { _ = try Sys.info(volume.path("d/2")) }
    assertErrno(.ENOENT) { _ = try Sys.info(volume.path("d/e/1")) }
  }

  func testAnOpenFileThatIsDeletedRemotelyStaysReadable() throws {
    let volume = try mount("poll=1s")
    try Sys.put(volume.path("f"), "mine to the end")
    try volume.settle()
    let file = try OpenFile(volume.path("f"), O_RDONLY)
    try Sys.remove(volume.remote("f"))
    try assertEventually("gone") { try volume.names() == [] }
    XCTAssertEqual(try file.text(100, at: 0), "mine to the end")
  }

  func testARemoteRenameKeepsTheItem() throws {
    let volume = try mount("poll=1s")
    try volume.must("mkdir $M/d $M/to; echo body >$M/d/f; setfattr -n user.tag -v blue $M/d/f")
    try volume.settle()
    let inode = try Sys.info(volume.path("d/f")).st_ino
    try volume.must("mv $C/d/f $C/to/g")
    try assertEventually("moved") { try volume.names("to") == ["g"] && volume.names("d") == [] }
    XCTAssertEqual(try Sys.info(volume.path("to/g")).st_ino, inode, "the same item")
    XCTAssertEqual(try volume.state("to/g"), "materialized", "nothing was dropped")
    XCTAssertEqual(try Sys.text(volume.path("to/g")), "body\n")
    XCTAssertEqual(try volume.statusNumber("fetchedBytes"), 0)
    try volume.must("mv $C/to $C/elsewhere")
    try assertEventually("the folder moved") { try volume.names() == ["d", "elsewhere"] }
    XCTAssertEqual(try Sys.info(volume.path("elsewhere/g")).st_ino, inode)
  }

  func testRemoteModesAndTimesArrive() throws {
    let volume = try mount("poll=1s")
    try Sys.put(volume.path("f"), "x")
    try volume.settle()
    try volume.must("chmod 711 $C/f; touch -d '2010-01-02 03:04:05.678901234 UTC' $C/f")
    try assertEventually("both") {
      let info = try Sys.info(volume.path("f"))
      return info.permissions == 0o711 && info.st_mtim.nanoseconds == 1_262_401_445_678_901_234
    }
    XCTAssertEqual(try Sys.text(volume.path("f")), "x")
  }

  func testASymlinkThatLeadsElsewhereRemotely() throws {
    let volume = try mount("poll=1s") { try Sys.symlink("one", at: $0.remote("l")) }
    XCTAssertEqual(try Sys.readlink(volume.path("l")), "one")
    for target in ["two", "a longer one", "3"] {
      try volume.must("ln -sfn '\(target)' $C/l")
      assertEventually(target) { (try? Sys.readlink(volume.path("l"))) == target }
      XCTAssertEqual(try Sys.size(volume.path("l")), Int64(target.utf8.count))
    }
  }

  func testAFileBecomesAFolder() throws {
    let volume = try mount("poll=1s") { try Sys.put($0.remote("x"), "file") }
    XCTAssertEqual(try Sys.text(volume.path("x")), "file")
    try volume.must("rm $C/x; mkdir $C/x; echo inside >$C/x/f")
    assertEventually("a folder") { (try? Sys.text(volume.path("x/f"))) == "inside\n" }
    try volume.must("rm -r $C/x; ln -s nowhere $C/x")
    assertEventually("a link") { (try? Sys.readlink(volume.path("x"))) == "nowhere" }
  }

  func testWhatIsNoFileIsNotShownAndNeverOpened() throws {
    let volume = try mount("poll=1s") { volume in
      try volume.must("mkfifo $C/pipe; echo x >$C/f; ln -s /etc/hostname $C/out; ln -s .. $C/up")
    }
    XCTAssertEqual(try volume.names(), ["f", "out", "up"])
    try volume.must("mkfifo $C/pipe2; echo y >$C/g")
    try assertEventually("the new one") { try volume.names() == ["f", "g", "out", "up"] }
    try Sys.put(volume.path("pipe"), "a file where the container has a pipe")
    _ = volume.docsfs("sync", volume.mountpoint, "--timeout", "5")
    XCTAssertEqual(try Sys.text(volume.path("pipe")), "a file where the container has a pipe")
    XCTAssertTrue(volume.shell("test -p $C/pipe").succeeded, "the pipe is left alone")
  }

  // MARK: Conflicts

  func testTwoEditsOfOneFileKeepBoth() throws {
    let volume = try mount("poll=1s")
    try Sys.put(volume.path("report.txt"), "base")
    try volume.settle()
    try Sys.put(volume.path("report.txt"), "edited here")
    try volume.unmount()
    try Sys.put(volume.remote("report.txt"), "edited there")
    try volume.mount()
    try volume.settle()
    try assertEventually("both") { try volume.remoteNames().count == 2 }
    XCTAssertEqual(try Sys.text(volume.remote("report.txt")), "edited there")
    let copy = try XCTUnwrap(try volume.remoteNames().first { $0.hasPrefix("report (conflict ") })
    XCTAssertNotNil(copy.wholeMatch(of: /report \(conflict .+ \d{4}-\d\d-\d\d \d\d\.\d\d\.\d\d\)\.txt/), copy)
    XCTAssertEqual(try Sys.text(volume.remote(copy)), "edited here")
    XCTAssertEqual(try Sys.text(volume.path(copy)), "edited here")
    XCTAssertEqual(try Sys.text(volume.path("report.txt")), "edited there")
  }

  func testTwoNewFilesOfOneNameKeepBoth() throws {
    let volume = try mount("poll=1s")
    try Sys.put(volume.path("new"), "made here")
    try volume.whileDaemonStops {
      if !Sys.exists(volume.remote("new")) { try Sys.put(volume.remote("new"), "made there") }
    }
    try volume.settle()
    let texts = try volume.remoteNames().map { try Sys.text(volume.remote($0)) }.sorted()
    XCTAssertEqual(texts, ["made here", "made there"])
  }

  func testTheSameEditOnBothSidesIsNoConflict() throws {
    let volume = try mount("poll=1s")
    try Sys.put(volume.path("f"), "base")
    try volume.settle()
    try Sys.put(volume.path("f"), "the same")
    try volume.whileDaemonStops {
      try Sys.put(volume.remote("f"), "the same")
    }
    try volume.settle()
    XCTAssertEqual(try volume.remoteNames(), ["f"])
  }

  func testAnEditHereAndADeleteThereKeepsTheEdit() throws {
    let volume = try mount("poll=1s")
    try Sys.put(volume.path("f"), "base")
    try volume.settle()
    try Sys.put(volume.path("f"), "edited here")
    volume.whileDaemonStops {
      try? Sys.remove(volume.remote("f"))
    }
    try volume.settle()
    XCTAssertEqual(try Sys.text(volume.path("f")), "edited here")
    XCTAssertEqual(try Sys.text(volume.remote("f")), "edited here")
  }

  func testADeleteHereAndAnEditThereKeepsTheRemote() throws {
    let volume = try mount("poll=1s")
    try Sys.put(volume.path("f"), "base")
    try volume.settle()
    try Sys.remove(volume.path("f"))
    try volume.unmount()
    try Sys.put(volume.remote("f"), "edited there")
    try volume.mount()
    try volume.settle()
    XCTAssertEqual(try Sys.text(volume.remote("f")), "edited there")
    assertEventually("it is back") { (try? Sys.text(volume.path("f"))) == "edited there" }
  }

  func testARenameOverANewerRemoteKeepsBoth() throws {
    let volume = try mount("poll=1s")
    try volume.must("echo base >$M/target; echo mine >$M/source")
    try volume.settle()
    try volume.must("mv $M/source $M/target")
    try volume.whileDaemonStops {
      try Sys.put(volume.remote("target"), "edited there")
    }
    try volume.settle()
    let texts = try volume.remoteNames().map { try Sys.text(volume.remote($0)) }
    XCTAssertTrue(texts.contains("edited there"), "\(texts)")
    XCTAssertTrue(texts.contains("mine\n"), "\(texts)")
  }

  func testAMoveWithAnEditHereAndAnEditThereKeepsBoth() throws {
    let volume = try mount("poll=1s")
    try volume.must("echo base >$M/f")
    try volume.settle()
    try volume.must("mv $M/f $M/g; echo here >>$M/g; echo there >>$C/f")
    try volume.settle()
    assertEventually("the same tree") { volume.shell("diff -r $M $C --exclude='.docsfs*'").succeeded }
    let texts = try volume.remoteNames().map { try Sys.text(volume.remote($0)) }
    XCTAssertEqual(Set(texts), ["base\nhere\n", "base\nthere\n"])
    XCTAssertEqual(try Sys.text(volume.path("g")), "base\nthere\n")
  }

  func testARemoteChildBringsADeletedFolderBack() throws {
    let volume = try mount("poll=1s")
    try volume.must("mkdir $M/d; echo x >$M/d/old")
    try volume.settle()
    try volume.must("rm -r $M/d")
    try volume.whileDaemonStops {
      try Sys.makeFolders(volume.remote("d"))
      try Sys.put(volume.remote("d/child"), "from there")
    }
    try volume.settle()
    assertEventually("the child") { (try? Sys.text(volume.path("d/child"))) == "from there" }
    XCTAssertEqual(try Sys.text(volume.remote("d/child")), "from there")
  }

  func testARemoteChildFollowsARenamedFolder() throws {
    let volume = try mount("poll=1s")
    try volume.must("mkdir $M/d; echo x >$M/d/old")
    try volume.settle()
    try volume.must("mv $M/d $M/e")
    try volume.whileDaemonStops {
      let folder = Sys.exists(volume.remote("d")) ? "d" : "e"
      try Sys.put(volume.remote(folder + "/child"), "from there")
    }
    try volume.settle()
    assertEventually("the child") { (try? Sys.text(volume.path("e/child"))) == "from there" }
    XCTAssertEqual(try volume.remoteNames("e"), ["child", "old"])
  }

  func testManyEditsFromBothSidesConverge() throws {
    let volume = try mount("poll=1s")
    try volume.must("mkdir $M/d; for i in $(seq 40); do echo base$i >$M/d/$i; done")
    try volume.settle()
    try volume.must(
      """
      (for i in $(seq 1 2 40); do echo there$i >$C/d/$i; done) &
      for i in $(seq 2 2 40); do echo here$i >$M/d/$i; done; wait
      """)
    try volume.settle()
    assertEventually("the same tree") { volume.shell("diff -r $M/d $C/d").succeeded }
    XCTAssertEqual(try volume.names("d").count, 40)
    XCTAssertEqual(try Sys.text(volume.path("d/1")), "there1\n")
    XCTAssertEqual(try Sys.text(volume.remote("d/2")), "here2\n")
  }

  // MARK: Mass deletes

  func testAMassDeleteIsHeldUntilItIsAccepted() throws {
    let volume = try mount("poll=1s")
    try volume.must("mkdir $M/d; for i in $(seq 150); do echo $i >$M/d/$i; done")
    try volume.settle()
    try volume.must("rm -r $C/d")
    try assertEventually("held") { try volume.statusNumber("heldDeletes") >= 150 }
    XCTAssertEqual(try volume.names("d").count, 150)
    XCTAssertEqual(try Sys.text(volume.path("d/77")), "77\n")
    try volume.remount()
    XCTAssertEqual(try volume.names("d").count, 150)
    try assertEventually("held again") { try volume.statusNumber("heldDeletes") >= 150 }
    XCTAssertTrue(volume.docsfs("status", volume.mountpoint).text.contains("held"))
    try volume.run("doctor", volume.mountpoint, "--accept-deletes")
    try assertEventually("carried out") { try volume.names() == [] }
  }

  func testAFewDeletesAreNotHeld() throws {
    let volume = try mount("poll=1s")
    try volume.must("mkdir $M/d; for i in $(seq 60); do echo $i >$M/d/$i; done")
    try volume.settle()
    try volume.must("rm $C/d/*")
    try assertEventually("gone") { try volume.names("d") == [] }
  }
}
