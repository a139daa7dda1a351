import Foundation
import TestSupport
import XCTest

@testable import DocumentMigration

/// `.name.icloud`, as devices wrote them.
final class StubParsingTests: XCTestCase {
  private func list(_ values: [String: Any], _ format: PropertyListSerialization.PropertyListFormat) throws -> [UInt8] {
    Array(try PropertyListSerialization.data(fromPropertyList: values, format: format, options: 0))
  }

  func testBothFormsAndUnknownKeys() throws {
    for format in [PropertyListSerialization.PropertyListFormat.binary, .xml] {
      let content = try list(
        ["NSURLNameKey": "a.pdf", "NSURLFileSizeKey": 7, "NSURLFileResourceTypeKey": "x", "Other": 1], format)
      XCTAssertEqual(Stub.parse(Array(".a.pdf.icloud".utf8), content), .of(Array("a.pdf".utf8)))
    }
  }

  func testTheNamesFormDoesNotMatter() throws {
    let content = try list(["NSURLNameKey": "が.txt"], .binary)
    let name = Array(".か\u{3099}.txt.icloud".utf8)
    XCTAssertEqual(Stub.parse(name, content), .of(Array("か\u{3099}.txt".utf8)))
  }

  func testWhatIsNoneIsNotTakenForOne() throws {
    XCTAssertEqual(Stub.parse(Array(".a.icloud".utf8), []), .damaged)
    XCTAssertEqual(Stub.parse(Array(".a.icloud".utf8), Array("bplist00 and then".utf8)), .damaged)
    XCTAssertEqual(Stub.parse(Array(".a.icloud".utf8), try list(["NSURLNameKey": "b"], .binary)), .damaged)
    for name in ["a.icloud", ".icloud", ".a.icloud.txt"] {
      XCTAssertNil(Stub.parse(Array(name.utf8), []), name)
    }
  }
}
