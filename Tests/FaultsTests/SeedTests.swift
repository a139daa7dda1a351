import TestSupport
import XCTest

@testable import Faults

/// What is drawn follows from the seed and the call, and from nothing else.
final class SeedTests: FaultsTestCase {
  private func calls(_ count: Int) -> [FaultCall] {
    (0..<count).map { call($0 % 3 == 0 ? .write : .read, "/f\($0 % 7)", at: Int64($0 / 7) * 4096, length: 4096) }
  }

  private let keys = ["id=p prob=30% errno=EIO op=write", "id=j delay=100ms~90ms op=read", "id=c corrupt=3 op=read"]

  private func decisions(_ calls: [FaultCall], seed: UInt64) throws -> [FaultCall.Key: [FaultDecision?]] {
    var set = try set(keys[0], keys[1], keys[2], seed: seed)
    var decisions: [FaultCall.Key: [FaultDecision?]] = [:]
    for call in calls {
      var decision = set.decide(call, now: 0)
      // The ordinal is the order.
      decision?.ordinal = 0
      decisions[call.key, default: []].append(decision)
    }
    return decisions
  }

  func testTheSameSeedGivesTheSameFaults() throws {
    let calls = calls(500) + calls(500)
    XCTAssertEqual(try decisions(calls, seed: 1), try decisions(calls, seed: 1))
    XCTAssertNotEqual(try decisions(calls, seed: 1), try decisions(calls, seed: 2))
  }

  func testOrderDoesNotMatter() throws {
    var random = SeededRandom(99)
    let calls = calls(700) + calls(700)
    let expected = try decisions(calls, seed: 11)
    for _ in 0..<5 { XCTAssertEqual(try decisions(calls.shuffled(using: &random), seed: 11), expected) }
  }

  func testTheNthTimeDrawsAnew() throws {
    var set = try set("op=read prob=50% errno=EIO", seed: 8)
    let fired = set.fires(Array(repeating: call(.read, at: 0), count: 1000)).filter { $0 }.count
    XCTAssertEqual(Double(fired), 500, accuracy: 80)
  }

  func testSeedStartsTheSameAgain() throws {
    var set = try set("op=read prob=50% errno=EIO", seed: 8)
    let calls = Array(repeating: call(.read, at: 0), count: 100)
    let first = set.fires(calls)
    XCTAssertNotEqual(set.fires(calls), first)
    try set.apply(.seed(8), now: 0)
    XCTAssertEqual(set.fires(calls), first)
  }

  func testJitterStaysWithinItsBounds() throws {
    var set = try set("delay=200ms~50ms op=read", "delay=1ms~10ms op=write")
    let delays = (0..<2000).compactMap { set.decide(call(.read, at: $0), now: 0)?.delay }
    XCTAssertEqual(delays.count, 2000)
    XCTAssertTrue(delays.allSatisfy { (150_000_000...250_000_000).contains($0) })
    XCTAssertLessThan(delays.min() ?? 0, 153_000_000)
    XCTAssertGreaterThan(delays.max() ?? 0, 247_000_000)
    let short = (0..<2000).compactMap { set.decide(call(.write, at: $0), now: 0)?.delay }
    XCTAssertTrue(short.allSatisfy { $0 <= 11_000_000 })
    XCTAssertTrue(short.contains(0), "never below nothing")
  }

  func testCorruptionFlipsAsManyBitsAsItSays() throws {
    for (bits, size) in [(1, 4096), (7, 100), (64, 8), (100, 8)] {
      var set = try set("op=read corrupt=\(bits)", seed: 6)
      let decision = try XCTUnwrap(set.decide(call(.read, at: 0, length: Int64(size)), now: 0))
      var bytes = [UInt8](repeating: 0, count: size), again = bytes
      bytes.withUnsafeMutableBytes { decision.corrupt($0) }
      again.withUnsafeMutableBytes { decision.corrupt($0) }
      XCTAssertEqual(bytes.map(\.nonzeroBitCount).reduce(0, +), min(bits, size * 8))
      XCTAssertEqual(bytes, again)
      var none: [UInt8] = []
      none.withUnsafeMutableBytes { decision.corrupt($0) }
    }
  }

  func testCorruptedPlacesAreSpread() throws {
    var set = try set("op=read corrupt=1", seed: 2)
    var hits = [Int](repeating: 0, count: 64)
    for number in 0..<6400 {
      let decision = try XCTUnwrap(set.decide(call(.read, at: Int64(number)), now: 0))
      var bytes = [UInt8](repeating: 0, count: 8)
      bytes.withUnsafeMutableBytes { decision.corrupt($0) }
      for bit in 0..<64 where bytes[bit / 8] >> UInt8(bit % 8) & 1 != 0 { hits[bit] += 1 }
    }
    XCTAssertTrue(hits.allSatisfy { (50...150).contains($0) }, "\(hits)")
  }

  /// Each bit of the input changes each bit of the output half of the time.
  func testTheHashMixesAllBits() {
    var random = SeededRandom(5)
    var flips = [[Int]](repeating: [Int](repeating: 0, count: 64), count: 128)
    let rounds = 400
    for _ in 0..<rounds {
      let path = random.bytes(8), offset = random.next()
      func hash(_ path: [UInt8], _ offset: UInt64) -> UInt64 {
        var hash = FaultHash(1)
        hash.add(path)
        hash.add(offset)
        return hash.value
      }
      let base = hash(path, offset)
      for bit in 0..<128 {
        var other = path
        if bit < 64 { other[bit / 8] ^= 1 << UInt8(bit % 8) }
        let changed = hash(other, bit < 64 ? offset : offset ^ 1 << UInt64(bit - 64)) ^ base
        for out in 0..<64 where changed >> UInt64(out) & 1 != 0 { flips[bit][out] += 1 }
      }
    }
    // 400 coins: five standard deviations are 50.
    for row in flips { XCTAssertTrue(row.allSatisfy { (150...250).contains($0) }, "\(row)") }
  }

  func testWhatIsGluedDifferentlyHashesDifferently() {
    func hash(_ parts: [String]) -> UInt64 {
      var hash = FaultHash(0)
      for part in parts { hash.add(Array(part.utf8)) }
      return hash.value
    }
    let all = [
      ["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], ["", "abc"], ["abc\0"], ["12345678"], ["12345678", ""],
    ]
    XCTAssertEqual(Set(all.map(hash)).count, all.count)
  }

  func testTheMemoryOfDrawsIsBounded() throws {
    var table = BoundedTable<UInt32>()
    let many = 3 * BoundedTable<UInt32>.capacity
    for key in 0..<many { table.add(1, to: FaultHash.mix(UInt64(key))) }
    XCTAssertEqual(table.count, BoundedTable<UInt32>.capacity * 17 / 16)
    XCTAssertEqual(table[FaultHash.mix(0)], 1, "who came first keeps its own")
    XCTAssertGreaterThan(table[FaultHash.mix(UInt64(many - 1))], 0)
  }
}

extension FaultCall {
  fileprivate struct Key: Hashable {
    var operation: FaultOperation
    var path: [UInt8]
    var offset: Int64?
  }
  fileprivate var key: Key { Key(operation: operation, path: path, offset: offset) }
}
