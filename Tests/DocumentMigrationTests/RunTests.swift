import Foundation
import StorageErrors
import TestSupport
import XCTest

@testable import DocumentMigration

/// Runs as a whole: on one file system, stopped, refused.
final class RunTests: MigrationTestCase {
  func testOnOneFileSystemAMoveIsARename() throws {
    let tree = FolderTree.documents()
    try tree.write(to: source)
    let inode = try Sys.info(source + "/large.bin").st_ino
    let plan = try migration(options(.move)).plan()
    XCTAssertEqual(plan.bytesNeeded, 0)
    XCTAssertTrue(try migrate(.move).isComplete)
    XCTAssertEqual(try FolderTree(at: destination), tree)
    XCTAssertTrue(try FolderTree(at: source).isEmpty)
    XCTAssertEqual(try Sys.info(destination + "/large.bin").st_ino, inode)
  }

  func testPlanningChangesNothing() throws {
    let tree = FolderTree.documents()
    try tree.write(to: source)
    let plan = try migration(options(.move)).plan()
    XCTAssertEqual(plan.files.items + plan.symlinks, tree.documents.nodes.count)
    XCTAssertEqual(try FolderTree(at: source), tree)
    XCTAssertEqual(try Sys.names(home), ["destination", "source"], "no journal either")
  }

  /// Stopped before each step in turn; what follows is a run that nobody stops.
  func testStoppedAnywhereAndRunAgain() throws {
    var tree = FolderTree.documents()
    tree["large.bin"] = .file(patterned(100_000, seed: 1))
    for disposition in [Migration.Disposition.move, .keep] {
      var stop = 0
      while true {
        stop += 1
        for folder in [source, destination] {
          _ = Shell.run(["rm", "-rf", folder])
          try Sys.makeFolders(folder)
        }
        try tree.write(to: source)
        if try runAndStop(disposition, at: stop) { break }
        let left = try FolderTree(at: source), brought = try FolderTree(at: destination)
        XCTAssertEqual(tree.documents.isHeld(by: left, brought), [], "\(disposition) \(stop)")
        try assertNothingTemporary()
        XCTAssertTrue(try migrate(disposition).isComplete, "\(disposition) \(stop)")
        XCTAssertEqual(try FolderTree(at: destination), tree, "\(disposition) \(stop)")
        XCTAssertEqual(try FolderTree(at: source), disposition == .move ? FolderTree() : tree)
        try assertNothingTemporary()
      }
      XCTAssertGreaterThan(stop, 30)
    }
  }

  /// Whether it came to its end before the `stop`-th step.
  private func runAndStop(_ disposition: Migration.Disposition, at stop: Int) throws -> Bool {
    var options = options(disposition)
    options.jobs = 1
    let left = Counter(stop)
    let running = Locked<Migration?>(nil)
    options.crashPoint = { _, _ in if !left.take() { running.update { $0 }?.cancel() } }
    let migration = migration(options)
    running.update { $0 = migration }
    let report = try migration.run()
    running.update { $0 = nil }
    XCTAssertEqual(report.isComplete, report.stopped == nil)
    return report.isComplete
  }

  func testEventsTellAllThatTheReportTells() throws {
    try FolderTree.documents().write(to: source)
    try put(destination + "/zero", "another")
    let events = Locked<[MigrationEvent]>([])
    let report = try migration(options(.move)).run { event in events.update { $0.append(event) } }
    let all = events.update { $0 }
    guard case .planned(let plan) = all.first else { return XCTFail("the plan comes first") }
    XCTAssertEqual(plan.collisions.map(\.path), [DocumentPath("zero")])
    let told = all.compactMap { if case .file(let file) = $0 { file } else { nil } }
    XCTAssertEqual(told.sorted { $0.path < $1.path }, report.files.sorted { $0.path < $1.path })
    XCTAssertEqual(try outcome(report, "zero").outcome, .failed)
    XCTAssertFalse(report.isComplete)
  }

  func testReportsSurviveJSON() throws {
    try FolderTree.documents().write(to: source)
    let report = try migrate(.keep)
    XCTAssertEqual(try JSONDecoder().decode(MigrationReport.self, from: JSONEncoder().encode(report)), report)
  }

  func testAMissingDestinationIsMadeButNotWhatItLiesIn() throws {
    try put(source + "/f", "x")
    try Sys.removeFolder(destination)
    XCTAssertTrue(try migrate(.keep).isComplete)
    let nowhere = Migration(
      source: DocumentPath(source), destination: DocumentPath(home + "/no/disk"), options: options(.move))
    XCTAssertThrowsError(try nowhere.run()) { error in
      XCTAssertEqual((error as? MigrationError)?.kind, .missing)
      XCTAssertTrue("\(error)".contains("is its disk or mount there?"), "\(error)")
    }
    XCTAssertTrue(Sys.exists(source + "/f"))
  }

  /// As a shell completes names; and what is left of `"$FOLDER"` when nobody has set it.
  func testSlashesAtTheEndAndPathsThatAreEmpty() throws {
    try put(source + "/f", "x")
    try Sys.removeFolder(destination)
    func migration(_ from: String, _ to: String, _ options: Migration.Options) -> Migration {
      Migration(source: DocumentPath(from), destination: DocumentPath(to), options: options)
    }
    var journalless = options(.move)
    journalless.journal = DocumentPath("")
    for (from, to, options) in [
      ("", destination, options(.move)), (source, "", options(.move)), (source, destination, journalless),
    ] {
      XCTAssertThrowsError(try migration(from, to, options).run()) { error in
        XCTAssertEqual((error as? MigrationError)?.kind, .unfit)
        XCTAssertTrue("\(error)".contains("path is empty"), "\(error)")
      }
    }
    let rule = try XCTUnwrap(RelocationRule(Array("*=Library/Caches".utf8)))
    XCTAssertThrowsError(try Relocation(home: DocumentPath(""), rules: [rule]).plan()) {
      XCTAssertEqual(($0 as? MigrationError)?.kind, .unfit)
    }
    XCTAssertThrowsError(try Audit(home: DocumentPath("")).run()) {
      XCTAssertEqual(($0 as? MigrationError)?.kind, .unfit)
    }
    XCTAssertTrue(try migration(source + "/", destination + "//", options(.move)).run().isComplete)
    XCTAssertEqual(try Sys.names(destination), ["f"])
    XCTAssertEqual(try Sys.names(source), [])
  }

  func testFoldersWithinEachOtherAreRefused() throws {
    try Sys.makeFolders(source + "/below")
    try Sys.symlink(source, at: home + "/link")
    for (from, to) in [(source, source + "/below"), (source + "/below", source), (source, home + "/link")] {
      let migration = Migration(source: DocumentPath(from), destination: DocumentPath(to), options: options(.move))
      XCTAssertThrowsError(try migration.run()) { XCTAssertEqual(($0 as? MigrationError)?.kind, .unfit) }
    }
    var inside = options(.move)
    inside.journal = DocumentPath(source + "/not/there/yet")
    XCTAssertThrowsError(try migration(inside).run()) { XCTAssertEqual(($0 as? MigrationError)?.kind, .unfit) }
    XCTAssertEqual(try Sys.names(source), ["below"])
  }

  func testAReadOnlyFolderIsFilledByALaterRun() throws {
    try XCTSkipUnless(Shell.has("setpriv") || getuid() != 0, "root may write anywhere")
    try Sys.makeFolder(source + "/d")
    try put(source + "/d/a", "a")
    try put(source + "/d/b", "here")
    try Sys.makeFolders(destination)
    try Sys.setMode(source + "/d", 0o555)
    var first = options(.keep)
    first.jobs = 1
    let there = destination + "/d/b"
    // The conflict comes up after the folder has been made.
    first.crashPoint = { step, path in
      if step == "look", path == DocumentPath("d/b") { try? Sys.put(there, "there") }
    }
    XCTAssertEqual(try migration(first).run().count(.failed), 1)
    XCTAssertEqual(try Sys.mode(destination + "/d"), 0o555)
    XCTAssertTrue(try migrate(.keep, .replace).isComplete)
    XCTAssertEqual(try Sys.text(there), "here")
    XCTAssertEqual(try Sys.mode(destination + "/d"), 0o555)
  }

  func testTheSourceChangesBetweenTheRuns() throws {
    try put(source + "/a", "one")
    XCTAssertTrue(try migrate(.keep).isComplete)
    try put(source + "/a", "two, edited here")
    XCTAssertEqual(try outcome(try migrate(.keep), "a").category, .exists, "the destination may be in use by now")
    XCTAssertTrue(try migrate(.keep, .replace).isComplete)
    XCTAssertEqual(try Sys.text(destination + "/a"), "two, edited here")
  }

  func testAPlanKnowsWhatWasBrought() throws {
    let tree = FolderTree.documents()
    try tree.write(to: source)
    XCTAssertTrue(try migrate(.keep).isComplete)
    try put(source + "/zero", "edited")
    try put(destination + "/twin.txt", "edited there")
    let plan = try migration(options(.keep)).plan()
    XCTAssertEqual(plan.brought.items, tree.documents.nodes.count - 2)
    XCTAssertEqual(plan.files.items, 2)
    XCTAssertEqual(plan.collisions.map(\.path).sorted(), ["twin.txt", "zero"].map { DocumentPath($0) })
  }

  func testFirstKeptThenMoved() throws {
    let tree = FolderTree.documents()
    try tree.write(to: source)
    XCTAssertTrue(try migrate(.keep).isComplete)
    XCTAssertTrue(try migrate(.move).isComplete)
    XCTAssertEqual(try FolderTree(at: destination), tree)
    XCTAssertTrue(try FolderTree(at: source).isEmpty)
  }
}
