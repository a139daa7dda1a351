import Containers

// Which bytes a fetch takes upon itself: no two fetch the same.
extension Content {
  var hasWaiters: Bool { local.withLock { !$0.waiters.isEmpty } }

  /// The first missing range that somebody waits for and nobody fetches, and a little more behind it.
  func claimDemand(atLeast minimum: Int64) -> Range<Int64>? {
    local.withLock { local in
      guard !local.whole, local.version != nil else { return nil }
      for waiter in local.waiters {
        let wanted = waiter.range.clamped(to: 0..<local.size)
        if let gap = local.missing(in: wanted) {
          // A reader that goes on where it was, beyond what somebody who only looks reads, gets ever more.
          local.sequential =
            gap.lowerBound == local.demandEnd ? local.sequential + (gap.upperBound - gap.lowerBound) : 0
          local.readAhead = local.sequential < 1 << 20 ? 0 : min(4 << 20, max(256 << 10, local.readAhead * 2))
          // A small file comes as a whole, so that it can be proven before anybody reads of it.
          let isWhole = minimum > 0 && local.size <= Materializer.streamLength && local.extents.isEmpty
          if isWhole, local.inFlight.isEmpty { return local.claim(0..<local.size) }
          let length = max(minimum, local.readAhead, min(gap.upperBound - gap.lowerBound, 4 << 20))
          let end = min(local.size, gap.lowerBound + length)
          local.demandEnd = end
          return local.claim(local.missing(in: gap.lowerBound..<end) ?? gap)
        }
      }
      return nil
    }
  }

  /// The next missing range of a file that is to become whole.
  func claimStream(_ length: Int64, _ limit: Int) -> Range<Int64>? {
    local.withLock { local in
      guard !local.whole, local.streaming, local.version != nil, local.fetches < limit else { return nil }
      guard let gap = local.missing(in: 0..<local.size) else { return nil }
      return local.claim(gap.lowerBound..<min(gap.upperBound, gap.lowerBound + length))
    }
  }
}

extension LocalBytes {
  /// The first part of `wanted` that is neither local nor on its way.
  fileprivate func missing(in wanted: Range<Int64>) -> Range<Int64>? {
    var start = wanted.lowerBound
    while start < wanted.upperBound, let gap = extents.firstGap(in: start..<wanted.upperBound) {
      guard let free = inFlight.firstGap(in: gap) else {
        start = gap.upperBound
        continue
      }
      return free
    }
    return nil
  }

  fileprivate mutating func claim(_ range: Range<Int64>) -> Range<Int64> {
    inFlight.insert(range)
    fetches += 1
    return range
  }
}
