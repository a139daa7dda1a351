import CLinux
import Glibc

/// A container that answers as slowly as one across a network: each call costs `latency`, and all transfers
/// together share `rate`. Sleeps end when the call is cancelled or past its deadline.
package final class ThrottledContainer: Container {
  private let base: any Container
  private let pace: Guarded<Pace>

  private struct Pace {
    var latency: Double
    var rate: Int64?
    /// When both end; nil: never.
    var until: UInt64?
    /// When the line is free again (CLOCK_MONOTONIC ns).
    var isFree: UInt64 = 0

    /// Counts changes: who waits by an earlier one waits no longer.
    var setting = 0

    /// Takes the line for `count` bytes; when they are through.
    mutating func reserve(_ count: Int) -> UInt64 {
      guard let rate, rate > 0 else { return 0 }
      isFree = max(Clock.now(), isFree) &+ UInt64(min(Double(count) / Double(rate) * 1e9, 1e18))
      return min(isFree, until ?? .max)
    }

    func end(ofLatencyFrom start: UInt64) -> UInt64 {
      min(start &+ UInt64(min(latency, 1e9) * 1e9), until ?? .max)
    }

    /// Bytes that take about 20 ms: small enough to be cancelled in between, and to share the line fairly.
    var pieceSize: Int {
      guard let rate else { return .max }
      return max(512, min(256 << 10, Int(clamping: rate / 50)))
    }
  }

  /// `latency` in seconds per call, `rate` in bytes per second (nil: unlimited).
  package init(_ base: any Container, latency: Double, rate: Int64?) {
    self.base = base
    pace = Guarded(Pace(latency: latency, rate: rate))
  }

  /// Seconds after which whoever waits looks whether that still has to be.
  private static let glance = 0.1

  /// From now on, for calls and transfers in progress too; until `end` (CLOCK_MONOTONIC ns), or for good.
  package func set(latency: Double, rate: Int64?, until end: UInt64? = nil) {
    pace.withLock {
      $0.until = end
      $0.latency = latency
      $0.rate = rate
      $0.isFree = 0
      $0.setting += 1
    }
  }

  package var url: String { base.url }
  package var traits: ContainerTraits { base.traits }
  package func checksum(of version: Version) -> ContentDigest? { base.checksum(of: version) }

  private func wait(_ call: CallContext) throws(ContainerError) {
    let start = Clock.now()
    while case let end = pace.withLock({ $0.end(ofLatencyFrom: start) }), end > Clock.now() {
      try sleep(until: end, call, "wait for \(url)")
    }
  }

  private func transfer(_ count: Int, _ call: CallContext) throws(ContainerError) {
    let (end, setting) = pace.withLock { ($0.reserve(count), $0.setting) }
    while end > Clock.now(), pace.withLock({ $0.setting == setting }) {
      try sleep(until: end, call, "transfer from or to \(url)")
    }
  }

  private func sleep(until end: UInt64, _ call: CallContext, _ what: @autoclosure () -> String) throws(ContainerError) {
    let now = Clock.now()
    if end > now { try call.sleep(min(Double(end - now) / 1e9, Self.glance), what()) }
  }

  package func identify(create: Bool, _ call: CallContext) throws(ContainerError) -> ContainerID {
    try wait(call)
    return try base.identify(create: create, call)
  }

  package func tryOut(_ call: CallContext) throws(ContainerError) {
    try wait(call)
    try base.tryOut(call)
  }

  package func list(_ folder: ContainerPath, _ call: CallContext) throws(ContainerError) -> [RemoteItem] {
    try wait(call)
    return try base.list(folder, call)
  }

  package func item(at path: ContainerPath, _ call: CallContext) throws(ContainerError) -> RemoteItem? {
    try wait(call)
    return try base.item(at: path, call)
  }

  package func read(
    _ path: ContainerPath, version: Version, range: Range<Int64>, _ call: CallContext,
    sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) {
    try wait(call)
    try base.read(path, version: version, range: range, call) { bytes throws(ContainerError) in
      var rest = bytes[...]
      while !rest.isEmpty {
        let piece = rest.prefix(pace.withLock { $0.pieceSize })
        try transfer(piece.count, call)
        try sink(UnsafeRawBufferPointer(rebasing: piece))
        rest = rest.dropFirst(piece.count)
      }
    }
  }

  package func put(
    _ path: ContainerPath, from source: any UploadSource, attributes: RemoteAttributes,
    if condition: Precondition, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try wait(call)
    let slow = SlowSource(base: source, pieceSize: { [pace] in pace.withLock { $0.pieceSize } }) {
      [self] count throws(ContainerError) in try transfer(count, call)
    }
    return try base.put(path, from: slow, attributes: attributes, if: condition, call)
  }

  package func makeFolder(_ path: ContainerPath, attributes: RemoteAttributes, _ call: CallContext)
    throws(ContainerError) -> RemoteItem
  {
    try wait(call)
    return try base.makeFolder(path, attributes: attributes, call)
  }

  package func makeSymlink(
    _ path: ContainerPath, target: [UInt8], attributes: RemoteAttributes, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try wait(call)
    return try base.makeSymlink(path, target: target, attributes: attributes, call)
  }

  package func rename(
    _ path: ContainerPath, to target: ContainerPath, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try wait(call)
    return try base.rename(path, to: target, version: version, call)
  }

  package func remove(_ path: ContainerPath, kind: ItemKind, version: Version?, _ call: CallContext)
    throws(ContainerError)
  {
    try wait(call)
    try base.remove(path, kind: kind, version: version, call)
  }

  package func setAttributes(
    _ path: ContainerPath, _ attributes: RemoteAttributes, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try wait(call)
    return try base.setAttributes(path, attributes, version: version, call)
  }

  package func quota(_ call: CallContext) throws(ContainerError) -> Quota? {
    try wait(call)
    return try base.quota(call)
  }

  package func changeFeed(_ handler: @escaping @Sendable ([ChangeHint]) -> Void) -> (any ChangeFeed)? {
    base.changeFeed(handler)
  }
}

/// A source whose bytes take their time on the line.
private struct SlowSource: UploadSource {
  let base: any UploadSource
  let pieceSize: @Sendable () -> Int
  let transfer: @Sendable (Int) throws(ContainerError) -> Void

  var size: Int64 { base.size }
  var sha256: [UInt8]? { base.sha256 }
  func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ContainerError) -> Int {
    let piece = UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(pieceSize()))
    let count = try base.read(at: offset, into: piece)
    try transfer(count)
    return count
  }
  func isStillCurrent() -> Bool { base.isStillCurrent() }
  func sent(_ count: Int) { base.sent(count) }
}
