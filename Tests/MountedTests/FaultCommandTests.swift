import Foundation
import StorageErrors
import TestSupport
import XCTest

/// `docsfs fault`, `disconnect` and `reconnect`, as a person or a script uses them.
final class FaultCommandTests: MountedTestCase {
  private func refused(
    _ outcome: Outcome, _ status: Int32, _ message: String, file: StaticString = #filePath, line: UInt = #line
  ) {
    XCTAssertEqual(outcome.status, status, outcome.description, file: file, line: line)
    XCTAssertEqual(outcome.errors, "docsfs: " + message, file: file, line: line)
  }

  func testARuleIsArmedShownCheckedAndLogged() throws {
    let volume = try mount()
    let place = volume.mountpoint
    try volume.run("fault", place, "add", "id=full", "op=write", "path=a b.txt", "errno=ENOSPC", "times=1")
    let before = volume.docsfs("fault", "check", place)
    XCTAssertEqual(before.status, 1, before.description)
    XCTAssertTrue(before.text.hasPrefix("full: never fired, as no call has matched it"), before.text)

    assertErrno(.ENOSPC) { try Sys.put(volume.path("a b.txt"), "x") }
    try Sys.put(volume.path("a b.txt"), "x")
    let rule = #"add id=full op=write path="a b.txt" errno=ENOSPC times=1"#
    XCTAssertTrue(
      try volume.run("fault", place).lines.contains(rule + "  # matched=1 fired=1 visible=1 remaining=0"))
    XCTAssertEqual(try volume.run("fault", "check", place).text, "the rule fired, and was seen")

    let log = try volume.run("fault", "log", place).lines
    XCTAssertEqual(log.count, 1)
    let line = try XCTUnwrap(JSONSerialization.jsonObject(with: Data(log[0].utf8)) as? [String: Any])
    XCTAssertEqual(line["rule"] as? String, "full")
    XCTAssertEqual(line["errno"] as? String, "ENOSPC")
    XCTAssertEqual(line["path"] as? String, "/a b.txt")
  }

  func testJSONOfRulesAndOfTheCheck() throws {
    let volume = try mount()
    try volume.run("fault", volume.mountpoint, #"{"add":{"id":"x","op":["open"],"errno":"EIO"}}"#)
    let rules = try XCTUnwrap(
      JSONSerialization.jsonObject(with: Data(volume.run("fault", "--json", volume.mountpoint).output))
        as? [String: Any])
    XCTAssertEqual((rules["rules"] as? [[String: Any]])?.first?["id"] as? String, "x")
    let outcome = volume.docsfs("fault", "check", volume.mountpoint, "--json")
    XCTAssertEqual(outcome.status, 1)
    let check = try XCTUnwrap(JSONSerialization.jsonObject(with: Data(outcome.output)) as? [String: Any])
    XCTAssertNotNil((check["rules"] as? [[String: Any]])?.first?["problem"])
  }

  func testMistakesAreOneLine() throws {
    let volume = try mount()
    let place = volume.mountpoint
    refused(
      volume.docsfs("fault", place, "add", "op=raed", "errno=EIO"), 64, "unknown operation raed; did you mean read?")
    refused(volume.docsfs("fault", place, "add op=read errno=EOI"), 64, "1:13: unknown errno EOI; did you mean EIO?")
    refused(volume.docsfs("fault", place, "del", "x"), 1, "there is no rule x")
    refused(
      volume.docsfs("disconnect", place, "profile=unpluged"), 64, "unknown profile unpluged; did you mean unplugged?")
    XCTAssertEqual(volume.docsfs("fault", volume.home).status, 69)
    XCTAssertFalse(try volume.run("fault", place).text.contains("add"), "nothing is armed")
  }

  func testCommandsFromStandardInputUpToTheFirstThatIsRefused() throws {
    let volume = try mount()
    let docsfs = "'\(MountedVolume.binary)' fault $M"
    try volume.must(
      "printf '%s\\n' '# two rules' 'add id=a op=open errno=EIO' '{\"add\":' '{\"id\":\"b\",\"hang\":true}}' | \(docsfs) -"
    )
    XCTAssertEqual(try volume.run("fault", volume.mountpoint).lines.filter { $0.hasPrefix("add") }.count, 2)
    let outcome = volume.shell("printf 'clear\\nadd id=c hang\\n  del x\\nclear\\n' | \(docsfs) -")
    XCTAssertEqual(outcome.status, 1)
    XCTAssertTrue(outcome.errors.hasPrefix("docsfs: standard input:3:3: there is no rule x"), outcome.errors)
    XCTAssertEqual(
      try volume.run("fault", volume.mountpoint).lines.filter { $0.hasPrefix("add") }.map { $0.prefix(8) }, ["add id=c"]
    )
  }

  func testOneArgumentMayHoldSeveralLines() throws {
    let volume = try mount()
    try volume.run("fault", volume.mountpoint, "add id=a hang # stuck\n\n{\"add\":\n{\"id\":\"b\",\"hang\":true}}")
    XCTAssertEqual(try volume.run("fault", volume.mountpoint).lines.filter { $0.hasPrefix("add") }.count, 2)
    refused(
      volume.docsfs("fault", volume.mountpoint, "clear\n  dle a"), 64, "2:3: unknown command dle; did you mean del?")
    refused(volume.docsfs("fault", volume.mountpoint, "# nothing"), 64, "fault: the command is empty")
  }

  /// The socket answers while a caller hangs in the mount.
  func testAHangingMountStillTakesCommands() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "bytes")
    try volume.run("fault", volume.mountpoint, "add", "id=stuck", "op=open", "path=f", "hang")
    let reader = try Subprocess(["cat", volume.path("f")])
    try volume.run("fault", volume.mountpoint, "wait", "id=stuck", "fired=1", "timeout=30s")
    XCTAssertTrue(reader.isRunning)
    XCTAssertTrue(try volume.run("fault", volume.mountpoint).text.contains("fired=1"))
    try volume.run("fault", volume.mountpoint, "del", "stuck")
    XCTAssertEqual(reader.finish(within: 30).text, "bytes")
  }

  func testWaitEndsInTime() throws {
    let volume = try mount()
    try volume.run("fault", volume.mountpoint, "add", "id=x", "op=open", "errno=EIO")
    let outcome = volume.docsfs("fault", volume.mountpoint, "wait", "id=x", "fired=1", "timeout=100ms")
    XCTAssertEqual(outcome.status, 75, outcome.description)
    try volume.run("fault", volume.mountpoint, "wait", "idle", "timeout=30s")
  }

  func testDisconnectAndReconnect() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "x")
    try volume.run("disconnect", volume.mountpoint, "profile=unplugged")
    assertErrno(.ENXIO) { _ = try Sys.info(volume.path("f")) }
    XCTAssertTrue(try volume.run("fault", volume.mountpoint).lines.contains("disconnect profile=unplugged"))
    try volume.run("reconnect", volume.mountpoint)
    XCTAssertEqual(try Sys.text(volume.path("f")), "x")
    try volume.run("disconnect", volume.mountpoint, "profile=smb", "for=300ms")
    assertEventually("it mends by itself") { (try? Sys.text(volume.path("f"))) == "x" }
  }

  func testTheLogIsFollowed() throws {
    let volume = try mount()
    let follower = try Subprocess([MountedVolume.binary, "fault", "log", volume.mountpoint, "--follow"])
    try volume.run("fault", volume.mountpoint, "mark", "one")
    assertEventually("the first mark") { follower.outcome.lines.count == 1 }
    try volume.run("fault", volume.mountpoint, "mark", "two", "#2")
    assertEventually("the second mark") { follower.outcome.lines.last?.contains("\"mark\":\"two #2\"") ?? false }
    follower.signal(SIGINT)
    XCTAssertNotNil(follower.wait(10))
  }

  func testHelpNamesEveryKeyAndOperation() throws {
    let volume = try unmounted()
    let help = try volume.run("fault", "--help").text
    for word in ["errno=EIO", "when=3", "copy_file_range", "namespace", "darwin-dataless", "reconnect"] {
      XCTAssertTrue(help.contains(word), word)
    }
    XCTAssertTrue(try volume.run("fault", "check", "--help").text.contains("no program saw it"))
  }
}
