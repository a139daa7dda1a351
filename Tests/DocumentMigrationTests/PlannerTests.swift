import Foundation
import StorageErrors
import TestSupport
import XCTest

@testable import DocumentMigration

/// The planner, over listings that no disk has seen.
final class PlannerTests: XCTestCase {
  private func entry(
    _ path: String, size: Int64 = 10, _ kind: FileStatus.Kind = .file, modified: Int64 = 1, placeholder: Bool = false
  ) -> Listing.Entry {
    var status = FileStatus(stat())
    status.kind = kind
    status.size = size
    status.allocated = size
    status.modified = modified
    status.links = 1
    return Listing.Entry(path: DocumentPath(path), status: status, isPlaceholder: placeholder)
  }

  private func plan(
    _ source: [Listing.Entry], _ destination: [Listing.Entry] = [], _ policy: Migration.ConflictPolicy = .fail
  ) -> MigrationPlan {
    var options = Migration.Options(.move)
    options.onConflict = policy
    return Planner(options: options).plan(Listing(entries: source), onto: Listing(entries: destination))
  }

  func testCounts() {
    let plan = plan([
      entry("d", .folder), entry("d/a", size: 5), entry("d/b", size: 7, placeholder: true), entry("l", .symlink),
    ])
    XCTAssertEqual(plan.files, .init(items: 2, bytes: 12))
    XCTAssertEqual(plan.toMaterialize, .init(items: 1, bytes: 7))
    XCTAssertEqual([plan.folders, plan.symlinks], [1, 1])
    XCTAssertEqual(plan.bytesNeeded, 12)
  }

  func testSparseFilesNeedWhatTheyHold() {
    var sparse = entry("s", size: 1 << 40)
    sparse.status.allocated = 4096
    XCTAssertEqual(plan([sparse]).bytesNeeded, 4096)
    // Of a placeholder nobody knows where its holes are.
    sparse.isPlaceholder = true
    XCTAssertEqual(plan([sparse]).bytesNeeded, 1 << 40)
  }

  func testCollisions() {
    let source = [entry("d", .folder), entry("d/a"), entry("x", .folder), entry("y")]
    let there = [entry("d", .folder), entry("d/a"), entry("x"), entry("y", size: 11)]
    let found = plan(source, there).collisions
    XCTAssertEqual(found.map(\.path.description), ["d/a", "x", "y"])
    XCTAssertEqual(found.map(\.mayBeTheSame), [true, false, false])
    XCTAssertTrue(found[1].outcome.contains("one side has a folder"), found[1].outcome)
  }

  func testPolicies() {
    let old = entry("a", modified: 1).status, new = entry("a", modified: 2).status
    XCTAssertEqual(Decision.onConflict(new, old, .fail), .refuse(.collision))
    XCTAssertEqual(Decision.onConflict(new, old, .newer), .replace(old.stamp))
    guard case .skip = Decision.onConflict(old, old, .newer), case .skip = Decision.onConflict(old, new, .newer) else {
      return XCTFail("as new is not newer")
    }
    XCTAssertEqual(Decision.onConflict(old, new, .replace), .replace(new.stamp))
    XCTAssertEqual(Decision.onConflict(old, new, .keepBoth), .keepBoth)
    let folder = entry("a", .folder).status
    for policy in Migration.ConflictPolicy.allCases where policy != .skip && policy != .keepBoth {
      XCTAssertEqual(Decision.onConflict(old, folder, policy), .refuse(.kindsDiffer), policy.rawValue)
      XCTAssertEqual(Decision.onConflict(folder, old, policy), .refuse(.kindsDiffer), policy.rawValue)
    }
  }

  func testNames() {
    let paths = [
      "a/Twin", "a/twin", "b/Twin", "か\u{3099}", "が", "what?", "con.txt", "ends.", "ends ", "fine", "a:b",
    ]
    let found = NameProblem.find(source: paths.map { DocumentPath($0) }, destination: [], longest: 255)
    func names(_ kind: NameProblem.Kind) -> Set<DocumentPath> { Set(found.filter { $0.kind == kind }.flatMap(\.paths)) }
    XCTAssertEqual(names(.caseTwins), Set(["a/Twin", "a/twin"].map { DocumentPath($0) }))
    XCTAssertEqual(names(.normalizationTwins), Set(["か\u{3099}", "が"].map { DocumentPath($0) }))
    XCTAssertEqual(names(.reservedCharacters), Set(["what?", "a:b"].map { DocumentPath($0) }))
    XCTAssertEqual(names(.reservedName), [DocumentPath("con.txt")])
    XCTAssertEqual(names(.trailingDotOrBlank), Set(["ends.", "ends "].map { DocumentPath($0) }))
    XCTAssertEqual(names(.tooLong), [])
  }

  func testATwinAtTheDestinationCounts() {
    let found = NameProblem.find(
      source: [DocumentPath("a")], destination: [DocumentPath("A"), DocumentPath("B"), DocumentPath("b")], longest: 255)
    XCTAssertEqual(found, [NameProblem(kind: .caseTwins, paths: [DocumentPath("A"), DocumentPath("a")])])
  }

  func testNamesThatAreNoTextOrTooLong() {
    let bad = DocumentPath([0x61, 0xff])
    let long = DocumentPath(String(repeating: "n", count: 144))
    let found = NameProblem.find(source: [bad, long], destination: [], longest: 143)
    XCTAssertEqual(found.map(\.kind), [.notText, .tooLong])
  }
}

final class DocumentPathTests: XCTestCase {
  func testAnyBytesSurviveJSON() throws {
    for bytes: [UInt8] in [[], Array("メモ/a".utf8), [0xff], [0x61, 0xe3, 0x81, 0x62], [0xe3, 0x81, 0x8b, 0xc3]] {
      let path = DocumentPath(bytes)
      let back = try JSONDecoder().decode([DocumentPath].self, from: JSONEncoder().encode([path]))
      XCTAssertEqual(back, [path])
    }
    let text = String(decoding: try JSONEncoder().encode(["メモ"].map { DocumentPath($0) }), as: UTF8.self)
    XCTAssertEqual(text, #"["メモ"]"#)
  }

  func testBothUnicodeFormsAreTwoPaths() {
    XCTAssertNotEqual(DocumentPath("が"), DocumentPath("か\u{3099}"))
  }

  func testAFolderComesBeforeWhatIsInIt() {
    let paths = ["a/b", "a", "a-b", "a/a"].map { DocumentPath($0) }
    XCTAssertEqual(paths.sorted { $0.precedesInTree($1) }.map(\.description), ["a", "a/a", "a/b", "a-b"])
  }

  func testParts() {
    XCTAssertEqual(DocumentPath("a/b/c").ancestors, [DocumentPath("a/b"), DocumentPath("a")])
    XCTAssertEqual(DocumentPath("/a").parent, DocumentPath("/"))
    XCTAssertEqual(DocumentPath("/a/b//").parent, DocumentPath("/a"))
    XCTAssertEqual(DocumentPath("//").parent, DocumentPath("//"))
    XCTAssertEqual(DocumentPath("a/").parent, .root)
    XCTAssertEqual(DocumentPath("a").renamed(Array("b".utf8)), DocumentPath("b"))
    XCTAssertFalse(DocumentPath("/ab").isWithin(DocumentPath("/a")))
  }

  func testANameForBothFits() {
    func make(_ name: String, _ number: Int) -> String {
      String(decoding: KeepBothName.make(Array(name.utf8), number, longest: 255), as: UTF8.self)
    }
    XCTAssertEqual(make("a.txt", 2), "a 2.txt")
    XCTAssertEqual(make(".hidden", 3), ".hidden 3")
    let family = "👩‍👩‍👧"
    let long = String(repeating: family, count: 13) + "abcd.txt"
    XCTAssertEqual(long.utf8.count, 242)
    let longer = String(repeating: family, count: 13) + "0123456789abc.txt"
    XCTAssertLessThanOrEqual(make(longer + "xxxx", 2).utf8.count, 255)
    let cut = make(String(repeating: family, count: 14) + ".t", 10)
    XCTAssertLessThanOrEqual(cut.utf8.count, 255)
    XCTAssertTrue(cut.hasPrefix(String(repeating: family, count: 13)), "no half of a character: \(cut)")
  }
}
