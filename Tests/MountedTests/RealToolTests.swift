import CLinux
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// A day's work with ordinary programs. `DOCSFS_FULL=1` takes whole trees instead of a part.
final class RealToolTests: MountedTestCase {
  override var patience: Double { Effort.full ? 3_600 : 300 }

  func testADocumentTreeGoesInIsEvictedAndComesBack() throws {
    let volume = try mount()
    let original = try documents()
    try volume.must("cp -a '\(original)' $M/doc", within: 1_200)
    try volume.settle(within: 1_200)
    try volume.must("diff -r --no-dereference '\(original)' $C/doc", within: 600)
    try volume.run("evict", "-r", volume.path("doc"), within: 600)
    let size = try volume.must("du -s --block-size=1 $M/doc | cut -f1; find $M/doc -type f | wc -l").lines
    let files = Int(size[1]) ?? 0
    let folders = Int(try volume.must("find $M/doc -type d | wc -l").text) ?? 0
    XCTAssertLessThanOrEqual(Int(size[0]) ?? .max, files * 512 + folders * 4096 + 65_536, "almost nothing")
    let bytes = try volume.must("find '\(original)' -type f -printf '%s\\n' | awk '{s += $1} END {print s}'")
      .text
    let before = try volume.statusNumber("fetchedBytes")
    try volume.must("diff -r --no-dereference '\(original)' $M/doc", within: 1_200)
    XCTAssertEqual(try volume.statusNumber("fetchedBytes") - before, Int(bytes), "every byte once")
    try volume.remount()
    try volume.must("diff -r --no-dereference '\(original)' $M/doc", within: 600)
    try assertSameMetadata(original, volume.path("doc"))
    XCTAssertEqual(try volume.statusNumber("dirtyItems"), 0)
  }

  func testRsync() throws {
    try skipUnlessInstalled("rsync", "setfattr")
    let volume = try mount()
    let original = try documents()
    try volume.must(
      "cp -a '\(original)' '\(volume.home)/x'; f=$(find '\(volume.home)/x' -type f -print -quit); setfattr -n user.k -v v \"$f\""
    )
    let source = volume.home + "/x/"
    try volume.must("rsync -aX '\(source)' $M/r", within: 600)
    XCTAssertEqual(try volume.must("rsync -aXi '\(source)' $M/r").text, "", "nothing to do the second time")
    try volume.must("diff -r --no-dereference '\(source)' $M/r")
    try assertSameMetadata(source, volume.path("r"))
    try volume.settle(within: 600)
    try volume.run("evict", "-r", volume.path("r"))
    // Not with -X: Debian's rsync opens what it has to compare the xattrs of, and an open materializes.
    XCTAssertEqual(try volume.must("rsync -ai '\(source)' $M/r").text, "", "nor when all is evicted")
    XCTAssertEqual(try volume.statusNumber("fetchedBytes"), 0)
    try volume.must(
      "rsync -aX --checksum --delete $M/r/ '\(volume.home)/back' && diff -r --no-dereference '\(source)' '\(volume.home)/back'"
    )
  }

  func testTarInAndOut() throws {
    let volume = try mount()
    let original = try documents()
    let archive = volume.home + "/t.tar"
    try volume.must(
      "tar -C '\(original)' --format=posix -cf '\(archive)' . && mkdir $M/t && tar -C $M/t -xpf '\(archive)'",
      within: 600)
    try assertSameMetadata(original, volume.path("t"))
    try volume.settle(within: 600)
    try volume.run("evict", "-r", volume.path("t"))
    try volume.must(
      "tar -C $M/t -czf $M/out.tgz . && mkdir '\(volume.home)/o' && tar -C '\(volume.home)/o' -xzf $M/out.tgz",
      within: 600)
    try volume.must("diff -r --no-dereference '\(original)' '\(volume.home)/o'")
  }

  func testGit() throws {
    try skipUnlessInstalled("git")
    let volume = try mount()
    let git = "git -c user.name=t -c user.email=t@example.org -c init.defaultBranch=main"
    try volume.must(
      """
      mkdir $M/repo && cd $M/repo && \(git) init -q .
      for i in $(seq 30); do seq $i 200 >file$i; \(git) add .; \(git) commit -qm "commit $i"; done
      \(git) fsck --strict && \(git) gc -q --aggressive && \(git) fsck && test -z "$(\(git) status --porcelain)"
      \(git) checkout -q -b side HEAD~5 && echo side >>file1 && \(git) commit -qam side && \(git) checkout -q main
      \(git) merge -q -m merge side && \(git) clone -q $M/repo $M/clone && \(git) clone -q $M/repo '\(volume.home)/out'
      cd $M/clone && \(git) fsck && \(git) log --oneline | wc -l
      """, within: 300)
    try volume.settle(within: 300)
    try volume.run("evict", "-r", volume.path("clone"))
    try volume.must(
      "cd $M/clone && \(git) fsck && test -z \"$(\(git) status --porcelain)\" && cd / && rm -rf $M/clone")
    try volume.must("\(git) -C $C/repo fsck && diff -r $M/repo $C/repo", within: 60)
  }

  func testSQLiteUnderLoad() throws {
    try skipUnlessInstalled("python3")
    let volume = try mount()
    let program = MountedTestCase.program("database.py")
    for journal in ["wal", "delete"] {
      let path = volume.path("\(journal).db")
      try volume.must("python3 '\(program)' '\(path)' \(journal) 4 60", within: 240)
      try volume.must("python3 '\(program)' '\(path)' check 240")
    }
    try volume.settle()
    try volume.must("cmp $M/delete.db $C/delete.db; python3 '\(program)' $C/delete.db check 240")
    try volume.run("evict", volume.path("delete.db"))
    try volume.must("python3 '\(program)' $M/delete.db check 240")
  }

  func testSedInPlace() throws {
    let volume = try mount()
    try volume.must("for i in $(seq 50); do echo \"old $i\" >$M/$i.txt; done")
    try volume.settle()
    try volume.run("evict", "-r", volume.mountpoint)
    try volume.must("sed -i s/old/new/ $M/*.txt && test $(grep -l new $M/*.txt | wc -l) = 50")
    try volume.settle()
    XCTAssertEqual(try volume.remoteNames().count, 50, "no temporary files")
    XCTAssertEqual(try Sys.text(volume.remote("7.txt")), "new 7\n")
  }

  func testVim() throws {
    try skipUnlessInstalled("vim")
    let volume = try mount()
    try Sys.put(volume.path("doc"), "one\n")
    try Sys.setMode(volume.path("doc"), 0o640)
    try volume.settle()
    for mode in ["yes", "no", "auto"] {
      try volume.must(
        "vim -Nu NONE -es -c 'set backupcopy=\(mode) backup backupskip=' -c '%s/$/ \(mode)/' -c wq $M/doc || exit 1",
        within: 60)
      try volume.settle()
    }
    XCTAssertEqual(try Sys.text(volume.remote("doc")), "one yes no auto\n")
    XCTAssertEqual(try volume.remoteNames(), ["doc", "doc~"])
    XCTAssertEqual(try Sys.info(volume.path("doc")).permissions, 0o640)
  }

  func testLibreOfficeConvertsInPlace() throws {
    try skipUnlessInstalled("soffice")
    let volume = try mount()
    try Sys.put(volume.path("letter.txt"), "Dear reader\n")
    try volume.putPlaceholder("letter.txt", Array("Dear reader\n".utf8))
    try volume.must("cd $M && soffice --headless --convert-to odt letter.txt", within: 200)
    try volume.settle()
    XCTAssertEqual(try volume.remoteNames(), ["letter.odt", "letter.txt"])
    try volume.must("cmp $M/letter.odt $C/letter.odt && unzip -tq $M/letter.odt")
  }

  func testMovingTreesInOutAndAcross() throws {
    let volume = try mount()
    let other = try mount(name: "w")
    let original = try documents()
    try volume.must("cp -a '\(original)' '\(volume.home)/x'")
    try volume.must(
      "mv '\(volume.home)/x' $M/in && test ! -e '\(volume.home)/x' && diff -r --no-dereference '\(original)' $M/in",
      within: 600)
    try volume.must(
      "mkdir $M/sub && mv $M/in $M/sub/moved && diff -r --no-dereference '\(original)' $M/sub/moved")
    try volume.settle(within: 600)
    try volume.run("evict", "-r", volume.mountpoint)
    try volume.must("mv $M/sub/moved '\(other.mountpoint)/across' && test -z \"$(ls $M/sub)\"", within: 600)
    try volume.must("diff -r --no-dereference '\(original)' '\(other.mountpoint)/across'")
    try other.settle(within: 600)
    try volume.must(
      "mv '\(other.mountpoint)/across' '\(volume.home)/out' && diff -r --no-dereference '\(original)' '\(volume.home)/out'",
      within: 600)
    try volume.settle()
    try other.settle()
    XCTAssertEqual(try volume.remoteNames("sub"), [])
    XCTAssertEqual(try other.remoteNames(), [])
    try assertSameMetadata(original, volume.home + "/out")
  }

  func testZipAndFindAndGrep() throws {
    let volume = try mount()
    try volume.must("mkdir $M/d; for i in $(seq 100); do echo \"needle $i\" >$M/d/$i; done")
    try volume.settle()
    try volume.run("evict", "-r", volume.path("d"))
    XCTAssertEqual(try volume.must("grep -rl 'needle 5' $M/d | wc -l").text, "11")
    XCTAssertEqual(
      try volume.must("find $M/d -newermt 2000-01-01 -size -10c -type f -delete; find $M/d -type f | wc -l")
        .text, "91")
  }

  /// Documents that every Debian has, by the thousand.
  private func documents() throws -> String {
    if Effort.full { return "/usr/share/doc" }
    let folder = try outside("documents")
    try Shell.must(
      """
      cd /usr/share/doc && find . -mindepth 1 | LC_ALL=C sort | awk 'NR <= 2000' >'\(folder).list'
      tar --no-recursion -cf - -T '\(folder).list' | tar -C '\(folder)' -xpf -
      """)
    return folder
  }

  /// Types, modes, owners, sizes, times and link targets of a whole tree.
  private func assertSameMetadata(
    _ a: String, _ b: String, file: StaticString = #filePath, line: UInt = #line
  ) throws {
    let list = { (folder: String) in
      let listing =
        "find . -mindepth 1 -printf '%P %y %m %U %G %T@ %l\\n' -type f -printf '%s\\n' | LC_ALL=C sort"
      return try Shell.must("cd '\(folder)' && \(listing)").text
    }
    let (first, second) = (try list(a), try list(b))
    if first == second { return }
    let difference = Set(first.split(separator: "\n")).symmetricDifference(second.split(separator: "\n"))
    XCTFail("metadata differ: \(difference.sorted().prefix(6))", file: file, line: line)
  }
}
