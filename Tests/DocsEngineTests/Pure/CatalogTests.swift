import CSQLite
import Containers
import Foundation
import StorageErrors
import TestSupport
import XCTest

@testable import DocsEngine

final class CatalogTests: XCTestCase {
  private var folder: TemporaryFolder!
  override func setUpWithError() throws { folder = try TemporaryFolder() }
  override func tearDown() { folder = nil }

  func testRecordsComeBackAsTheyWere() throws {
    let records = SampleCatalog.records
    let catalog = try Catalog(directory: folder.path)
    XCTAssertNil(catalog.commit(CatalogChanges(records: records)))
    for record in records { XCTAssertEqual(try catalog.record(record.id), record) }
    // And over what was there: nothing of the old row stays.
    for (old, new) in zip(records.dropFirst(), records.dropFirst().reversed()) {
      var changed = new
      changed.id = old.id
      XCTAssertNil(catalog.commit(CatalogChanges(records: [changed])))
      XCTAssertEqual(try catalog.record(old.id), changed)
    }
  }

  func testWhatIsAskedOfIt() throws {
    let catalog = try SampleCatalog.make(folder.path)
    let ids = { (records: [ItemRecord]) in records.map(\.id.rawValue).sorted() }
    XCTAssertEqual(ids(try catalog.children(.root)), [2, 3, 5, 6, 7, 8])
    XCTAssertEqual(try catalog.journal().map(\.id.rawValue), [7, 4, 6, 9, 10], "oldest first")
    XCTAssertEqual(ids(try catalog.pinned()), [2])
    XCTAssertEqual(ids(try catalog.records(identity: RemoteIdentity(Array("handle 5".utf8)))), [5])
    XCTAssertEqual(try catalog.listedFolders(), [.root, ItemID(2), ItemID(9)])
    XCTAssertEqual(ids(try catalog.evictable(limit: 10, after: 0)), [3, 5])
    XCTAssertEqual(try catalog.subtreeCount(.root), SampleCatalog.records.count)
    XCTAssertEqual(try catalog.contentNumbers(), [11, 12, 13, 14])
    let totals = try catalog.totals()
    XCTAssertEqual(totals.items, SampleCatalog.records.count)
    XCTAssertEqual([totals.bytes, totals.dirtyBytes], [4096 * 4, 4096 * 2])
    XCTAssertEqual(try catalog.facts()["nextItem"], 5000)
    XCTAssertEqual(try catalog.text("container"), SampleCatalog.container)
  }

  func testRemovedRowsAreGone() throws {
    let catalog = try SampleCatalog.make(folder.path)
    XCTAssertNil(catalog.commit(CatalogChanges(removed: [ItemID(4), ItemID(4711)])))
    XCTAssertNil(try catalog.record(ItemID(4)))
  }

  func testDamagedRowsArePassedOver() throws {
    let damages = [
      "name = x'2f'", "name = x''", "kind = 9", "size = -1", "xattrs = x'ffffffff'", "extents = x'00'",
      "job_name = x'2e2e'", "r_name = x'00'",
    ]
    for damage in damages {
      let folder = try TemporaryFolder()
      try SampleCatalog.make(folder.path).close()
      try Connection(path: folder.path + "/catalog.db", readOnly: false)
        .execute("UPDATE items SET r_parent = 1, r_version = x'01', r_size = 1, \(damage) WHERE id = 5")
      let catalog = try Catalog(directory: folder.path)
      XCTAssertNil(try catalog.record(ItemID(5)), damage)
      XCTAssertEqual(try catalog.children(.root).count, 5, damage)
    }
  }

  func testAFileThatIsNoDatabaseIsLeftAsItIs() throws {
    try folder.write("catalog.db", String(repeating: "no database ", count: 1000))
    XCTAssertThrowsError(try Catalog(directory: folder.path)) { error in
      XCTAssert("\(error)".contains("is damaged") && "\(error)".contains("docsfs doctor"), "\(error)")
    }
    XCTAssert(try folder.read("catalog.db").hasPrefix("no database"))
  }
}
