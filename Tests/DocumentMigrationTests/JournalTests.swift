import StorageErrors
import TestSupport
import XCTest

@testable import DocumentMigration

final class JournalTests: MigrationTestCase {
  private func open(_ keeping: ([Int]) -> [Int] = { $0 }) throws(MigrationError) -> Journal<Int> {
    try Journal("j", in: DocumentPath(journal), keeping: keeping)
  }

  func testWhatWasAppendedIsThere() throws {
    do {
      let journal = try open()
      for number in 1...5 { try journal.append(number, durable: number % 2 == 0) }
    }
    var found: [Int] = []
    _ = try open {
      found = $0; return [4, 5]
    }
    XCTAssertEqual(found, [1, 2, 3, 4, 5])
    XCTAssertEqual(try Sys.text(journal + "/j.journal"), "4\n5\n", "only what counts is kept")
  }

  func testALineCutOffByAKillSaysNothing() throws {
    do { try open().append(1) }
    let file = try OpenFile(journal + "/j.journal", O_WRONLY | O_APPEND)
    try file.write("{\"beg")
    var found: [Int] = []
    _ = try open {
      found = $0; return $0
    }
    XCTAssertEqual(found, [1])
  }

  func testOneAtATime() throws {
    let first = try open()
    XCTAssertThrowsError(try open()) { XCTAssertEqual(($0 as? MigrationError)?.kind, .busy) }
    try withExtendedLifetime(first) { try first.append(1) }
  }

  func testJournalsOfOneLockKeepEachOtherOut() throws {
    let folder = DocumentPath(journal)
    let first = try Journal<Int>("there", lock: "both", in: folder, keeping: { $0 })
    XCTAssertThrowsError(try Journal<Int>("back", lock: "both", in: folder, keeping: { $0 })) {
      XCTAssertEqual(($0 as? MigrationError)?.kind, .busy)
    }
    first.unlock()
    XCTAssertNoThrow(try Journal<Int>("back", lock: "both", in: folder, keeping: { $0 }))
  }

  func testManyThreadsAppendWholeLines() throws {
    do {
      let journal = try open()
      onThreads(8) { thread in for number in 0..<50 { try? journal.append(thread * 100 + number, durable: true) } }
      journal.unlock()
    }
    var found: [Int] = []
    _ = try open {
      found = $0; return $0
    }
    XCTAssertEqual(found.sorted(), (0..<8).flatMap { t in (0..<50).map { t * 100 + $0 } })
  }

  func testItIsNobodyElsesToRead() throws {
    _ = try open()
    XCTAssertEqual(try Sys.mode(journal), 0o700)
    XCTAssertEqual(try Sys.mode(journal + "/j.journal"), 0o600)
  }

  func testAFolderThatCannotBeMadeIsALine() throws {
    try put(home + "/file", "x")
    XCTAssertThrowsError(try Journal<Int>("j", in: DocumentPath(home + "/file/below"), keeping: { $0 })) { error in
      XCTAssertEqual((error as? MigrationError)?.kind, .journal)
      XCTAssertTrue("\(error)".contains("--journal"), "\(error)")
    }
  }

  func testTheLedgerForgetsWhatIsDone() throws {
    let stamp = Stamp(inode: 1, size: 2, modified: 3, changed: 4)
    let (a, b, c) = (DocumentPath("a"), DocumentPath("b"), DocumentPath("c"))
    do {
      let ledger = try Ledger("m", in: DocumentPath(journal))
      for path in [a, b, c] {
        try ledger.note(.began(path: path, temporary: DocumentPath("t"), target: path, wasPlaceholder: path == b))
        if path != c { try ledger.note(.placed(path: path, target: path, source: stamp, destination: stamp)) }
      }
      try ledger.note(.released(path: a, kept: false))
      try ledger.note(.released(path: b, kept: true))
    }
    let ledger = try Ledger("m", in: DocumentPath(journal))
    XCTAssertEqual(ledger[a], Ledger.Document())
    XCTAssertTrue(ledger[b].isReleased)
    XCTAssertEqual(ledger[b].placed?.source, stamp)
    XCTAssertEqual(ledger.underWay.map(\.target), [c])
  }

  func testADocumentThatIsBroughtAnewIsReleasedAnew() throws {
    let stamp = Stamp(inode: 1, size: 2, modified: 3, changed: 4)
    let path = DocumentPath("a")
    func began(_ wasPlaceholder: Bool) -> MigrationRecord {
      .began(path: path, temporary: DocumentPath("t"), target: path, wasPlaceholder: wasPlaceholder)
    }
    do {
      let ledger = try Ledger("m", in: DocumentPath(journal))
      try ledger.note(began(false))
      try ledger.note(.placed(path: path, target: path, source: stamp, destination: stamp))
      try ledger.note(.released(path: path, kept: true))
      try ledger.note(began(true))
    }
    for _ in 0..<2 {
      let ledger = try Ledger("m", in: DocumentPath(journal))
      XCTAssertTrue(ledger[path].isUnderWay)
      XCTAssertFalse(ledger[path].isReleased, "it is still to be evicted")
      XCTAssertEqual(ledger[path].begun?.wasPlaceholder, true)
      XCTAssertEqual(ledger[path].placed?.source, stamp)
    }
  }
}
