import CSQLite
import Containers
import Foundation
import TestSupport
import XCTest

@testable import DocsEngine

final class SchemaTests: XCTestCase {
  private var folder: TemporaryFolder!
  override func setUpWithError() throws { folder = try TemporaryFolder() }
  override func tearDown() { folder = nil }

  private static let samples = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().appendingPathComponent("Samples")

  /// A copy of the catalog that a docsfs with `schema` left behind.
  private func openSample(_ schema: Int) throws -> Catalog {
    let sample = Self.samples.appendingPathComponent("catalog-\(schema).db")
    try FileManager.default.copyItem(at: sample, to: URL(fileURLWithPath: folder.path + "/catalog.db"))
    return try Catalog(directory: folder.path)
  }

  /// Each schema that was released has its sample: `DOCSFS_WRITE_SAMPLE=1` makes that of the newest, once.
  func testEverySchemaHasASample() throws {
    if ProcessInfo.processInfo.environment["DOCSFS_WRITE_SAMPLE"] == "1" {
      try SampleCatalog.make(folder.path).close()
      let sample = Self.samples.appendingPathComponent("catalog-\(Schema.steps.count).db")
      try FileManager.default.copyItem(at: URL(fileURLWithPath: folder.path + "/catalog.db"), to: sample)
    }
    for schema in 1...Schema.steps.count {
      let sample = Self.samples.appendingPathComponent("catalog-\(schema).db")
      XCTAssert(FileManager.default.fileExists(atPath: sample.path), sample.lastPathComponent)
    }
  }

  func testEveryRowOfTheFirstSchemaIsFound() throws {
    let catalog = try openSample(1)
    for record in SampleCatalog.records { XCTAssertEqual(try catalog.record(record.id), record) }
    XCTAssertEqual(try catalog.totals().items, SampleCatalog.records.count)
    XCTAssertEqual(try catalog.facts()["nextContent"], 6000)
    XCTAssertEqual(try catalog.text("container"), SampleCatalog.container)
  }

  func testAnUpgradedFileIsLikeAFreshOne() throws {
    let fresh = try TemporaryFolder()
    try SampleCatalog.make(fresh.path).close()
    for schema in 1...Schema.steps.count {
      folder = try TemporaryFolder()
      try openSample(schema).close()
      XCTAssertEqual(try outline(folder.path), try outline(fresh.path), "schema \(schema)")
    }
  }

  /// The tables' and indexes' own statements, and the version.
  private func outline(_ directory: String) throws -> [String] {
    let connection = try Connection(path: directory + "/catalog.db", readOnly: false)
    var lines: [String] = []
    try connection.query("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name") {
      lines.append(String(decoding: $0.bytes(0), as: UTF8.self))
    }
    try connection.query("PRAGMA user_version") { lines.append("version \($0.integer(0))") }
    return lines
  }

  func testANewerSchemaIsRefusedInASentence() throws {
    try SampleCatalog.make(folder.path).close()
    let newer = Schema.steps.count + 1
    try Connection(path: folder.path + "/catalog.db", readOnly: false).execute(
      "PRAGMA user_version = \(newer)")
    let before = try outline(folder.path)
    XCTAssertThrowsError(try Catalog(directory: folder.path)) { error in
      let text = "\(error)"
      XCTAssert(text.contains("made by a newer docsfs"), text)
      XCTAssert(text.contains("schema \(newer)") && text.contains(folder.path), text)
      XCTAssertFalse(text.contains("\n"))
    }
    XCTAssertEqual(try outline(folder.path), before, "it is left as it is")
  }

  func testAStepThatFailsChangesNothing() throws {
    let connection = try Connection(path: folder.path + "/half.db", readOnly: false)
    try connection.execute("CREATE TABLE items (id)")
    XCTAssertThrowsError(try Schema.upgrade(connection))
    var tables = 0
    try connection.query("SELECT count(*) FROM sqlite_master") { tables = Int($0.integer(0)) }
    XCTAssertEqual(tables, 1, "the step's other tables went back")
  }
}
