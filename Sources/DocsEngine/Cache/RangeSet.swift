/// Byte ranges of a file, sorted, apart from each other.
struct RangeSet: Sendable, Equatable {
  private(set) var ranges: [Range<Int64>] = []

  var isEmpty: Bool { ranges.isEmpty }
  /// Bytes in all ranges.
  var count: Int64 { ranges.reduce(0) { $0 + Int64($1.count) } }

  /// The index of the first range that ends at or after `offset`.
  private func firstIndex(endingFrom offset: Int64) -> Int {
    var low = 0
    var high = ranges.count
    while low < high {
      let middle = (low + high) / 2
      if ranges[middle].upperBound < offset { low = middle + 1 } else { high = middle }
    }
    return low
  }

  mutating func insert(_ new: Range<Int64>) {
    guard !new.isEmpty else { return }
    let first = firstIndex(endingFrom: new.lowerBound)
    var merged = new
    var last = first
    while last < ranges.count, ranges[last].lowerBound <= new.upperBound {
      merged = min(merged.lowerBound, ranges[last].lowerBound)..<max(merged.upperBound, ranges[last].upperBound)
      last += 1
    }
    ranges.replaceSubrange(first..<last, with: CollectionOfOne(merged))
  }

  mutating func remove(_ gone: Range<Int64>) {
    guard !gone.isEmpty else { return }
    var kept: [Range<Int64>] = []
    for range in ranges {
      if range.upperBound <= gone.lowerBound || range.lowerBound >= gone.upperBound {
        kept.append(range)
        continue
      }
      if range.lowerBound < gone.lowerBound { kept.append(range.lowerBound..<gone.lowerBound) }
      if range.upperBound > gone.upperBound { kept.append(gone.upperBound..<range.upperBound) }
    }
    ranges = kept
  }

  func contains(_ wanted: Range<Int64>) -> Bool {
    guard !wanted.isEmpty else { return true }
    let index = firstIndex(endingFrom: wanted.lowerBound + 1)
    return index < ranges.count && ranges[index].lowerBound <= wanted.lowerBound
      && ranges[index].upperBound >= wanted.upperBound
  }

  /// The first part of `wanted` that is in none of the ranges; nil when all of it is.
  func firstGap(in wanted: Range<Int64>) -> Range<Int64>? {
    var start = wanted.lowerBound
    var index = firstIndex(endingFrom: start + 1)
    while start < wanted.upperBound {
      guard index < ranges.count, ranges[index].lowerBound < wanted.upperBound else {
        return start..<wanted.upperBound
      }
      if ranges[index].lowerBound > start { return start..<ranges[index].lowerBound }
      start = ranges[index].upperBound
      index += 1
    }
    return nil
  }

  /// 16 bytes a range: start and end, little-endian.
  var encoded: [UInt8] {
    var out: [UInt8] = []
    out.reserveCapacity(ranges.count * 16)
    for range in ranges {
      withUnsafeBytes(of: range.lowerBound.littleEndian) { out.append(contentsOf: $0) }
      withUnsafeBytes(of: range.upperBound.littleEndian) { out.append(contentsOf: $0) }
    }
    return out
  }

  init() {}

  /// nil when `blob` is no encoded set.
  init?(encoded blob: [UInt8]) {
    guard blob.count % 16 == 0 else { return nil }
    func number(_ at: Int) -> Int64 {
      Int64(bitPattern: blob[at..<at + 8].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
    }
    var end: Int64 = -1
    for at in stride(from: 0, to: blob.count, by: 16) {
      let (low, high) = (number(at), number(at + 8))
      guard low > end, high > low else { return nil }
      ranges.append(low..<high)
      end = high
    }
  }
}
