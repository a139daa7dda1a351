import Foundation
import StorageErrors
import TestSupport
import XCTest

/// What a daemon writes about itself, and where.
final class DaemonLogTests: MountedTestCase {
  private func log(_ volume: MountedVolume) -> [String] {
    let text = (try? String(contentsOfFile: volume.state + "/log", encoding: .utf8)) ?? ""
    return text.split(separator: "\n").map(String.init)
  }

  /// In the background, with `arguments`; runs `body`, and unmounts.
  private func inBackground(_ volume: MountedVolume, _ arguments: [String], _ body: () throws -> Void) throws {
    try volume.run(volume.mountArguments + arguments)
    defer { _ = volume.docsfs("unmount", volume.mountpoint) }
    try body()
  }

  func testLevels() throws {
    let volume = try unmounted()
    try inBackground(volume, []) { try Sys.put(volume.path("f"), "x") }
    let usual = log(volume)
    XCTAssertTrue(usual.allSatisfy { $0.wholeMatch(of: /time=\S+Z level=\S+ msg=.*/) != nil }, "\(usual)")
    XCTAssertTrue(usual.contains { $0.contains("level=info msg=mounted mountpoint=\(volume.mountpoint)") }, "\(usual)")
    XCTAssertFalse(usual.contains { $0.contains("level=debug") })

    try inBackground(volume, ["--log-level", "debug"]) {
      try Sys.put(volume.path("g"), "x")
      try volume.settle()
    }
    let debug = log(volume).dropFirst(usual.count)
    XCTAssertTrue(
      debug.contains { $0.contains("level=debug msg=request op=upload path=g outcome=ok seconds=") }, "\(debug)")

    let before = log(volume).count
    try inBackground(volume, ["--log-level=error"]) { try Sys.put(volume.path("h"), "x") }
    XCTAssertEqual(log(volume).count, before, "there was no error")

    let refused = volume.docsfs(volume.mountArguments + ["--log-level=verbose"])
    XCTAssertEqual(refused.status, 64)
    XCTAssertTrue(refused.errors.contains("is none of error, warning, info, debug"), refused.errors)
  }

  func testFailuresAreSaidOnceWithTheirFields() throws {
    let volume = try unmounted(["poll=1s"])
    try inBackground(volume, []) {
      XCTAssertEqual(try volume.names(), [], "listed, and so known while offline")
      try volume.control("cloud offline")
      try Sys.put(volume.path("f"), "x")
      assertEventually("it notices") { (try? volume.statusText("link")) != "connected" }
      try volume.control("cloud online")
      try volume.settle()
    }
    let lines = log(volume)
    XCTAssertEqual(lines.filter { $0.contains("level=warning msg=disconnected container=dir:") }.count, 1, "\(lines)")
    XCTAssertEqual(lines.filter { $0.contains("level=info msg=connected ") }.count, 1, "\(lines)")
  }

  /// A journal is known by what JOURNAL_STREAM says standard error is: sd-daemon(3).
  func testTheJournalGetsPriorities() throws {
    let volume = try unmounted()
    let words = (volume.mountArguments + ["-f"]).map { "'\($0)'" }.joined(separator: " ")
    for isJournal in [true, false] {
      let file = "\(volume.home)/stderr-\(isJournal)"
      let stream = isJournal ? "$(stat -Lc %d:%i /proc/self/fd/2)" : "1:2"
      let daemon = try Subprocess(
        ["bash", "-c", "exec 2>'\(file)'; export JOURNAL_STREAM=\(stream); exec '\(MountedVolume.binary)' \(words)"],
        environment: volume.variables)
      defer { daemon.signal(SIGKILL) }
      assertEventually("it is mounted") { volume.isMounted && Sys.exists(volume.mountpoint) }
      try volume.run("unmount", volume.mountpoint)
      XCTAssertEqual(daemon.wait(30)?.status, 0)
      let text = try String(contentsOfFile: file, encoding: .utf8)
      if isJournal {
        XCTAssertTrue(text.hasPrefix("<6>mounted mountpoint=\(volume.mountpoint) "), text)
      } else {
        XCTAssertTrue(text.hasPrefix("time="), text)
      }
    }
  }

  /// All that a daemon says at its most talkative level, with good credentials and with wrong ones.
  private func saysNoSecret(
    _ kind: CloudServer.Kind, _ secrets: [String], _ environment: (CloudPlace) -> [String: String]
  ) throws {
    let place = try CloudPlace(kind)
    let volume = try unmounted(["poll=1s", "metrics=127.0.0.1:0"])
    volume.url = place.url
    volume.environment = environment(place)
    var said = ""
    try inBackground(volume, ["--log-level=debug"]) {
      try volume.must("seq 1000 > $M/f; mkdir $M/d; mv $M/f $M/d/g; cat $M/d/g >/dev/null")
      try volume.settle()
      try volume.evict("d/g")
      try volume.must("cat $M/d/g >/dev/null")
      try volume.control("cloud status=503 times=3")
      try volume.must("echo more >> $M/d/g")
      try volume.settle()
      said += Shell.run("curl -sf '\(try volume.statusText("metrics"))'").text
      said += try volume.run("status", volume.mountpoint, "--json").text
    }
    volume.environment = volume.environment.mapValues { $0 == secrets[0] ? "wrong-\(secrets[0])" : $0 }
    let wrong = volume.docsfs(volume.mountArguments + ["--log-level=debug", "--state", volume.home + "/other"])
    if wrong.succeeded { try volume.run("unmount", volume.mountpoint) }
    for file in ["\(volume.state)/log", "\(volume.home)/other/log"] {
      said += (try? String(contentsOfFile: file, encoding: .utf8)) ?? ""
    }
    said += wrong.errors + wrong.text
    XCTAssertTrue(
      said.contains("level=debug msg=http method=PUT"), "there is something to look through: \(said.suffix(2000))")
    for secret in secrets {
      let forms = [
        secret, Data(secret.utf8).base64EncodedString().trimmingCharacters(in: CharacterSet(charactersIn: "=")),
      ]
      for form in forms {
        XCTAssertFalse(said.contains(form.dropLast(1)), "\(kind) says \(form)")
      }
    }
    XCTAssertNil(said.range(of: "authorization", options: .caseInsensitive))
    XCTAssertNil(said.range(of: "x-amz-signature", options: .caseInsensitive))
  }

  func testNoSecretOfS3() throws {
    let secret = try CloudServer.shared(.s3).values["AWS_SECRET_ACCESS_KEY"] ?? ""
    XCTAssertFalse(secret.isEmpty)
    try saysNoSecret(.s3, [secret]) { $0.server.values.filter { $0.key.hasPrefix("AWS_") } }
  }

  func testNoSecretOfWebDAV() throws {
    try saysNoSecret(.webdav, ["hunter2-password", "somebody:hunter2-password"]) { _ in
      ["DOCSFS_WEBDAV_USER": "somebody", "DOCSFS_WEBDAV_PASSWORD": "hunter2-password"]
    }
  }
}
