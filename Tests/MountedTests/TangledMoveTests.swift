import StorageErrors
import TestSupport
import XCTest

/// Moves that wait for each other, here or against those of somebody else: each ends in one tree, and all of it.
final class TangledMoveTests: MountedTestCase {
  private func settles(_ before: String, _ moves: String) throws {
    let volume = try mount("poll=1s")
    try volume.must("cd $M; \(before)")
    try volume.settle()
    try volume.must("cd $M; \(moves)")
    try volume.settle()
    try volume.must("diff -r --no-dereference $M $C --exclude='.docsfs*'")
    XCTAssertEqual(try volume.remoteNames(), try volume.names(), "nothing is left aside")
  }

  func testAFolderMovesIntoOneThatTookItsName() throws {
    try settles("mkdir a; echo 1 >a/f", "mv a t; mkdir a; mv t a/b")
  }

  func testAFileMovesIntoAFolderThatTookItsName() throws {
    try settles("echo 1 >f", "mv f t; mkdir f; mv t f/f")
  }

  func testAFileTakesTheNameOfTheFolderItWasIn() throws {
    try settles("mkdir d; echo 1 >d/f", "mv d/f t; rmdir d; mv t d")
  }

  func testAFolderMovesIntoItsOwnSubfolder() throws {
    try settles("mkdir -p p/c; echo 1 >p/f; echo 2 >p/c/g", "mv p/c c; mv p c/p")
  }

  func testAFolderAndItsSubfolderSwapTheirNames() throws {
    try settles("mkdir -p p/c; echo 1 >p/f; echo 2 >p/c/g", "mv p/c t; mv p t/c; mv t p")
  }

  /// Each was moved into the other: neither may vanish from the tree.
  func testTwoFoldersMoveIntoEachOther() throws {
    let volume = try mount("poll=1s")
    try volume.must("mkdir $M/a $M/b; echo 1 >$M/a/f; echo 2 >$M/b/g")
    try volume.settle()
    try volume.must("mv $M/b $M/a/b; mv $C/a $C/b/a")
    try volume.settle()
    assertEventually("the same tree") { volume.shell("diff -r $M $C --exclude='.docsfs*'").succeeded }
    try volume.must("test $(find $M -name f -o -name g | wc -l) = 2")
  }

  /// Nobody has their bytes any more: they go, as all that was in the folder.
  func testPlaceholdersThatLeftAFolderBeforeItWasRemovedRemotely() throws {
    let volume = try mount("poll=1s")
    try volume.must("mkdir $M/d; for i in 1 2 3; do echo $i >$M/d/f$i; done")
    try volume.settle()
    try volume.run("evict", "-r", volume.path("d"))
    try volume.must("mkdir $M/new; mv $M/d/f1 $M/moved; mv $M/d/f2 $M/new; mv $C/d \(outside("gone"))")
    assertEventually("gone here too") { (try? volume.names()) == ["new"] }
    try volume.settle()
    XCTAssertEqual(try volume.names("new"), [])
  }

  /// What was moved into a folder that is removed remotely is not part of what was removed.
  func testAPlaceholderMovedIntoAFolderThatIsRemovedRemotely() throws {
    let volume = try mount("poll=1s")
    try volume.must("mkdir $M/d; echo old >$M/d/old; echo 1 >$M/f")
    try volume.settle()
    try volume.run("evict", volume.path("f"))
    try volume.must("mv $M/f $M/d/f; mv $C/d \(outside("gone"))")
    try volume.settle()
    assertEventually("the same tree") { volume.shell("diff -r $M $C --exclude='.docsfs*'").succeeded }
    XCTAssertEqual(try Sys.text(volume.remote("d/f")), "1\n")
    XCTAssertEqual(try volume.names("d"), ["f"])
  }

  // MARK: All at once

  func testTwoWritersAtOnceEndInOneTreeAndLoseNothing() throws {
    try skipUnlessInstalled("python3")
    let program = Self.program("tangle.py")
    for round in 0..<Effort.rounds(1) {
      let volume = try mount("poll=1s", name: "v\(round)")
      let seed = Int.random(in: 0..<1_000_000)
      try volume.must("python3 '\(program)' work 6 \(seed) $M $C >\(volume.home)/texts")
      try assertEventually(within: 90, "the same tree; seed \(seed)") {
        try volume.settle()
        return volume.shell("diff -r --no-dereference $M $C --exclude='.docsfs*'").succeeded
      }
      let missing = try volume.must("python3 '\(program)' missing $C <\(volume.home)/texts")
      XCTAssertEqual(missing.text, "", "seed \(seed)")
      try volume.unmount()
      let doctor = volume.doctor()
      XCTAssertTrue(doctor.succeeded, "seed \(seed): \(doctor)")
    }
  }
}
