import TestSupport
import XCTest

@testable import DocsEngine

/// What stands in the catalog's blobs may have been damaged by anything: it is read, or refused, and never crashes.
final class CodingTests: XCTestCase {
  func testXattrsComeBack() {
    let samples: [[[UInt8]: [UInt8]]] = [
      [:], [Array("user.a".utf8): []], [Array("user.b".utf8): [0, 255], Array("user.a".utf8): [1]],
      [[]: [], [0]: [UInt8](repeating: 7, count: 70_000)],
    ]
    for xattrs in samples { XCTAssertEqual(XattrCoding.decode(XattrCoding.encode(xattrs)), xattrs) }
  }

  func testEqualXattrsAreEqualBytes() {
    let pairs = (0..<20).map { (Array("user.\($0)".utf8), [UInt8($0)]) }
    let a = XattrCoding.encode(Dictionary(uniqueKeysWithValues: pairs))
    XCTAssertEqual(a, XattrCoding.encode(Dictionary(uniqueKeysWithValues: pairs.reversed())))
  }

  func testShortXattrsAreRefused() {
    let whole = XattrCoding.encode([Array("user.a".utf8): [1, 2, 3]])
    for count in 1..<whole.count { XCTAssertNil(XattrCoding.decode(Array(whole.prefix(count))), "\(count)") }
    XCTAssertNil(XattrCoding.decode(whole + [0]))
    XCTAssertNil(XattrCoding.decode([255, 255, 255, 255]))
  }

  func testBadRangesAreRefused() {
    func blob(_ numbers: Int64...) -> [UInt8] {
      numbers.flatMap { withUnsafeBytes(of: $0.littleEndian) { Array($0) } }
    }
    XCTAssertEqual(RangeSet(encoded: blob(0, 4, 5, 9))?.ranges, [0..<4, 5..<9])
    for bad in [
      blob(0), blob(4, 4), blob(5, 2), blob(-1, 3), blob(0, 4, 4, 8), blob(6, 8, 0, 2), blob(.min, .max),
      Array(blob(0, 4).dropLast()),
    ] {
      XCTAssertNil(RangeSet(encoded: bad), "\(bad)")
    }
  }

  func testGarbageNeverCrashes() {
    var random = SeededRandom(SeededRandom.setting("DOCSFS_SEED", 2))
    for _ in 0..<20_000 {
      var blob = random.bytes(Int.random(in: 0..<80, using: &random))
      // Small numbers are the ones that look right.
      for index in blob.indices where random.chance(70) { blob[index] = random.chance(80) ? 0 : 3 }
      if let set = RangeSet(encoded: blob) { XCTAssertEqual(set.encoded, blob) }
      if let xattrs = XattrCoding.decode(blob) {
        XCTAssertEqual(XattrCoding.decode(XattrCoding.encode(xattrs)), xattrs)
      }
    }
  }
}
