import CLinux
import Containers
import StorageErrors
import TestSupport
import XCTest

@testable import DocsEngine

/// The log of commits that goes before the database.
final class CommitLogTests: XCTestCase {
  private var folder: TemporaryFolder!
  override func setUpWithError() throws { folder = try TemporaryFolder() }
  override func tearDown() { folder = nil }

  private var paths: [String] { CommitLog.paths(folder.path) }

  private func payload(_ number: UInt64, size: Int = 100) -> [UInt8] {
    withUnsafeBytes(of: number) { Array($0) } + [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: size)
  }

  /// What a process after this one finds.
  private func found(after applied: UInt64) throws -> [UInt64] {
    var log = try CommitLog(directory: folder.path)
    return log.entries(after: applied).map { entry in
      XCTAssertEqual(entry.payload, payload(entry.sequence, size: entry.payload.count - 8))
      return entry.sequence
    }
  }

  private func write(_ count: UInt64, size: Int = 100) throws {
    var log = try CommitLog(directory: folder.path)
    for _ in 0..<count { XCTAssertNil(log.append(payload(log.sequence + 1, size: size))) }
  }

  func testWhatWasAppendedIsFoundFromWhereTheDatabaseEnds() throws {
    XCTAssertEqual(try found(after: 0), [])
    try write(5)
    XCTAssertEqual(try found(after: 0), [1, 2, 3, 4, 5])
    XCTAssertEqual(try found(after: 3), [4, 5])
    XCTAssertEqual(try found(after: 5), [])
  }

  /// Cut anywhere, or with any byte changed: what is before is found, nothing else, and nothing fails.
  func testATornCommitEndsTheLog() throws {
    try write(3)
    let whole = try Sys.contents(paths[0])
    let size = whole.count / 3
    for cut in 0..<whole.count {
      try Sys.put(paths[0], Array(whole.prefix(cut)))
      XCTAssertEqual(try found(after: 0), [1, 2, 3].filter { Int($0) * size <= cut }, "cut at \(cut)")
    }
    for index in 0..<whole.count {
      var bytes = whole
      bytes[index] ^= 0x40
      try Sys.put(paths[0], bytes)
      XCTAssertEqual(try found(after: 0), [1, 2, 3].filter { Int($0) * size <= index }, "changed at \(index)")
    }
  }

  func testTheFilesTakeTurns() throws {
    var log = try CommitLog(directory: folder.path)
    let size = 1 << 20
    var retired: [UInt64] = []
    for _ in 0..<40 {
      XCTAssertNil(log.append(payload(log.sequence + 1, size: size)))
      log.retireIfFull()
      if let last = log.retired {
        retired.append(last)
        XCTAssertEqual(try found(after: last), Array(last..<log.sequence).map { $0 + 1 }, "nothing is lost in between")
        log.reuse()
      }
    }
    XCTAssertGreaterThan(retired.count, 4)
    let last = retired.last ?? 0
    XCTAssertEqual(try found(after: last), Array(last..<log.sequence).map { $0 + 1 })
    for path in paths { XCTAssertLessThan(try Sys.size(path), Int64(7 * size), "what the database has is used again") }
  }

  func testAFullFileWaitsForTheDatabase() throws {
    var log = try CommitLog(directory: folder.path)
    for _ in 0..<30 {
      XCTAssertNil(log.append(payload(log.sequence + 1, size: 1 << 20)))
      log.retireIfFull()
    }
    XCTAssertEqual(try found(after: 0), (1...30).map { $0 }, "not one is written over")
  }

  /// After power loss a file may lack its end while the next one is whole.
  func testWhatFollowsAGapIsNotReplayed() throws {
    var log = try CommitLog(directory: folder.path)
    while log.retired == nil {
      XCTAssertNil(log.append(payload(log.sequence + 1, size: 1 << 20)))
      log.retireIfFull()
    }
    let last = log.sequence
    for _ in 0..<3 { XCTAssertNil(log.append(payload(log.sequence + 1))) }
    XCTAssertEqual(try found(after: 0).last, last + 3)
    try Sys.truncate(paths[0], try Sys.size(paths[0]) - 10)
    XCTAssertEqual(try found(after: 0), (1..<last).map { $0 })
  }

  // MARK: With the database

  func testCommitsThatTheDatabaseLacksAreReplayed() throws {
    let left = try TemporaryFolder()
    let catalog = try SampleCatalog.make(folder.path)
    try catalog.flush()
    let database = try Sys.contents(folder.path + "/catalog.db"),
      wal = try Sys.contents(folder.path + "/catalog.db-wal")
    var changed = SampleItems.record(4, "renamed.txt", flags: .whole)
    for size in Int64(1)...50 {
      changed.size = size
      XCTAssertNil(catalog.commit(CatalogChanges(records: [changed], facts: ["nextItem": size])))
    }
    XCTAssertNil(catalog.commit(CatalogChanges(removed: [ItemID(3)])))
    // The database as it was before, the log as it is now: a process that was killed.
    try Sys.put(left.path + "/catalog.db", database)
    try Sys.put(left.path + "/catalog.db-wal", wal)
    for (from, to) in zip(paths, CommitLog.paths(left.path)) { try Sys.put(to, try Sys.contents(from)) }
    for _ in 1...2 {
      let next = try Catalog(directory: left.path)
      XCTAssertEqual(try next.record(ItemID(4)), changed)
      XCTAssertNil(try next.record(ItemID(3)))
      XCTAssertEqual(try next.facts()["nextItem"], 50)
      next.close()
    }
    catalog.close()
  }

  /// What is committed after a gap is found by the next process, although what lay behind the gap is not.
  func testCommitsGoOnBehindAGap() throws {
    let catalog = try Catalog(directory: folder.path)
    for number in UInt64(2)...7 {
      XCTAssertNil(catalog.commit(CatalogChanges(records: [SampleItems.record(number, "f\(number)")])))
    }
    try catalog.flush()
    let image = try TemporaryFolder()
    let whole = try Sys.contents(paths[0])
    catalog.close()
    // Of six commits the first two and the last two are left, in two files, and nothing in the database.
    let size = whole.count / 6
    try Sys.put(CommitLog.paths(image.path)[0], Array(whole.prefix(2 * size)))
    try Sys.put(CommitLog.paths(image.path)[1], Array(whole.suffix(2 * size)))
    let next = try Catalog(directory: image.path)
    XCTAssertEqual(try next.totals().items, 2)
    XCTAssertNil(next.commit(CatalogChanges(records: [SampleItems.record(9, "new")])))
    let last = try TemporaryFolder()
    for name in ["catalog.log1", "catalog.log2", "catalog.db", "catalog.db-wal"] {
      try Sys.put(last.path + "/" + name, try Sys.contents(image.path + "/" + name))
    }
    next.close()
    let found = try Catalog(directory: last.path)
    XCTAssertNotNil(try found.record(ItemID(9)))
    found.close()
  }

  /// A thread that was left to itself may come after the end: it is refused, not held.
  func testReadsAfterTheEndAreRefused() throws {
    let catalog = try Catalog(directory: folder.path)
    catalog.close()
    XCTAssertNil(catalog.commit(CatalogChanges(records: [SampleItems.record(2, "late")])))
    XCTAssertThrowsError(try catalog.totals()) { XCTAssertEqual($0 as? Errno, .EIO) }
    let next = try Catalog(directory: folder.path)
    XCTAssertEqual(try next.totals().items, 1, "and what it committed is there")
    next.close()
  }

  func testReadsSeeWhatWasCommitted() throws {
    let catalog = try Catalog(directory: folder.path)
    defer { catalog.close() }
    for number in UInt64(2)..<200 {
      XCTAssertNil(catalog.commit(CatalogChanges(records: [SampleItems.record(number, "f\(number)")])))
      if number % 20 == 0 { XCTAssertEqual(try catalog.totals().items, Int(number) - 1) }
    }
  }
}
