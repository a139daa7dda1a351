import TestSupport
import XCTest

@testable import DocsEngine

final class RangeSetTests: XCTestCase {
  private func set(_ ranges: Range<Int64>...) -> RangeSet {
    var set = RangeSet()
    for range in ranges { set.insert(range) }
    return set
  }

  func testTouchingRangesBecomeOne() {
    XCTAssertEqual(set(0..<4, 8..<12).ranges, [0..<4, 8..<12])
    XCTAssertEqual(set(0..<4, 8..<12, 4..<8).ranges, [0..<12])
    XCTAssertEqual(set(5..<6, 0..<100, 20..<30).ranges, [0..<100])
    XCTAssertEqual(set(3..<3).ranges, [])
  }

  func testRemovingCutsInTwo() {
    var all = set(0..<10)
    all.remove(3..<5)
    XCTAssertEqual(all.ranges, [0..<3, 5..<10])
    all.remove(0..<100)
    XCTAssert(all.isEmpty)
  }

  func testGaps() {
    let some = set(2..<4, 6..<8)
    XCTAssertEqual(some.firstGap(in: 0..<10), 0..<2)
    XCTAssertEqual(some.firstGap(in: 2..<10), 4..<6)
    XCTAssertEqual(some.firstGap(in: 6..<10), 8..<10)
    XCTAssertNil(some.firstGap(in: 6..<8))
    XCTAssertNil(some.firstGap(in: 5..<5))
  }

  func testTheWholeRangeOfOffsets() {
    let all = set(0..<Int64.max)
    XCTAssert(all.contains(0..<Int64.max))
    XCTAssertEqual(all.count, Int64.max)
    XCTAssertEqual(RangeSet(encoded: all.encoded), all)
  }

  /// The same operations on a set of ranges and on one bit for each byte.
  func testAgainstABitmap() {
    let seed = SeededRandom.setting("DOCSFS_SEED", 1)
    var random = SeededRandom(seed)
    for round in 0..<200 {
      var set = RangeSet()
      var bitmap = [Bool](repeating: false, count: 96)
      for step in 0..<60 {
        let range = randomRange(&random, bitmap.count)
        let inserts = random.chance(60)
        if inserts { set.insert(range) } else { set.remove(range) }
        for offset in range { bitmap[Int(offset)] = inserts }
        guard agrees(set, bitmap, randomRange(&random, bitmap.count)) else {
          return XCTFail("seed \(seed), round \(round), step \(step): \(set.ranges)")
        }
      }
    }
  }

  private func randomRange(_ random: inout SeededRandom, _ end: Int) -> Range<Int64> {
    let low = Int64.random(in: 0..<Int64(end), using: &random)
    return low..<Int64.random(in: low...min(Int64(end), low + 20), using: &random)
  }

  private func agrees(_ set: RangeSet, _ bitmap: [Bool], _ probe: Range<Int64>) -> Bool {
    let missing = probe.filter { !bitmap[Int($0)] }
    let gap = missing.first.map { first in
      first..<(probe.drop { $0 < first }.first { bitmap[Int($0)] } ?? probe.upperBound)
    }
    let apart = zip(set.ranges, set.ranges.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound }
    return apart && !set.ranges.contains { $0.isEmpty } && set.count == bitmap.count { $0 }
      && set.contains(probe) == missing.isEmpty && set.firstGap(in: probe) == gap
      && RangeSet(encoded: set.encoded) == set
  }
}

extension [Bool] {
  fileprivate func count(_ isCounted: (Bool) -> Bool) -> Int64 { Int64(filter(isCounted).count) }
}
