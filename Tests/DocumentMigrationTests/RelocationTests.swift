import Foundation
import StorageErrors
import TestSupport
import XCTest

@testable import DocumentMigration

/// A database that should not have been in Documents.
final class RelocationTests: MigrationTestCase {
  private var documents: String { home + "/Documents" }
  private var caches: String { home + "/Library/Caches" }

  override func setUpWithError() throws {
    try super.setUpWithError()
    try Sys.makeFolders(documents)
  }

  private func relocate(
    _ glob: String = "cafes.sqlite", _ policy: Migration.ConflictPolicy = .fail, excluding: Bool = false
  ) throws -> RelocationReport {
    var options = Relocation.Options()
    options.journal = DocumentPath(journal)
    options.onConflict = policy
    options.excludesFromBackup = excluding
    let rule = RelocationRule(glob: glob, folder: DocumentPath("Library/Caches"))
    return try Relocation(home: DocumentPath(home), rules: [rule], options: options).run()
  }

  private func putDatabase(_ folder: String, _ text: String, sidecars: [String] = ["-wal", "-shm"]) throws {
    try Sys.makeFolders(folder)
    for suffix in [""] + sidecars { try put(folder + "/cafes.sqlite" + suffix, text + suffix) }
  }

  /// The document's own test asked whether the file is executable, and moved at each launch if not.
  func testAtEachLaunchTheFirstMovesTheLaterOnesDoNothing() throws {
    for mode: mode_t in [0o644, 0o755] {
      try putDatabase(documents, "data")
      try Sys.setMode(documents + "/cafes.sqlite", mode)
      XCTAssertEqual(try relocate().units.map(\.outcome), [.relocated])
      let place = try Sys.info(caches + "/cafes.sqlite").st_ino, changed = try Sys.changed(caches + "/cafes.sqlite")
      for _ in 0..<3 {
        let report = try relocate()
        XCTAssertEqual(report.units.map(\.outcome), [.alreadyThere])
        XCTAssertTrue(report.isComplete)
      }
      XCTAssertEqual(try Sys.info(caches + "/cafes.sqlite").st_ino, place)
      XCTAssertEqual(try Sys.changed(caches + "/cafes.sqlite"), changed, "later launches do nothing")
      XCTAssertEqual(try Sys.mode(caches + "/cafes.sqlite"), mode)
      XCTAssertEqual(try Sys.names(caches), ["cafes.sqlite", "cafes.sqlite-shm", "cafes.sqlite-wal"])
      XCTAssertEqual(try Sys.names(documents), [])
      _ = Shell.run(["rm", "-r", caches, journal])
    }
  }

  func testPurgedIsNoSuccess() throws {
    try putDatabase(documents, "data")
    _ = try relocate("*.sqlite")
    _ = Shell.run(["rm", "-r", caches])
    for glob in ["*.sqlite", "cafes.sqlite"] {
      let report = try relocate(glob)
      XCTAssertEqual(report.units.map(\.outcome), [.toBeDownloadedAgain], glob)
      XCTAssertFalse(report.isComplete)
    }
  }

  func testARuleThatNeverMatchedAnything() throws {
    XCTAssertEqual(try relocate("*.sqlite").rulesWithoutMatch, ["*.sqlite"])
    XCTAssertEqual(try relocate("named.db").units.map(\.outcome), [.toBeDownloadedAgain])
  }

  func testBothPlacesHoldOne() throws {
    func prepare() throws {
      _ = Shell.run(["rm", "-rf", caches])
      try putDatabase(documents, "update")
      try putDatabase(caches, "older", sidecars: ["-journal"])
    }
    try prepare()
    XCTAssertEqual(try relocate().units.first?.category, .exists)
    XCTAssertEqual(try relocate("cafes.sqlite", .skip).units.map(\.outcome), [.skipped])
    XCTAssertEqual(try Sys.text(documents + "/cafes.sqlite"), "update")
    XCTAssertEqual(try Sys.text(caches + "/cafes.sqlite"), "older")

    XCTAssertEqual(try relocate("cafes.sqlite", .replace).units.map(\.outcome), [.relocated])
    XCTAssertEqual(
      try FolderTree(at: caches).nodes.keys.sorted().map(\.description),
      ["cafes.sqlite", "cafes.sqlite-shm", "cafes.sqlite-wal"], "another database's journal does not stay beside it")
    XCTAssertEqual(try Sys.text(caches + "/cafes.sqlite-wal"), "update-wal")

    try prepare()
    XCTAssertEqual(
      try relocate("cafes.sqlite", .keepBoth).units.first?.target, DocumentPath("Library/Caches/cafes 2.sqlite"))
    XCTAssertEqual(
      try Sys.names(caches),
      ["cafes 2.sqlite", "cafes 2.sqlite-shm", "cafes 2.sqlite-wal", "cafes.sqlite", "cafes.sqlite-journal"])
    XCTAssertEqual(try Sys.names(documents), [])
  }

  func testTheNewerUnitStays() throws {
    try putDatabase(documents, "old")
    try putDatabase(caches, "new")
    for name in try Sys.names(documents) {
      try Sys.setModified(documents + "/" + name, 1 * 1_000_000_000)
    }
    XCTAssertEqual(try relocate("*", .newer).units.map(\.outcome), [.skipped])
    // Of a database in use only the log is written.
    try put(documents + "/cafes.sqlite-wal", "written")
    XCTAssertEqual(try relocate("*", .newer).units.map(\.outcome), [.relocated])
    XCTAssertEqual(try Sys.text(caches + "/cafes.sqlite-wal"), "written")
  }

  func testOnlyWhatMatchesGoesAndFoldersAreKept() throws {
    try Sys.makeFolders(documents + "/maps/tokyo")
    for name in ["note.txt", "maps/index", "maps/tokyo/a.tile", "maps/tokyo/b.txt"] {
      try put(documents + "/" + name, name)
    }
    XCTAssertEqual(try relocate("*.tile").units.map(\.path.description), ["maps/tokyo/a.tile"])
    XCTAssertEqual(try Sys.text(caches + "/maps/tokyo/a.tile"), "maps/tokyo/a.tile")
    XCTAssertEqual(try relocate("maps/tokyo").units.map(\.outcome), [.alreadyThere, .relocated])
    XCTAssertEqual(try relocate("maps").count(.relocated), 1)
    XCTAssertEqual(try FolderTree(at: documents).documents.nodes.keys.map(\.description), ["note.txt"])
  }

  func testRules() {
    func rule(_ text: String) -> RelocationRule? { RelocationRule(Array(text.utf8)) }
    XCTAssertEqual(rule("a=b=Library/Caches")?.glob, "a=b")
    XCTAssertEqual(rule("a=./Library//Caches/")?.folder, DocumentPath("Library/Caches"))
    for bad in ["a", "=x", "a=", "a=/tmp", "a=../x", "a=Documents", "a=Documents/x"] { XCTAssertNil(rule(bad), bad) }
    func matches(_ glob: String, _ path: String) -> Bool {
      RelocationRule(glob: glob, folder: DocumentPath("x")).matches(DocumentPath(path))
    }
    XCTAssertTrue(matches("*.db", "a/b.db"))
    XCTAssertFalse(matches("a/*.db", "a/b/c.db"))
    XCTAssertTrue(matches("a/*", "a/b/c.db"), "a folder stands for what is in it")
    XCTAssertTrue(matches("カフェ*", "カフェ.sqlite"))
  }

  func testExcludedFromBackupInsteadOfMoved() throws {
    try putDatabase(documents, "data")
    for _ in 0..<2 { XCTAssertEqual(try relocate(excluding: true).units.map(\.outcome), [.excludedFromBackup]) }
    for name in try Sys.names(documents) {
      XCTAssertEqual(try Sys.xattrText(documents + "/" + name, "user.xdg.robots.backup"), "false", name)
    }
    XCTAssertEqual(try Sys.names(documents).count, 3)
    XCTAssertFalse(Sys.exists(caches))
  }

  func testAnInterruptedReleaseIsFinished() throws {
    try putDatabase(documents, "data")
    var options = Relocation.Options()
    options.journal = DocumentPath(journal)
    let rule = RelocationRule(glob: "cafes.sqlite", folder: DocumentPath("Library/Caches"))
    _ = try Relocation(home: DocumentPath(home), rules: [rule], options: options).run()
    // As after a kill that came when the database was gone here and its sidecars were not; the app went on there.
    try put(documents + "/cafes.sqlite-wal", "stale")
    try Sys.remove(caches + "/cafes.sqlite-wal")
    XCTAssertEqual(try relocate().units.map(\.outcome), [.relocated])
    XCTAssertEqual(try Sys.names(documents), [])
    XCTAssertEqual(try Sys.names(caches), ["cafes.sqlite", "cafes.sqlite-shm"])
  }

  func testCachesMayBeALink() throws {
    try putDatabase(documents, "data")
    try Sys.makeFolders(home + "/elsewhere")
    try Sys.makeFolders(home + "/Library")
    try Sys.symlink("../elsewhere", at: caches)
    for outcome in [UnitReport.Outcome.relocated, .alreadyThere] {
      XCTAssertEqual(try relocate().units.map(\.outcome), [outcome])
    }
    XCTAssertEqual(try Sys.names(home + "/elsewhere"), ["cafes.sqlite", "cafes.sqlite-shm", "cafes.sqlite-wal"])
  }

  func testSidecarsWithoutAnyDatabaseAreToldOf() throws {
    try put(documents + "/cafes.sqlite-wal", "alone")
    XCTAssertEqual(try relocate().units.first?.category, .notFound)
    XCTAssertEqual(try Sys.names(documents), ["cafes.sqlite-wal"])
  }

  // MARK: Audit

  func testAudit() throws {
    let real = Array("SQLite format 3\0".utf8) + [UInt8](repeating: 0, count: 4080)
    try Sys.put(documents + "/places", real)
    try put(documents + "/places-wal", "log")
    try put(documents + "/note.txt", "mine")
    try Sys.put(documents + "/film.mp4", [UInt8](repeating: 1, count: 100_000))
    try Sys.makeFolders(documents + "/Thumbnails")
    try put(documents + "/Thumbnails/1.jpg", "x")
    let report = try Audit(home: DocumentPath(home)).run()
    XCTAssertEqual(report.findings.map(\.path.description), ["film.mp4", "places", "Thumbnails/1.jpg"], "by size")
    XCTAssertEqual(report.findings.map(\.kind), [.media, .database, .cache])
    XCTAssertEqual(report.findings[1].files, 2)
    XCTAssertEqual(report.findings[1].bytes, 4096 + 3)
    XCTAssertEqual(report.totalFiles, 5)
    _ = try relocate("places", excluding: true)
    XCTAssertEqual(try Audit(home: DocumentPath(home)).run().bytesInBackup, 100_001)
  }
}
