import CLinux
import StorageErrors
import TestSupport
import XCTest

/// The disk that holds the state is full, or fails.
final class StateDiskTests: MountedTestCase {
  func testAFullDiskFailsTheWriteAndLosesNothing() throws {
    let disk = try disk("small", megabytes: 48)
    let volume = try mount("min_free=0", query: "rate=64KiB", state: disk.path + "/s")
    let kept = patterned(1_000_000, seed: 1)
    try Sys.put(volume.path("kept"), kept)
    try disk.fill(leaving: 3 << 20)
    let file = try OpenFile(volume.path("big"), O_WRONLY | O_CREAT)
    let block = patterned(131_072, seed: 2)
    var written: Int64 = 0
    assertErrno(.ENOSPC, "at write(2), not later") {
      while written < 64 << 20 { written += Int64(try file.write(block, at: written)) }
    }
    XCTAssertGreaterThan(written, 0)
    try file.close()
    assertBytes(try Sys.contents(volume.path("kept")), kept, "reads go on")
    XCTAssertEqual(try Sys.size(volume.path("big")), written)
    let bytes = try Sys.contents(volume.path("big"))
    for start in stride(from: 0, to: Int(written) - block.count + 1, by: block.count) {
      XCTAssertEqual(Array(bytes[start..<(start + block.count)]), block, "acknowledged at \(start)")
    }
    XCTAssertTrue(volume.shell("ls -l $M && df $M && cat $M/kept >/dev/null").succeeded)
    try Sys.remove(volume.path("big"))
    try disk.empty()
    try Sys.put(volume.path("after"), kept)
    volume.query = ""
    try volume.remount()
    assertBytes(try Sys.contents(volume.path("kept")), kept)
    try volume.settle()
    assertBytes(try Sys.contents(volume.remote("kept")), kept)
    assertBytes(try Sys.contents(volume.remote("after")), kept)
  }

  func testAFullDiskKeepsNamesWhole() throws {
    let disk = try disk("small", megabytes: 32)
    let volume = try mount("min_free=0", state: disk.path + "/s")
    try volume.must("mkdir $M/d")
    try disk.fill()
    var made: [String] = []
    for index in 0..<2_000 {
      do {
        try Sys.put(volume.path("d/\(index)"), patterned(2_000, seed: 3))
        made.append("\(index)")
      } catch {
        XCTAssertEqual(error, .ENOSPC)
        break
      }
    }
    XCTAssertLessThan(made.count, 2_000)
    try disk.empty()
    volume.killDaemon()
    try volume.mount()
    for name in made {
      assertBytes(try Sys.contents(volume.path("d/" + name)), patterned(2_000, seed: 3), name)
    }
    try volume.settle()
    try volume.must("rm -r $M/d && echo again >$M/f")
    try volume.settle()
    XCTAssertEqual(try volume.remoteNames(), ["f"])
  }

  func testMaterializingOntoAFullDiskSaysSoAndRecovers() throws {
    let disk = try disk("small", megabytes: 32)
    let bytes = patterned(6 << 20, seed: 4)
    let volume = try mount("min_free=0", state: disk.path + "/s") { try Sys.put($0.remote("f"), bytes) }
    try Sys.put(volume.path("dirty"), "precious")
    try disk.fill()
    let outcome = volume.shell("cat $M/f >/dev/null")
    XCTAssertNotEqual(outcome.status, 0)
    XCTAssertEqual(try Sys.text(volume.path("dirty")), "precious")
    try disk.empty()
    assertEventually("whole after all") { (try? Sys.contents(volume.path("f"))) == bytes }
  }

  func testAFullDiskMakesRoomFromWhatIsEvictable() throws {
    let disk = try disk("small", megabytes: 48)
    let volume = try mount("min_free=8MiB", state: disk.path + "/s") { volume in
      for index in 0..<6 { try Sys.put(volume.remote("f\(index)"), patterned(3 << 20, seed: 5)) }
    }
    try volume.must("cat $M/f* >/dev/null; head -c 20M /dev/urandom >$M/new", within: 60)
    XCTAssertEqual(try Sys.size(volume.path("new")), 20 << 20)
    try volume.settle()
    try volume.must("cmp $M/new $C/new")
  }
}
