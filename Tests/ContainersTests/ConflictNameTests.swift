import XCTest

@testable import Containers

final class ConflictNameTests: XCTestCase {
  private func name(_ text: String, isFolder: Bool = false, attempt: Int = 1) throws -> String {
    setenv("TZ", "UTC", 1)
    tzset()
    return ConflictName.make(
      for: try ItemName(text), isFolder: isFolder, host: "desk", time: 86_400 * 365, attempt: attempt
    ).description
  }

  func testTheEndingStays() throws {
    XCTAssertEqual(try name("a.txt"), "a (conflict desk 1971-01-01 00.00.00).txt")
    XCTAssertEqual(try name("a.tar.gz"), "a.tar (conflict desk 1971-01-01 00.00.00).gz")
    XCTAssertEqual(try name("a"), "a (conflict desk 1971-01-01 00.00.00)")
    XCTAssertEqual(try name(".profile"), ".profile (conflict desk 1971-01-01 00.00.00)")
    XCTAssertEqual(try name("v1.2", isFolder: true), "v1.2 (conflict desk 1971-01-01 00.00.00)")
    XCTAssertEqual(try name("a.txt", attempt: 2), "a (conflict desk 1971-01-01 00.00.00 2).txt")
  }

  func testLongNamesAreCutBetweenCharacters() throws {
    let cut = ConflictName.make(for: try ItemName(String(repeating: "é", count: 125) + ".txt"), host: "h")
    XCTAssertLessThanOrEqual(cut.bytes.count, 255)
    XCTAssertFalse(cut.description.contains("\u{fffd}"))
    XCTAssert(cut.description.hasSuffix(").txt"))
    let bytes = ConflictName.make(for: try ItemName([UInt8](repeating: 0xbf, count: 255)), host: "h")
    XCTAssertLessThanOrEqual(bytes.bytes.count, 255)
  }
}
