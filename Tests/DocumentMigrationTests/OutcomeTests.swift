import Foundation
import StorageErrors
import TestSupport
import XCTest

@testable import DocumentMigration

/// docs/MIGRATION.md's table, document by document: content, name, source and line of the report.
final class OutcomeTests: AcrossFileSystems {
  func testATreeIsMoved() throws {
    let tree = FolderTree.documents()
    try tree.write(to: source)
    let report = try migrate(.move)
    XCTAssertTrue(report.isComplete)
    XCTAssertEqual(report.count(.moved), tree.documents.nodes.count)
    XCTAssertEqual(try FolderTree(at: destination), tree)
    XCTAssertTrue(try FolderTree(at: source).isEmpty)
    XCTAssertEqual(try Sys.names(journal).filter { $0.hasSuffix(".journal") }, [], "nothing is left to resume")
  }

  func testATreeIsCopied() throws {
    let tree = FolderTree.documents()
    try tree.write(to: source)
    let before = try stamps(source)
    XCTAssertEqual(try migrate(.keep).count(.copied), tree.documents.nodes.count)
    XCTAssertEqual(try FolderTree(at: destination), tree)
    XCTAssertEqual(try stamps(source), before, "nothing at the source is touched")
    let copied = try stamps(destination)
    XCTAssertEqual(try migrate(.keep).count(.alreadyThere), tree.documents.nodes.count)
    XCTAssertEqual(try stamps(destination), copied, "the second run writes nothing")
  }

  private func stamps(_ folder: String) throws -> [DocumentPath: [Int]] {
    var result: [DocumentPath: [Int]] = [:]
    for path in try FolderTree(at: folder).nodes.keys {
      let place = folder + "/" + String(decoding: path.bytes, as: UTF8.self)
      let inode = Int(try Sys.info(place).st_ino)
      result[path] = [inode, try Sys.modified(place), try Sys.changed(place), Int(try Sys.size(place))]
    }
    return result
  }

  func testAttributes() throws {
    try Sys.makeFolder(source + "/d", mode: 0o750)
    try Sys.put(source + "/d/f", Array("x".utf8))
    try Sys.setMode(source + "/d/f", 0o2640)
    try Sys.symlink("f", at: source + "/d/l")
    try Sys.setXattr(source + "/d/f", "user.colour", Array("red".utf8))
    try Sys.setXattr(source + "/d", "user.label", Array("blue".utf8))
    try Sys.setXattr(source + "/d/f", "user.large", patterned(3_000, seed: 1))
    let time = 1_000_000_000_123_456_789
    for name in ["d/f", "d/l", "d"] { try Sys.setModified(source + "/" + name, time) }
    try migrate(.move)
    XCTAssertEqual(try Sys.mode(destination + "/d/f"), 0o2640)
    XCTAssertEqual(try Sys.mode(destination + "/d"), 0o750)
    XCTAssertEqual(try Sys.xattrText(destination + "/d/f", "user.colour"), "red")
    XCTAssertEqual(try Sys.xattrText(destination + "/d", "user.label"), "blue")
    XCTAssertEqual(try Sys.xattr(destination + "/d/f", "user.large"), patterned(3_000, seed: 1))
    for name in ["d/f", "d/l", "d"] {
      XCTAssertEqual(try Sys.modified(destination + "/" + name), time, name)
    }
  }

  func testASparseFileStaysSparse() throws {
    let file = try OpenFile(source + "/sparse", O_WRONLY | O_CREAT)
    try file.truncate(64 << 20)
    try file.write("in the middle", at: 32 << 20)
    try file.close()
    let bytes = try Sys.contents(source + "/sparse")
    try migrate(.move)
    XCTAssertEqual(try Sys.contents(destination + "/sparse"), bytes)
    XCTAssertLessThan(Int(try Sys.info(destination + "/sparse").st_blocks) * 512, 1 << 20)
  }

  func testEachHardLinkBecomesAFileOfItsOwn() throws {
    try put(source + "/a", "shared")
    try Sys.link(source + "/a", source + "/b")
    XCTAssertEqual(try migration(options(.move)).plan().hardLinked, 2)
    XCTAssertEqual(try migrate(.move).count(.moved), 2)
    XCTAssertEqual(try Sys.text(destination + "/a"), "shared")
    XCTAssertEqual(try Sys.text(destination + "/b"), "shared")
    XCTAssertNotEqual(try Sys.info(destination + "/a").st_ino, try Sys.info(destination + "/b").st_ino)
  }

  func testWhatIsNoDocumentStays() throws {
    try Sys.makeNode(source + "/pipe", mode: mode_t(S_IFIFO) | 0o644)
    try put(source + "/f", "x")
    let report = try migrate(.move)
    let pipe = try outcome(report, "pipe")
    XCTAssertEqual(pipe.outcome, .failed)
    XCTAssertEqual(pipe.category, .unsupported)
    XCTAssertEqual(try Sys.names(source), ["pipe"])
    XCTAssertEqual(try Sys.names(destination), ["f"])
  }

  func testAFolderWithWhatStaysStays() throws {
    try Sys.makeFolder(source + "/d")
    try Sys.makeNode(source + "/d/pipe", mode: mode_t(S_IFIFO) | 0o644)
    try put(source + "/d/f", "x")
    try migrate(.move)
    XCTAssertEqual(try FolderTree(at: source).nodes.keys.map(\.description).sorted(), ["d", "d/pipe"])
  }

  // MARK: Files that change

  /// Appends to the file right before its `step`, as often as it is told to.
  private func growing(_ name: String, before step: String, times: Int) -> Migration.Options {
    var options = options(.move)
    let file = source + "/" + name
    let left = Counter(times)
    options.crashPoint = { now, path in
      guard now == step, path == DocumentPath(name), left.take() else { return }
      if let out = try? OpenFile(file, O_WRONLY | O_APPEND) { try? out.write("more") }
    }
    return options
  }

  func testAFileThatGrowsOnceIsCopiedAgain() throws {
    for step in ["copy", "verify", "place", "release"] {
      try put(source + "/log", "begin")
      let report = try migration(growing("log", before: step, times: 1)).run()
      XCTAssertEqual(try outcome(report, "log").outcome, .moved, step)
      XCTAssertEqual(try Sys.text(destination + "/log"), "beginmore", step)
      XCTAssertFalse(Sys.exists(source + "/log"), step)
      try Sys.remove(destination + "/log")
      try assertNothingTemporary()
    }
  }

  func testAFileThatNeverStopsGrowingStays() throws {
    try put(source + "/log", "begin")
    try put(source + "/other", "x")
    let report = try migration(growing("log", before: "place", times: 1000)).run()
    let log = try outcome(report, "log")
    XCTAssertEqual(log.outcome, .failed)
    XCTAssertEqual(log.category, .busy)
    XCTAssertTrue(log.reason?.contains("changes while it is copied") == true, log.reason ?? "")
    XCTAssertTrue(try Sys.text(source + "/log").hasPrefix("beginmore"))
    XCTAssertEqual(try Sys.names(destination), ["other"], "no half of it")
    XCTAssertEqual(try migrate(.move).count(.moved), 1, "later it is quiet")
    XCTAssertTrue(try Sys.text(destination + "/log").hasPrefix("beginmore"))
  }

  func testAFileThatIsOpenForWritingIsCopiedAndStays() throws {
    try put(source + "/f", "open")
    let holder = try OpenFile(source + "/f", O_WRONLY | O_APPEND)
    let report = try migrate(.move)
    XCTAssertEqual(try outcome(report, "f").outcome, .failed)
    XCTAssertEqual(try outcome(report, "f").category, .busy)
    XCTAssertTrue(Sys.exists(source + "/f"))
    try holder.write(" and changed")
    try holder.close()
    XCTAssertEqual(try outcome(try migrate(.move), "f").outcome, .moved)
    XCTAssertEqual(try Sys.text(destination + "/f"), "open and changed", "our own copy of before is no conflict")
    XCTAssertFalse(Sys.exists(source + "/f"))
  }

  func testAFileThatIsShortenedWhileItIsReadIsNoHalfDocument() throws {
    var options = options(.move)
    let file = source + "/f"
    try Sys.put(file, patterned(3 << 20, seed: 1))
    let left = Counter(1)
    options.crashPoint = { step, _ in
      if step == "copy", left.take() { try? Sys.truncate(file, 1 << 20) }
    }
    XCTAssertEqual(try migration(options).run().count(.moved), 1)
    XCTAssertEqual(try Sys.contents(destination + "/f"), Array(patterned(3 << 20, seed: 1).prefix(1 << 20)))
  }

  // MARK: Two at a time

  /// Runs `other` once, when `migration` has come to `step`. Its report, and what came of the other.
  private func run(
    _ options: Migration.Options, at step: String, _ other: Migration
  ) throws -> (MigrationReport, Result<MigrationReport, any Error>?) {
    var options = options
    let left = Counter(1)
    let result = Locked<Result<MigrationReport, any Error>?>(nil)
    options.crashPoint = { now, _ in
      guard now == step, left.take() else { return }
      let report = Result { try other.run() }
      result.update { $0 = report }
    }
    return (try migration(options).run(), result.update { $0 })
  }

  /// Both would find the document at the other side, and let their own go.
  func testThereAndBackAtATime() throws {
    for folder in [source, destination] { try put(folder + "/f", "the same") }
    let back = Migration(source: DocumentPath(destination), destination: DocumentPath(source), options: options(.move))
    let (report, other) = try run(options(.move), at: "release", back)
    XCTAssertTrue(report.isComplete)
    XCTAssertThrowsError(try XCTUnwrap(other).get()) { XCTAssertEqual(($0 as? MigrationError)?.kind, .busy) }
    XCTAssertEqual(try Sys.names(source), [])
    XCTAssertEqual(try Sys.text(destination + "/f"), "the same")
  }

  /// Neither knows of the other, as when two users run them.
  func testTwoOfTheSameFoldersWithJournalsOfTheirOwn() throws {
    let tree = FolderTree.documents()
    for disposition in [Migration.Disposition.keep, .move] {
      for step in ["copy", "attributes", "verify", "place", "syncFolder", "release"] {
        try tree.write(to: source)
        var options = options(disposition)
        options.jobs = 1
        var others = options
        others.journal = DocumentPath(home + "/another journal")
        let other = Migration(source: DocumentPath(source), destination: DocumentPath(destination), options: others)
        let (first, second) = try run(options, at: step, other)
        let all = try first.files + XCTUnwrap(second).get().files
        // What the other took away meanwhile is no longer there to be moved.
        let failed = all.filter { $0.outcome == .failed && !(disposition == .move && $0.category == .notFound) }
        XCTAssertEqual(failed.compactMap(\.reason), [], "\(disposition) \(step)")
        XCTAssertEqual(try FolderTree(at: destination), tree, "\(disposition) \(step)")
        XCTAssertEqual(try FolderTree(at: source), disposition == .move ? FolderTree() : tree, "\(disposition) \(step)")
        for folder in [source, destination, journal, home + "/another journal"] {
          _ = Shell.run(["rm", "-rf", folder])
        }
        for folder in [source, destination] { try Sys.makeFolders(folder) }
      }
    }
  }

  // MARK: Names that are taken

  private func collide(_ policy: Migration.ConflictPolicy, here: String = "here", there: String = "there") throws
    -> FileReport
  {
    for name in try Sys.names(destination) { try Sys.remove(destination + "/" + name) }
    try put(source + "/a.txt", here)
    try put(destination + "/a.txt", there)
    return try outcome(try migrate(.move, policy), "a.txt")
  }

  func testEqualDocumentsAreNoConflict() throws {
    for policy in Migration.ConflictPolicy.allCases {
      XCTAssertEqual(try collide(policy, here: "same", there: "same").outcome, .alreadyThere, policy.rawValue)
      XCTAssertFalse(Sys.exists(source + "/a.txt"))
      XCTAssertEqual(try Sys.names(destination), ["a.txt"])
    }
  }

  func testDifferentOnes() throws {
    let failed = try collide(.fail)
    XCTAssertEqual(failed.outcome, .failed)
    XCTAssertEqual(failed.category, .exists)
    XCTAssertEqual(try collide(.skip).outcome, .skipped)
    XCTAssertEqual(try Sys.text(source + "/a.txt"), "here")
    XCTAssertEqual(try Sys.text(destination + "/a.txt"), "there")

    XCTAssertEqual(try collide(.replace).outcome, .moved)
    XCTAssertEqual(try Sys.text(destination + "/a.txt"), "here")
    XCTAssertFalse(Sys.exists(source + "/a.txt"))

    let both = try collide(.keepBoth)
    XCTAssertEqual(both.outcome, .moved)
    XCTAssertEqual(both.target, DocumentPath("a 2.txt"))
    XCTAssertEqual(try Sys.text(destination + "/a.txt"), "there")
    XCTAssertEqual(try Sys.text(destination + "/a 2.txt"), "here")
  }

  func testTheNewerOneStays() throws {
    for (here, outcome, text) in [
      (2, FileReport.Outcome.moved, "here"), (1, .skipped, "there"), (0, .skipped, "there"),
    ] {
      try put(source + "/a", "here")
      try put(destination + "/a", "there")
      try Sys.setModified(source + "/a", here * 1_000_000_000)
      try Sys.setModified(destination + "/a", 1 * 1_000_000_000)
      XCTAssertEqual(try self.outcome(try migrate(.move, .newer), "a").outcome, outcome)
      XCTAssertEqual(try Sys.text(destination + "/a"), text)
      XCTAssertEqual(Sys.exists(source + "/a"), outcome == .skipped)
    }
  }

  func testKeepBothAgainAndAgainMakesNoDuplicate() throws {
    try put(source + "/a.txt", "here")
    try put(destination + "/a.txt", "there")
    for _ in 0..<3 { XCTAssertTrue(try migrate(.keep, .keepBoth).isComplete) }
    XCTAssertEqual(try Sys.names(destination), ["a 2.txt", "a.txt"])
    // Nor when the journal is lost.
    _ = Shell.run(["rm", "-r", journal])
    XCTAssertTrue(try migrate(.keep, .keepBoth).isComplete)
    XCTAssertEqual(try Sys.names(destination), ["a 2.txt", "a.txt"])
  }

  func testAFolderAndAFileOfOneName() throws {
    try Sys.makeFolder(source + "/x")
    try put(source + "/x/f", "below")
    try put(destination + "/x", "a file")
    for policy in Migration.ConflictPolicy.allCases {
      let report = try migrate(.move, policy)
      XCTAssertEqual(try outcome(report, "x/f").outcome, policy == .skip ? .skipped : .failed, policy.rawValue)
      XCTAssertEqual(try Sys.text(source + "/x/f"), "below")
      XCTAssertEqual(try Sys.text(destination + "/x"), "a file")
    }
  }

  func testAFolderIsNeverReplacedByAFile() throws {
    try put(source + "/x", "a file")
    try Sys.makeFolder(destination + "/x")
    XCTAssertEqual(try outcome(try migrate(.move, .replace), "x").outcome, .failed)
    XCTAssertEqual(try outcome(try migrate(.move, .replace), "x").category, .wrongKind)
    XCTAssertEqual(try outcome(try migrate(.move, .keepBoth), "x").target, DocumentPath("x 2"))
  }

  func testALinkAtTheDestinationIsNotFollowed() throws {
    try Sys.makeFolder(source + "/x")
    try put(source + "/x/f", "below")
    try Sys.makeFolder(home + "/elsewhere")
    try Sys.symlink(home + "/elsewhere", at: destination + "/x")
    XCTAssertEqual(try outcome(try migrate(.move), "x").outcome, .failed)
    XCTAssertEqual(try Sys.names(home + "/elsewhere"), [])
  }

  // MARK: What a failed copy of before left

  func testAHalfFileOfAnotherProgramIsNotTakenForTheDocument() throws {
    let bytes = patterned(200_000, seed: 3)
    try Sys.put(source + "/movie", bytes)
    try Sys.put(destination + "/movie", Array(bytes.prefix(70_000)))
    let report = try outcome(try migrate(.move), "movie")
    XCTAssertEqual(report.outcome, .failed, "Foundation's copy would have passed over it as existing")
    XCTAssertEqual(try Sys.contents(source + "/movie"), bytes)
    XCTAssertEqual(try outcome(try migrate(.move, .replace), "movie").outcome, .moved)
    XCTAssertEqual(try Sys.contents(destination + "/movie"), bytes)
  }

  func testTemporaryFilesOfOthersAreNoDocuments() throws {
    let name = ".docsfs-migrate-0123456789abcdef"
    try put(source + "/" + name, "half")
    let report = try outcome(try migrate(.move), name)
    XCTAssertEqual(report.outcome, .failed)
    XCTAssertTrue(report.reason?.contains("temporary file") == true)
    XCTAssertEqual(try Sys.names(destination), [])
    try put(destination + "/" + name, "half")
    XCTAssertEqual(try migration(options(.move)).plan().leftovers, [DocumentPath(name)])
    XCTAssertEqual(try Sys.text(destination + "/" + name), "half", "somebody else's is not ours to remove")
  }

  // MARK: Stubs

  func testAStubOfADeviceIsRefused() throws {
    let content = try PropertyListSerialization.data(
      fromPropertyList: ["NSURLNameKey": "a.pdf", "NSURLFileSizeKey": 70_000], format: .binary, options: 0)
    try Sys.put(source + "/.a.pdf.icloud", Array(content))
    try put(source + "/.broken.icloud", "")
    let report = try migrate(.keep)
    XCTAssertEqual(try outcome(report, ".a.pdf.icloud").category, .notMaterialized)
    XCTAssertTrue(try outcome(report, ".a.pdf.icloud").reason?.contains("the stub of a.pdf") == true)
    XCTAssertEqual(try outcome(report, ".broken.icloud").category, .corrupt)
    XCTAssertEqual(try Sys.names(destination), [])
  }

  func testAStubBesideItsDocumentIsPassedOver() throws {
    let content = try PropertyListSerialization.data(
      fromPropertyList: ["NSURLNameKey": "a.pdf"], format: .xml, options: 0)
    try Sys.put(source + "/.a.pdf.icloud", Array(content))
    try put(source + "/a.pdf", "here")
    XCTAssertTrue(try migrate(.keep).isComplete)
    XCTAssertEqual(try Sys.names(destination), ["a.pdf"])
  }
}

/// Counts down, from any thread.
final class Counter: Sendable {
  private let left: Locked<Int>
  init(_ count: Int) { left = Locked(count) }
  /// Whether there was one left to take.
  func take() -> Bool {
    left.update { left in
      left -= 1
      return left >= 0
    }
  }
}
