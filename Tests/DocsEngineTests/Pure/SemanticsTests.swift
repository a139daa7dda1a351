import Foundation
import XCTest

/// A promise without a test is none: docs/SEMANTICS.md names one for each, and they exist.
final class SemanticsTests: XCTestCase {
  private static let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

  private func matches(_ pattern: String, _ text: String) throws -> [[String]] {
    let expression = try NSRegularExpression(pattern: pattern)
    let whole = NSRange(text.startIndex..., in: text)
    return expression.matches(in: text, range: whole).map { match in
      (0..<match.numberOfRanges).compactMap { Range(match.range(at: $0), in: text).map { String(text[$0]) } }
    }
  }

  /// `Class.testName` of all tests; a class and its extensions may lie in several files.
  private func allTests() throws -> Set<String> {
    var found: Set<String> = []
    let folder = Self.package.appendingPathComponent("Tests")
    let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil)
    while let file = files?.nextObject() as? URL {
      guard file.pathExtension == "swift" else { continue }
      var current = ""
      for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n") {
        let text = String(line)
        // Not what is declared inside of one.
        if let name = try matches(#"^(?:\S.*)?\b(?:class|extension) (\w+)"#, text).first?[1] { current = name }
        if let name = try matches(#"func (test\w+)\("#, text).first?[1] { found.insert("\(current).\(name)") }
      }
    }
    return found
  }

  func testEveryPromiseNamesTestsThatExist() throws { try check("SEMANTICS.md", atLeast: 30) }

  func testEveryDoorThatIsClosedNamesTestsThatExist() throws {
    try check("security.md", atLeast: 15, upTo: "## Not covered")
  }

  /// Each item of a list, up to a heading, names its tests.
  private func check(_ document: String, atLeast least: Int, upTo heading: String? = nil) throws {
    var text = try String(contentsOf: Self.package.appendingPathComponent("docs/" + document), encoding: .utf8)
    if let heading { text = text.components(separatedBy: heading)[0] }
    let tests = try allTests()
    var promises = 0
    for promise in text.components(separatedBy: "\n- ").dropFirst() {
      let own = promise.components(separatedBy: "\n\n")[0]
      let names = try matches(#"`(\w+\.test\w+)`"#, own).map { $0[1] }
      XCTAssertFalse(names.isEmpty, "no test holds: \(own)")
      for name in names { XCTAssert(tests.contains(name), "there is no \(name)") }
      promises += 1
    }
    XCTAssertGreaterThan(promises, least)
  }

  func testEveryOutcomeOfAMigrationNamesTestsThatExist() throws {
    let text = try String(contentsOf: Self.package.appendingPathComponent("docs/MIGRATION.md"), encoding: .utf8)
    let tests = try allTests()
    let names = try matches(#"`(\w+\.test\w+)`"#, text).map { $0[1] }
    for name in names { XCTAssert(tests.contains(name), "there is no \(name)") }
    XCTAssertGreaterThan(names.count, 40)
    // A row of the table without a test would be a claim.
    for row in text.split(separator: "\n")
    where row.hasPrefix("| ") && !row.hasPrefix("| ---") && !row.hasPrefix("| scene") {
      XCTAssertTrue(row.contains(".test"), "no test holds: \(row)")
    }
  }

  /// What the articles say, and what the libraries' pages say.
  func testEveryTestThatAPageNamesExists() throws {
    let tests = try allTests()
    let classes = Set(tests.map { $0.prefix { $0 != "." } })
    let pages = [
      "seeds/icloud-documents.md", "seeds/documents-to-caches.md", "seeds/external-storage-errors.md",
      "docs/UBIQUITY.md", "docs/FOUNDATION-ERRORS.md",
    ]
    for page in pages {
      let text = try String(contentsOf: Self.package.appendingPathComponent(page), encoding: .utf8)
      let names = try matches(#"`(\w+Tests)(\.test\w+)?`"#, text).map { $0.dropFirst().joined() }
      XCTAssertFalse(names.isEmpty, page)
      for name in names {
        XCTAssert(tests.contains(name) || classes.contains(name[...]), "\(page): there is no \(name)")
      }
      XCTAssertFalse(text.contains("issue 4") || text.contains("issue 3"), "\(page): something is still to come")
    }
  }
}
