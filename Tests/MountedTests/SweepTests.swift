import Foundation
#if canImport(FoundationXML)
  import FoundationXML
#endif
import StorageErrors
import TestSupport
import XCTest

/// `docsfs sweep` with real commands: careful ones lose nothing, careless ones are found out.
final class SweepTests: MountedTestCase {
  override var patience: Double { Effort.full ? 3_600 : super.patience }

  private struct Report: Decodable {
    struct Run: Decodable {
      var operation: String
      var call: Int
      var errno: String
      var path: String
      var status: Int32?
      var hung: Bool
      var visible: Int
      var errors: [String]
      var invariant: String
      var lost: [String]
    }
    var runs: [Run]
    var files: Int?
    var held: Int
    var broken: Int
    var hung: Int
    var unnoticed: Int
  }

  /// A folder of documents: two of one name and content, so that one cannot stand for the other.
  private func source() throws -> String {
    let folder = try outside("source")
    try Sys.makeFolders(folder + "/sub")
    try Sys.put(folder + "/a", "same")
    try Sys.put(folder + "/sub/a", "same")
    try Sys.put(folder + "/sub/b", (0..<10_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
    return folder
  }

  private func script(_ text: String) throws -> String {
    let place = try outside("scripts") + "/move.sh"
    try Sys.put(place, text)
    return place
  }

  private func sweep(_ arguments: [String], exit: Int32, within limit: Double = 200) throws -> Report {
    let volume = try unmounted()
    let outcome = volume.docsfs(["sweep", "--json", "-"] + arguments, within: limit)
    XCTAssertEqual(outcome.status, exit, outcome.description)
    return try JSONDecoder().decode(Report.self, from: Data(outcome.output))
  }

  func testACopyLosesNothing() throws {
    let source = try source()
    let report = try sweep(
      ["--errno", "EIO,ENOSPC", "--ops", "create,write,mkdir,utimens", "--", "cp", "-a", source, "{mount}"], exit: 0)
    XCTAssertEqual(report.files, 3)
    for (operation, errno, calls) in [("create", "EIO", 3), ("write", "ENOSPC", 3), ("mkdir", "EIO", 2)] {
      let runs = report.runs.filter { $0.operation == operation && $0.errno == errno }
      XCTAssertEqual(runs.map(\.call), Array(1...calls), "\(operation) \(errno)")
      XCTAssertTrue(runs.allSatisfy { $0.visible == 1 && $0.invariant == "held" && $0.status == 1 })
    }
    XCTAssertTrue(report.runs.contains { $0.operation == "write" && $0.path == "/source/sub/a" })
    XCTAssertTrue(report.runs.allSatisfy { run in run.errors.allSatisfy { !$0.contains("docsfs-run") } })
    XCTAssertEqual(report.broken, 0)
  }

  func testACarelessMoveIsFoundOut() throws {
    let source = try source()
    let script = try script("cp -r \"$1\"/. \"$2\" 2>/dev/null\nrm -rf \"$1\"\n")
    let report = try sweep(["--errno", "EIO", "--ops", "create,write", "--", "sh", script, source, "{mount}"], exit: 1)
    XCTAssertEqual(report.runs.count, 6)
    XCTAssertEqual(report.broken, 6)
    XCTAssertEqual(report.unnoticed, 6)
    for run in report.runs { XCTAssertEqual(run.lost, [String(run.path.dropFirst())], "that file, and no other") }
    XCTAssertEqual(try Sys.names(source), ["a", "sub"], "the source itself is left alone")
  }

  func testAMoveThatLooksLosesNothing() throws {
    let source = try source()
    let script = try script("cp -r \"$1\" \"$2\" && sync -f \"$2\" && rm -rf \"$1\"\n")
    let report = try sweep(["--errno", "EIO", "--ops", "create,write", "--", "sh", script, source, "{mount}"], exit: 0)
    XCTAssertEqual(report.runs.count, 6)
    XCTAssertEqual(report.held, 6)
  }

  /// From the mount to a folder outside, as a migration away from the cloud.
  func testFilesOfTheVolumeAreASourceToo() throws {
    let source = try source()
    let script = try script("cp -r \"$1\"/. \"$2\" 2>/dev/null\nrm -rf \"$1\"/*\n")
    let report = try sweep(
      ["--errno", "EIO", "--ops", "open,read", "--with", source, "--", "sh", script, "{mount}", "{out}"], exit: 1)
    XCTAssertEqual(report.files, 3)
    XCTAssertTrue(report.runs.contains { $0.operation == "open" && $0.invariant == "broken" && !$0.lost.isEmpty })
  }

  /// docsfs's own migration, in both directions.
  func testAMigrationLosesNothing() throws {
    let source = try source()
    let there = try sweep(
      [
        "--errno", "EIO", "--ops", "create,write,fsync,rename,mkdir", "--", MountedVolume.binary, "migrate", "to-cloud",
        source, "{mount}/docs", "--move",
      ], exit: 0)
    XCTAssertGreaterThanOrEqual(there.runs.count, 6)
    let back = try sweep(
      [
        "--errno", "EIO", "--ops", "open,read,unlink", "--with", source, "--", MountedVolume.binary, "migrate",
        "to-local",
        "{mount}/sub", "{out}/sub", "--move",
      ], exit: 0)
    XCTAssertGreaterThanOrEqual(back.runs.count, 4)
  }

  /// Whichever call fails, and however: the same command once more, on storage that is well, ends as asked, and leaves
  /// nothing temporary. With DOCSFS_FULL=1 every call.
  func testAfterAnyFailureTheSameMigrationDoesTheRest() throws {
    let source = try source()
    let app = try outside("app")
    try Sys.makeFolders(app + "/Documents")
    for name in ["cafes.sqlite", "cafes.sqlite-wal"] { try Sys.put(app + "/Documents/" + name, name) }
    let scenes: [(with: [String], command: String, proof: String)] = [
      ([], "to-cloud '\(source)' {mount}/d --move", "diff -r '\(source)' {mount}/d && ! ls -A {source} | grep ."),
      (["--with", source], "to-local {mount} {out} --move", "diff -r '\(source)' {out} && ! ls -A {mount} | grep ."),
      (
        ["--with", source], "to-local {mount} {out} --keep", "diff -r '\(source)' {out} && diff -r '\(source)' {mount}"
      ),
      (
        ["--with", app], "relocate --home {mount} --rule '*.sqlite=Library/Caches'",
        "diff -r '\(app)/Documents' {mount}/Library/Caches && ! ls -A {mount}/Documents | grep ."
      ),
    ]
    let some = ["--ops", "create,rename,fsync,unlink,read", "--errno", "ENXIO"]
    for scene in scenes {
      let command = "'\(MountedVolume.binary)' migrate \(scene.command)"
      // The sources of a sweep stand in words of their own, which the invariant's are not.
      let again = command.replacingOccurrences(of: "'\(source)'", with: "{source}")
      let tidy = "! find {mount} {out} -name '.docsfs-migrate-*' | grep ."
      let words = ["--invariant", "\(again) && \(scene.proof) && \(tidy)"] + (try words(of: command))
      let report = try sweep(
        (Effort.full ? ["--errno", "EIO,ENOSPC,ESTALE,ENXIO"] : some) + scene.with + words, exit: 0, within: 3000)
      XCTAssertGreaterThan(report.runs.filter { $0.visible > 0 }.count, 2, scene.command)
    }
  }

  /// As a shell splits it.
  private func words(of command: String) throws -> [String] {
    ["--"] + (try Shell.must("printf '%s\\n' \(command)")).lines
  }

  func testAnInvariantOfOnesOwn() throws {
    let report = try sweep(
      [
        "--errno", "EIO", "--ops", "rename", "--invariant", "test \"$(cat {mount}/f)\" = new", "--",
        "sh", "-c", "echo new > {mount}/t; mv {mount}/t {mount}/f || true",
      ], exit: 1)
    XCTAssertEqual(report.runs.count, 1)
    XCTAssertEqual(report.runs[0].path, "/t -> /f")
    XCTAssertEqual(report.runs[0].invariant, "broken")
    XCTAssertNil(report.files)
  }

  func testARunThatHangsIsKilledWithItsChildren() throws {
    let mark = "98765"
    let report = try sweep(
      [
        "--errno", "EIO", "--ops", "mkdir", "--timeout", "2", "--invariant", "true", "--",
        "sh", "-c", "mkdir {mount}/d || { sleep \(mark) & wait; }",
      ], exit: 1)
    XCTAssertEqual(report.runs.map(\.hung), [true])
    XCTAssertNil(report.runs[0].status)
    XCTAssertEqual(report.hung, 1)
    XCTAssertEqual(Processes.mentioning(mark).count, 0)
  }

  func testJUnitAndTable() throws {
    let source = try source()
    let volume = try unmounted()
    let file = try outside("reports") + "/sweep.xml"
    let script = try script("cp \"$1\"/a \"$2\"/'a <&> \"b\"'\nrm \"$1\"/a\n")
    let outcome = volume.docsfs(
      "sweep", "--errno", "EIO", "--ops", "create", "--junit", file, "--invariant", "ls {mount} | grep -q b", "--",
      "sh",
      script, source, "{mount}")
    XCTAssertEqual(outcome.status, 1, outcome.description)
    XCTAssertTrue(outcome.lines.contains { $0.hasPrefix("create") && $0.contains("BROKEN") }, outcome.text)
    XCTAssertEqual(outcome.lines.last, "1 run: 0 held, 1 broken; 1 ended with 0 although a call had failed")
    let parser = XMLParser(data: Data(try Sys.contents(file)))
    let cases = JUnitCases()
    parser.delegate = cases
    XCTAssertTrue(parser.parse())
    XCTAssertEqual(cases.names, ["create 1 (EIO) of /a <&> \"b\""])
    XCTAssertEqual(cases.failures, 1)
    XCTAssertEqual(cases.suite["tests"], "1")
    XCTAssertEqual(cases.suite["failures"], "1")
  }

  func testWhatCannotBeSwept() throws {
    let volume = try unmounted()
    let source = try source()
    let table: [([String], Int32, String)] = [
      (["--", "true"], 1, "did nothing in the mount"),
      (["--errno", "EOI", "--", "cp", source, "{mount}"], 64, "did you mean EIO?"),
      (["--ops", "raed", "--", "cp", source, "{mount}"], 64, "did you mean read?"),
      (["--jobs", "0", "--", "cp", source, "{mount}"], 64, "--jobs=0"),
      (["--", "cp", "-a", source + "/a", "/nonexistent/{mount}"], 1, "even without a fault"),
      (["--", "no-such-program", source, "{mount}"], 127, "no-such-program"),
      (["--", "ls", source], 1, "did nothing in the mount"),
      (["--ops", "fallocate", "--", "cp", "-a", source, "{mount}"], 1, "the command does nothing of that; it does"),
      (["--", "rm", "-r", source], 1, "does not hold even without a fault"),
      (["--invariant", "false", "--", "cp", "-a", source, "{mount}"], 1, "does not hold even without a fault"),
    ]
    for (arguments, status, message) in table {
      let outcome = volume.docsfs(["sweep"] + arguments)
      XCTAssertEqual(outcome.status, status, "\(arguments): \(outcome)")
      XCTAssertTrue(outcome.errors.contains(message), "\(arguments): \(outcome.errors)")
    }
    XCTAssertEqual(try Sys.names(source), ["a", "sub"])
  }

  func testWithoutASourceOnlyHangsAreLookedFor() throws {
    let report = try sweep(["--errno", "EIO", "--ops", "create", "--", "touch", "{mount}/f"], exit: 0)
    XCTAssertEqual(report.runs.map(\.status), [1])
    XCTAssertEqual(report.files, 0)
  }

  func testAnInterruptedSweepLeavesNothing() throws {
    let volume = try unmounted()
    let folder = try outside("temporary")
    let sweep = try Subprocess(
      [
        MountedVolume.binary, "sweep", "--invariant", "true", "--ops", "mkdir", "--", "sh", "-c",
        "mkdir {mount}/d || sleep 60.25",
      ], environment: volume.variables.merging(["TMPDIR": folder]) { $1 })
    assertEventually("a run is under way") { Processes.mentioning("60.25").contains { $0.command.hasPrefix("sleep") } }
    XCTAssertGreaterThan(MountTable.mounts(below: folder).count, 0)
    sweep.signal(SIGINT)
    XCTAssertEqual(sweep.finish(within: 60).status, 130)
    XCTAssertEqual(try Sys.names(folder), [])
    XCTAssertEqual(MountTable.mounts(below: folder).count, 0)
  }
}

private final class JUnitCases: NSObject, XMLParserDelegate {
  var suite: [String: String] = [:]
  var names: [String] = []
  var failures = 0

  func parser(
    _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
    attributes: [String: String] = [:]
  ) {
    switch name {
    case "testsuite": suite = attributes
    case "testcase": names.append(attributes["name"] ?? "")
    case "failure": failures += 1
    default: break
    }
  }
}
