import CLinux
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// `.docsfs/control` as programs write it, and what is no command.
final class ControlFileTests: MountedTestCase {
  /// The rules that are armed, without their counters.
  private func rules(_ volume: MountedVolume) throws -> [String] {
    try volume.controlText().split(separator: "\n").filter { $0.hasPrefix("add") }
      .map { $0.components(separatedBy: "  #")[0] }
  }

  func testTheFolderIsFoundByNameAndInNoListing() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "bytes")
    XCTAssertEqual(try volume.names(), ["f"])
    XCTAssertEqual(try volume.must("find $M -name '*control*'; du -a $M | grep '[.]docsfs' || true").text, "")
    XCTAssertEqual(
      try volume.names(".docsfs").sorted(), ["control", "error", "log", "status.json"], "in itself it has its files")
    let copy = try outside("copy")
    try volume.must("cp -a $M/. \(copy)/")
    XCTAssertEqual(try Sys.names(copy), ["f"])
    XCTAssertFalse(try Sys.names(volume.container).contains(".docsfs"))
    for script in [
      "rm -rf $M/.docsfs", "mv $M/.docsfs $M/x", "mkdir $M/.docsfs/d", "touch $M/.docsfs/f", "ln -s a $M/.docsfs/l",
    ] {
      XCTAssertFalse(volume.shell(script).succeeded, script)
    }
    XCTAssertEqual(try volume.names(".docsfs").count, 4)
  }

  /// The line of the issue, by every program that people write it with.
  func testADiskThatFillsUpByWhateverWritesTheRule() throws {
    let volume = try mount()
    let big = try outside("src") + "/big.pdf"
    try Sys.put(big, patterned(300_000, seed: 8))
    let rule = "add op=write path=*.pdf after=64K errno=ENOSPC times=1"
    let writers = [
      "echo '\(rule)' > $M/.docsfs/control",
      "dash -c \"echo '\(rule)' > $M/.docsfs/control\"",
      "/usr/bin/python3 -c \"open('$M/.docsfs/control','w').write('\(rule)\\n')\"",
      "/usr/bin/python3 -c \"open('$M/.docsfs/control','w').write('\(rule)')\"",
      "echo '\(rule)' | tee $M/.docsfs/control >/dev/null",
      "echo '\(rule)' > \(big).rule; cp \(big).rule $M/.docsfs/control",
      "cat \(big).rule >> $M/.docsfs/control",
      "dd if=\(big).rule of=$M/.docsfs/control bs=1 status=none",
    ]
    for writer in writers {
      try volume.must("\(writer); rm -f $M/big.pdf")
      let failed = volume.shell("cp \(big) $M/")
      XCTAssertEqual(failed.status, 1, writer)
      XCTAssertTrue(failed.errors.contains("No space left on device"), "\(writer): \(failed.errors)")
      XCTAssertEqual(try Sys.size(volume.path("big.pdf")), 65_536, writer)
      try volume.must("cp \(big) $M/ && cmp \(big) $M/big.pdf")
      try volume.control("clear")
    }
  }

  func testACommandTakesEffectInTheWriteThatCompletesIt() throws {
    let volume = try mount()
    let file = try OpenFile(volume.controlFile, O_WRONLY)
    let text =
      "add id=a op=open errno=EIO\n# a comment\n\n{\"add\":{\"id\":\"b\",\n \"hang\":true,\"op\":\"mkdir\"}}del a"
    for byte in text.utf8 { XCTAssertEqual(try file.write([byte], at: 0), 1) }
    XCTAssertEqual(try rules(volume), ["add id=a op=open errno=EIO", "add id=b op=mkdir hang"])
    try file.close()
    XCTAssertEqual(try rules(volume), ["add id=b op=mkdir hang"], "the tail is a command when the file is closed")
  }

  func testWhatIsReadCanBeWrittenBack() throws {
    let volume = try mount()
    try volume.control(
      "seed 42", "add id=a op=read,write path=\"a b*\" prob=1% errno=EIO times=3", "add op=open exe=cat delay=20ms~5ms",
      "cloud latency=10ms times=7", "disconnect profile=nfs-soft for=1h")
    let text = try volume.controlText()
    try volume.control("clear", "seed 0", "reconnect", "cloud online")
    try volume.control(text)
    func stable(_ text: String) -> [String] {
      text.split(separator: "\n").map { $0.components(separatedBy: "  #")[0].components(separatedBy: " for=")[0] }
    }
    XCTAssertEqual(stable(try volume.controlText()), stable(text))
  }

  /// Each is an errno of write(2) or close(2), a sentence in `error`, and changes nothing.
  func testWhatIsNoCommandChangesNothing() throws {
    let volume = try mount()
    try volume.control("add id=keep op=open path=never errno=EIO")
    let bad: [(String, Errno, String)] = [
      ("frobnicate x", .EINVAL, "unknown command frobnicate"),
      ("add opp=read errno=EIO", .EINVAL, "did you mean op"),
      ("add op=raed errno=EIO", .EINVAL, "did you mean read"),
      ("add op=read errno=EOI", .EINVAL, "did you mean EIO"),
      ("add op=read errno=ENOSYS", .EINVAL, "ENOSYS"),
      ("add op=read errno=600", .EINVAL, "600"),
      ("add op=read errno=0", .EINVAL, "0"),
      ("add op=read", .EINVAL, ""),
      ("add op=mkdir torn=5", .EINVAL, "torn"),
      ("add op=read range=9-3 errno=EIO", .EINVAL, "range"),
      ("add op=read times=0 errno=EIO", .EINVAL, "times"),
      ("add id=keep op=read errno=EIO", .EEXIST, "keep"),
      ("del nobody", .ENOENT, "nobody"),
      ("set nobody times=1", .ENOENT, "nobody"),
      ("wait idle", .EINVAL, "wait"),
      ("disconnect profile=unpluged", .EINVAL, "did you mean unplugged"),
      ("evict /no/such/file", .ENOENT, "no/such"),
      ("add op=read path=\"open errno=EIO", .EINVAL, "quote"),
      ("add op=read path=a\u{0}b errno=EIO", .EINVAL, ""),
      ("add id=x op=read errno=EIO\nadd id=y op=read errno=WRONG", .EINVAL, "2:"),
    ]
    for (text, errno, sentence) in bad {
      assertErrno(errno, text) { try volume.control(text) }
      let said = try volume.controlError()
      XCTAssertTrue(sentence.isEmpty || said.contains(sentence), "\(text): \(said)")
      XCTAssertEqual(said.split(separator: "\n").count, 1, "one line: \(said)")
      XCTAssertEqual(try rules(volume), ["add id=keep op=open path=never errno=EIO"], text)
    }
    let huge = try OpenFile(volume.controlFile, O_WRONLY)
    assertErrno(.EFBIG) { try huge.write([UInt8](repeating: UInt8(ascii: "a"), count: 10 << 20)) }
    let open = try OpenFile(volume.controlFile, O_WRONLY)
    try open.write(Array("{\"add\":{".utf8), at: 0)
    assertErrno(.EINVAL) { try open.close() }
    XCTAssertTrue(try volume.controlError().contains("never closed"))
    let bytes = try OpenFile(volume.controlFile, O_WRONLY)
    assertErrno(.EINVAL) { try bytes.write([0xff, 0xfe, 0x0a], at: 0) }
    XCTAssertEqual(try rules(volume), ["add id=keep op=open path=never errno=EIO"])
    try volume.control("mark all is well")
    XCTAssertEqual(try volume.controlError(), "")
  }

  func testOthersAreRefused() throws {
    try skipUnlessRoot()
    let volume = try mount("allow_other")
    try Sys.setMode(volume.home, 0o755)
    for script in ["cat $M/.docsfs/control", "echo clear > $M/.docsfs/control", "ls $M/.docsfs", "cat $M/.docsfs/log"] {
      XCTAssertFalse(volume.shell(script, as: 65_534).succeeded, script)
    }
  }

  func testWithoutFaultsTheRestOfTheCommandsIsThere() throws {
    let volume = try mount("faults=off")
    assertErrno(.EPERM) { try volume.control("add op=read errno=EIO") }
    XCTAssertTrue(try volume.controlError().contains("faults=off"))
    try Sys.put(volume.path("f"), "bytes")
    try volume.settle()
    try volume.control("evict f")
    XCTAssertEqual(try volume.state("f"), "placeholder")
    try volume.control("materialize f", "pin f")
    try assertEventually("materialized") { try volume.state("f") == "materialized" }
    XCTAssertTrue(try volume.isPinned("f"))
  }
}
