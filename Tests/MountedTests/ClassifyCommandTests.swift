import Foundation
import TestSupport
import XCTest

/// `docsfs classify` as people and scripts call it.
final class ClassifyCommandTests: XCTestCase {
  override func setUpWithError() throws {
    try XCTSkipUnless(Sys.exists(MountedVolume.binary), "needs \(MountedVolume.binary)")
  }

  private func classify(_ arguments: String...) -> Outcome {
    Shell.run([MountedVolume.binary, "classify"] + arguments, environment: ["LC_ALL": "C.UTF-8"], within: 60)
  }
  private func objects(_ outcome: Outcome) throws -> [[String: Any]] {
    try outcome.lines.map { try XCTUnwrap(JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any]) }
  }

  func testErrorsAsATableAndAsJSON() throws {
    let table = classify("EIO", "Cocoa:512,ESTALE")
    XCTAssertEqual(table.status, 0, table.description)
    XCTAssertEqual(table.lines.count, 3)
    XCTAssert(table.lines[2].contains("staleHandle"), table.text)
    let errors = try objects(classify("EIO", "Cocoa:512,ESTALE", "--json"))
    XCTAssertEqual(errors.map { $0["category"] as? String }, ["ioFailure", "staleHandle"])
    XCTAssertEqual(errors.map { $0["isExternalStorageWriteError"] as? Bool }, [true, true])
    XCTAssertEqual(classify("EIOO").status, 64)
    XCTAssertEqual(classify("EIOO").errors, "docsfs: classify: EIOO is no errno; did you mean EIO?")
  }

  func testJSONFromStandardInput() throws {
    let binary = MountedVolume.binary
    let json = #"{"domain":"NSPOSIXErrorDomain","code":11,"platform":"darwin"}"#
    let outcome = Shell.run("printf '%s' '\(json)' | '\(binary)' classify --json -")
    XCTAssertEqual(try objects(outcome).first?["category"] as? String, "notMaterialized")
    let wrong = Shell.run("echo '{\"domain\":\"NSPOSIXErrorDomain\",\"code\":11}' | '\(binary)' classify -")
    XCTAssertEqual(wrong.status, 64)
    XCTAssert(wrong.errors.contains("platform"), wrong.errors)
  }

  func testACommandIsRunAndItsErrorsAreExplained() throws {
    let outcome = classify("--", "sh", "-c", "echo out; echo 'f: No space left on device' >&2; exit 7")
    XCTAssertEqual(outcome.status, 7)
    XCTAssertEqual(outcome.text, "out")
    XCTAssert(
      outcome.errors.hasPrefix("f: No space left on device\ndocsfs: sh ended with exit status 7\n"), outcome.errors)
    XCTAssert(outcome.errors.contains("afterFreeingSpace"), outcome.errors)
    let report = try XCTUnwrap(objects(classify("--json", "--", "cat", "/nowhere/at/all")).last)
    XCTAssertEqual(report["exit"] as? Int, 1)
    XCTAssertEqual((report["errors"] as? [[String: Any]])?.first?["error"] as? String, "ENOENT")
  }

  func testACommandThatSucceedsIsNotTalkedAbout() {
    let outcome = classify("--", "sh", "-c", "echo fine >&2")
    XCTAssertEqual(outcome.status, 0)
    XCTAssertEqual(outcome.errors, "fine")
  }

  func testSignalsAndCommandsThatAreNotThere() {
    XCTAssertEqual(classify("--", "/nowhere/at/all").status, 127)
    XCTAssertEqual(classify("--", "/etc/passwd").status, 126)
    let killed = classify("--", "sh", "-c", "kill -BUS $$")
    XCTAssertEqual(killed.status, 128 + 7)
    XCTAssert(killed.errors.contains("SIGBUS"), killed.errors)
    XCTAssert(killed.errors.contains("ioFailure"), "a mapped page that could not be read: \(killed.errors)")
  }

  /// Whatever it left in the background holds the other end of its standard error.
  func testABackgroundProcessIsNotWaitedFor() throws {
    let folder = try TemporaryFolder()
    defer { folder.remove() }
    let outcome = classify(
      "--", "sh", "-c", "sleep 600 & echo $! >\(folder.path)/pid; echo 'x: Stale file handle' >&2; exit 1")
    let pid = try XCTUnwrap(pid_t(folder.read("pid").trimmingCharacters(in: .whitespacesAndNewlines)))
    XCTAssertEqual(kill(pid, SIGTERM), 0, "it is still there")
    XCTAssertEqual(outcome.status, 1)
    XCTAssert(outcome.errors.contains("ESTALE"), outcome.errors)
  }

  func testALotOnStandardErrorGoesThrough() {
    let outcome = classify("--", "sh", "-c", "seq 1 400000 >&2; echo 'last: Host is down' >&2; exit 1")
    XCTAssertGreaterThan(outcome.errors.utf8.count, 2_600_000)
    XCTAssert(outcome.errors.contains("EHOSTDOWN"))
  }

  func testStandardInputGoesThrough() {
    let outcome = Shell.run("echo through | '\(MountedVolume.binary)' classify -- cat")
    XCTAssertEqual(outcome.text, "through", outcome.description)
    XCTAssertEqual(outcome.errors, "")
  }

  func testAPipeThatIsClosedEndsItsWriterSilently() {
    let outcome = classify("--", "bash", "-c", "yes | head -1; echo ${PIPESTATUS[0]}")
    XCTAssertEqual(outcome.lines, ["y", "\(128 + SIGPIPE)"])
    XCTAssertEqual(outcome.errors, "")
  }

  func testSentencesAreJapaneseWhereMessagesAre() {
    let outcome = Shell.run([MountedVolume.binary, "classify", "ENOSPC"], environment: ["LC_ALL": "ja_JP.UTF-8"])
    XCTAssert(outcome.text.contains("空き容量"), outcome.description)
  }
}

/// What programs print when a mount fails under them.
final class ClassifiedProgramTests: MountedTestCase {
  func testCopiesThatFailOnTheMount() throws {
    let volume = try mount()
    let there = try outside("there")
    for path in [volume.path("f"), there + "/source"] { try Sys.put(path, patterned(50_000, seed: 1)) }
    for (rule, category) in [
      ("op=read path=/f errno=EIO", "ioFailure"), ("op=open path=/f errno=ENXIO", "disconnected"),
      ("op=write path=/g errno=ENOSPC", "outOfSpace"), ("op=create path=/g errno=EROFS", "readOnly"),
      ("op=write path=/g errno=ESTALE", "staleHandle"), ("op=write path=/g errno=EDQUOT", "outOfSpace"),
    ] {
      let control = try OpenFile(volume.path(".docsfs/control"), O_WRONLY)
      try control.write("add id=x \(rule)\n")
      let words =
        rule.contains("/g") ? ["cp", there + "/source", volume.path("g")] : ["cp", volume.path("f"), there + "/f"]
      let outcome = volume.docsfs(["classify", "--json", "--"] + words)
      try control.write("del x\n")
      try? Sys.remove(volume.path("g"))
      XCTAssertEqual(outcome.status, 1, "\(rule): \(outcome)")
      let report = try JSONSerialization.jsonObject(with: Data(outcome.lines.last?.utf8 ?? "".utf8)) as? [String: Any]
      let errors = report?["errors"] as? [[String: Any]] ?? []
      XCTAssertEqual(errors.map { $0["category"] as? String }, [category], "\(rule): \(outcome)")
    }
  }
}
