import CLinux
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// What docs/security.md says: neither another user of the machine nor a hostile container gets further than it says.
final class ClosedDoorTests: MountedTestCase {
  // MARK: Other users

  func testNobodyElseReadsTheState() throws {
    try skipUnlessRoot()
    let volume = try mount("allow_other")
    try Sys.put(volume.path("f"), "private")
    try volume.settle()
    try volume.must("find '\(volume.state)' -mindepth 1 -perm /077 -not -type s | (! grep .)")
    for file in ["", "catalog.db", "catalog.log1", "log", "about", "lock", "control"] {
      let path = volume.state + "/" + file
      XCTAssertFalse(volume.shell("ls '\(path)' && cat '\(path)'", as: 65_534).succeeded, file)
    }
    let asked = volume.shell("'\(MountedVolume.binary)' status $M --json", as: 65_534)
    XCTAssertFalse(asked.text.contains("dirtyItems"), "the socket answered somebody else: \(asked)")
    XCTAssertFalse(volume.shell("'\(MountedVolume.binary)' evict $M/f", as: 65_534).succeeded)
    XCTAssertEqual(try volume.state("f"), "materialized")
  }

  func testWithoutAllowOtherNobodyElseEnters() throws {
    try skipUnlessRoot()
    let volume = try mount()
    try Sys.put(volume.path("f"), "private")
    try Sys.setMode(volume.path("f"), 0o666)
    XCTAssertFalse(volume.shell("cat $M/f", as: 65_534).succeeded)
    XCTAssertFalse(volume.shell("ls $M", as: 65_534).succeeded)
  }

  // MARK: Hostile containers

  func testSetuidFromAContainerGivesNothing() throws {
    try skipUnlessRoot()
    let volume = try mount("allow_other") { try Shell.must("cp /usr/bin/id '\($0.remote("id"))'") }
    try Shell.must("chown 0:0 '\(volume.remote("id"))'; chmod 6755 '\(volume.remote("id"))'")
    XCTAssertEqual(volume.shell("$M/id -u", as: 65_534).text, "65534", "nosuid, or no setuid at all")
    XCTAssertTrue(try volume.must("grep \" $M \" /proc/self/mounts").text.contains("nosuid"))
  }

  func testASymlinkThatLeavesTheTreeIsKeptAndNotFollowed() throws {
    let volume = try mount("poll=1s")
    let secret = try outside("secret") + "/file"
    try Sys.put(secret, "secret")
    try volume.must("ln -s '\(secret)' $C/out; ln -s ../../../../../etc $C/up; mkdir $C/d; ln -s / $C/d/root")
    XCTAssertEqual(try Sys.readlink(volume.path("out")), secret)
    XCTAssertEqual(try Sys.readlink(volume.path("up")), "../../../../../etc")
    for command in ["materialize", "evict", "pin"] { _ = volume.docsfs(command, volume.mountpoint, "-r") }
    try volume.must("rm $M/out $M/up; rm -r $M/d")
    try volume.settle()
    XCTAssertEqual(try Sys.text(secret), "secret")
    XCTAssertEqual(try Shell.must("ls -d /etc /usr").lines.count, 2)
  }

  func testNamesThatSpeakToATerminalAreShownHarmlessly() throws {
    let names = ["\u{1b}[31mred", "bell\u{7}", "two\nlines", "back\u{8}space", "\u{202e}txt.exe"]
    let volume = try mount { volume in for name in names { try Sys.put(volume.remote(name), "x") } }
    XCTAssertEqual(Set(try volume.names()), Set(names))
    for name in names {
      let outcome = try volume.run("status", volume.path(name))
      let said = outcome.text + outcome.errors
      XCTAssertFalse(said.utf8.contains { $0 < 0x20 && $0 != 0x0a }, said.debugDescription)
      XCTAssertLessThanOrEqual(outcome.lines.count, 2, "one line for an item")
      let refused = volume.docsfs("evict", volume.path(name) + "-none")
      XCTAssertEqual(refused.errors.split(separator: "\n").count, 1, refused.errors)
      XCTAssertFalse(refused.errors.utf8.contains { $0 < 0x20 && $0 != 0x0a }, refused.errors.debugDescription)
    }
    try volume.must("ls -R $M >/dev/null; rm -r $M/*")
    try volume.settle()
  }

  func testAFileThatClaimsToBeHugeCostsNothing() throws {
    let volume = try mount("materialize=range") { try Shell.must("truncate -s 8T '\($0.remote("huge"))'") }
    XCTAssertEqual(try Sys.size(volume.path("huge")), 8 << 40)
    let file = try OpenFile(volume.path("huge"), O_RDONLY)
    XCTAssertEqual(try file.read(16, at: 7 << 40), [UInt8](repeating: 0, count: 16))
    try file.close()
    let kept = try Shell.must("du -s --block-size=1M '\(volume.state)'").text.split(separator: "\t")[0]
    XCTAssertLessThan(Int(kept)!, 200)
  }
}
