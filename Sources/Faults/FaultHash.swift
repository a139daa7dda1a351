/// A 64-bit hash of what a decision depends on: each word passes a full mixing of all bits (that of SplitMix64,
/// Steele, Lea and Flood 2014), so that neighbouring offsets and paths lead to unrelated numbers.
struct FaultHash {
  private var state: UInt64

  init(_ seed: UInt64) { state = Self.mix(seed &+ 0x9e37_79b9_7f4a_7c15) }

  mutating func add(_ word: UInt64) { state = Self.mix((state ^ word) &+ 0x9e37_79b9_7f4a_7c15) }

  mutating func add(_ bytes: [UInt8]) {
    // The length keeps apart what differs only in trailing zeros or in where one part ends.
    add(UInt64(bytes.count))
    bytes.withUnsafeBytes { raw in
      var place = 0
      while place + 8 <= raw.count {
        add(UInt64(littleEndian: raw.loadUnaligned(fromByteOffset: place, as: UInt64.self)))
        place += 8
      }
      guard place < raw.count else { return }
      add(raw[place...].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
    }
  }

  var value: UInt64 { state }

  static func mix(_ word: UInt64) -> UInt64 {
    var z = word
    z = (z ^ z >> 30) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ z >> 27) &* 0x94d0_49bb_1331_11eb
    return z ^ z >> 31
  }
}

/// A stream of numbers from one.
struct FaultRandom {
  private var state: UInt64
  init(_ seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    return FaultHash.mix(state)
  }

  /// 0..<limit, with a bias below limit / 2^64.
  mutating func below(_ limit: UInt64) -> UInt64 { next().multipliedFullWidth(by: limit).high }
}

/// Numbers by key, in bounded memory: the first `capacity` keys have one each; keys that come later share
/// `capacity / 16` numbers by their hash.
struct BoundedTable<Value: AdditiveArithmetic & Sendable & Equatable>: Sendable, Equatable {
  static var capacity: Int { 65_536 }
  private var exact: [UInt64: Value] = [:]
  private var shared: [Value] = []

  subscript(key: UInt64) -> Value {
    if let value = exact[key] { return value }
    return shared.isEmpty ? .zero : shared[slot(key)]
  }

  mutating func add(_ value: Value, to key: UInt64) {
    if let index = exact.index(forKey: key) {
      exact.values[index] += value
    } else if exact.count < Self.capacity {
      exact[key] = value
    } else {
      if shared.isEmpty { shared = Array(repeating: .zero, count: Self.capacity / 16) }
      shared[slot(key)] += value
    }
  }

  /// How many numbers are kept.
  var count: Int { exact.count + shared.count }

  private func slot(_ key: UInt64) -> Int { Int(key % UInt64(Self.capacity / 16)) }
}
