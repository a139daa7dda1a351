import CLinux
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// `docsfs status`: what is on its way, how far behind the container is, and why.
final class StatusTests: MountedTestCase {
  private func watch(_ volume: MountedVolume, _ arguments: String...) throws -> Subprocess {
    try Subprocess([MountedVolume.binary, "status", "--watch"] + arguments, environment: volume.variables)
  }

  private func snapshots(_ process: Subprocess) -> [[String: Any]] {
    process.outcome.text.split(separator: "\n").compactMap {
      try? JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]
    }
  }

  private func transfers(_ snapshot: [String: Any]) -> [[String: Any]] {
    let mount = (snapshot["mounts"] as? [[String: Any]])?.first
    return (mount?["rates"] as? [String: Any])?["transfers"] as? [[String: Any]] ?? []
  }

  func testUploadsAndDownloadsOnTheirWay() throws {
    let volume = try mount(query: "rate=1MiB")
    try volume.must("head -c 6M /dev/urandom > $M/big.bin")
    let process = try watch(volume, "--json", volume.mountpoint)
    defer { process.signal(SIGKILL) }
    func moving(_ direction: String) -> [String: Any]? {
      snapshots(process).flatMap(transfers).last {
        $0["direction"] as? String == direction && ($0["rate"] as? Double ?? 0) > 0
      }
    }
    assertEventually("the upload moves") { moving("up") != nil }
    let up = try XCTUnwrap(moving("up"))
    XCTAssertEqual(up["path"] as? String, "big.bin")
    XCTAssertEqual(up["size"] as? Int, 6 << 20)
    XCTAssertTrue((1...(6 << 20)).contains(up["doneBytes"] as? Int ?? 0), "\(up)")
    XCTAssertGreaterThanOrEqual(try XCTUnwrap(up["eta"] as? Double), 0)
    try volume.settle()
    try volume.evict("big.bin")
    let reader = try Subprocess(["cmp", volume.path("big.bin"), volume.remote("big.bin")])
    assertEventually("the download moves") { moving("down") != nil }
    XCTAssertEqual(moving("down")?["path"] as? String, "big.bin")
    XCTAssertEqual(reader.finish(within: 60).status, 0)

    process.signal(SIGINT)
    let end = try XCTUnwrap(process.wait(20))
    XCTAssertEqual(end.status, 0, "\(end)")
    XCTAssertEqual(end.errors, "")
    XCTAssertEqual(end.output.last, 0x0a, "no line is left half written")
    XCTAssertEqual(end.lines.count, snapshots(process).count, "each line is one value")
  }

  func testWhoReadsItMayStop() throws {
    let volume = try mount()
    for json in ["", "--json"] {
      let outcome = volume.shell(
        "'\(MountedVolume.binary)' status --watch \(json) $M | head -n 1; echo \"${PIPESTATUS[@]}\"", within: 30)
      XCTAssertEqual(outcome.lines.last, "0 0", "\(outcome)")
      XCTAssertEqual(outcome.errors, "")
    }
  }

  func testTheMountGoesAway() throws {
    for isKilled in [false, true] {
      let volume = try mount(name: "v\(isKilled)")
      let named = try watch(volume, "--json", volume.mountpoint)
      let all = try watch(volume)
      defer { [named, all].forEach { $0.signal(SIGKILL) } }
      assertEventually("both have begun") { [named, all].allSatisfy { $0.outcome.text.contains("connected") } }
      if isKilled { volume.killDaemonOnly() } else { try volume.unmount() }
      let end = try XCTUnwrap(named.wait(30))
      XCTAssertEqual(end.status, 69, "\(end)")
      let said = isKilled ? "the daemon of \(volume.mountpoint) has died" : "\(volume.mountpoint) is no longer mounted"
      XCTAssertTrue(end.errors.hasPrefix("docsfs: \(said)"), end.errors)
      XCTAssertFalse(end.errors.contains("\n"))
      assertEventually("whoever watches all is told, too") {
        (all.outcome.text + all.outcome.errors).contains(said)
      }
      XCTAssertTrue(all.isRunning)
      all.signal(SIGTERM)
      XCTAssertEqual(all.wait(20)?.status, 0)
      if isKilled { volume.killDaemon() }
    }
  }

  /// script(1) gives it a terminal.
  func testOnATerminalEachFrameIsWrittenOverTheLast() throws {
    try skipUnlessInstalled("script")
    let volume = try mount()
    try Sys.put(volume.path("f"), "x")
    let pidFile = volume.home + "/pid"
    let command =
      "stty cols 40 rows 10; echo $$ > '\(pidFile)'; exec '\(MountedVolume.binary)' status -w '\(volume.mountpoint)'"
    let terminal = try Subprocess(
      ["script", "-qefc", command, volume.home + "/typescript"], environment: volume.variables)
    defer { terminal.signal(SIGKILL) }
    func typed() -> String { (try? String(contentsOfFile: volume.home + "/typescript", encoding: .utf8)) ?? "" }
    assertEventually("three frames") { typed().components(separatedBy: "\u{1b}[H").count > 3 }
    let pid = try XCTUnwrap(Int32(Sys.text(pidFile).trimmingCharacters(in: .whitespacesAndNewlines)))
    kill(pid, SIGINT)
    XCTAssertEqual(terminal.wait(20)?.status, 0)
    let text = typed()
    let session = text.components(separatedBy: "\u{1b}[?1049h\u{1b}[?25l")
    XCTAssertEqual(session.count, 2, "one other screen, without a cursor")
    let screen = session[1].components(separatedBy: "\u{1b}[?25h\u{1b}[?1049l")
    XCTAssertEqual(screen.count, 2, "which is left as it was come upon")
    XCTAssertFalse(screen[0].contains("\u{1b}[2J"), "nothing is cleared before it is written anew")
    for frame in screen[0].components(separatedBy: "\u{1b}[H").dropFirst() {
      XCTAssertTrue(frame.hasSuffix("\u{1b}[J"))
      // CR and LF are one character for a String.
      let plain = frame.replacing("\u{1b}[K", with: "").replacing("\u{1b}[J", with: "").filter { $0 != "\r" }
      let lines = plain.utf8.split(separator: 0x0a).map { String(decoding: $0.filter { $0 != 0x0d }, as: UTF8.self) }
      XCTAssertTrue((4...10).contains(lines.count), plain)
      for line in lines { XCTAssertLessThanOrEqual(line.count, 40, line) }
    }
  }

  func testOfflineItSaysHowFarBehindAndWhy() throws {
    let volume = try mount("poll=1s")
    try Sys.put(volume.path("first"), "x")
    try volume.settle()
    XCTAssertEqual(try volume.run("status", volume.mountpoint).lines.count, 2, "there is nothing to say")
    try volume.control("cloud offline")
    try Sys.put(volume.path("second"), "yy")
    try Sys.put(volume.path("third"), "zzz")
    assertEventually("it notices") { (try? volume.statusText("link")) != "connected" }
    let lines = try volume.run("status", volume.mountpoint).lines
    let place = volume.mountpoint
    XCTAssertTrue(
      lines.contains { $0.hasPrefix("\(place): disconnected for ") && $0.contains("does not answer") }, "\(lines)")
    XCTAssertTrue(
      lines.contains { $0.hasPrefix("\(place): 2 items wait to be uploaded (") && $0.hasSuffix(": second") }, "\(lines)"
    )
    XCTAssertGreaterThanOrEqual(try volume.statusNumber("age"), 0)
    try volume.control("cloud online")
    try volume.settle()
    XCTAssertEqual(try volume.run("status", volume.mountpoint).lines.count, 2)
  }

  func testWhatFailsIsSaidWithItsNextAttempt() throws {
    let volume = try mount()
    try volume.control("cloud quota=1")
    try Sys.put(volume.path("f"), "too long")
    assertEventually("it fails") { (try? volume.sync("f")) == "error" }
    let lines = try volume.run("status", volume.mountpoint).lines
    XCTAssertTrue(
      lines.contains { $0.hasPrefix("\(volume.path("f")): ") && $0.contains("; tried again ") }, "\(lines)")
    XCTAssertEqual(try volume.statusNumber("failingItems"), 1)
    try volume.control("cloud online")
    try volume.settle()
    XCTAssertEqual(try volume.statusNumber("failingItems"), 0)
  }
}
