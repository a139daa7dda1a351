import CLinux

/// Tries again what failed for a reason that may pass: a bounded number of times, with growing pauses, within
/// the call's deadline.
///
/// - Questions (identify, list, item, quota) are asked again.
/// - A read goes on behind the last byte that the sink took, also when it ended early without saying so; what the
///   sink throws is final.
/// - A change may have been made although its answer was lost. Before it is tried again the container is
///   looked at: only while everything is still as the change wants to find it. Otherwise the first failure is
///   thrown, and the caller finds out what came of it.
///
/// `.versionChanged` and `.outOfSpace` are final here: the same call meets them again.
package final class RetryingContainer: Container {
  package struct Policy: Sendable {
    /// All together; 1: never again.
    package var attempts: Int
    /// Seconds before the second attempt; each further pause is twice as long, up to `longestPause`.
    package var firstPause: Double
    package var longestPause: Double

    package init(attempts: Int = 4, firstPause: Double = 0.1, longestPause: Double = 5) {
      self.attempts = attempts
      self.firstPause = firstPause
      self.longestPause = longestPause
    }
  }

  private let base: any Container
  private let policy: Policy
  /// Attempts beyond the first ones, since the start.
  package let retries = Counter()

  package init(_ base: any Container, _ policy: Policy = Policy()) {
    self.base = base
    self.policy = policy
  }

  package var url: String { base.url }
  package var traits: ContainerTraits { base.traits }
  package func checksum(of version: Version) -> ContentDigest? { base.checksum(of: version) }

  private func isWorthIt(_ error: ContainerError) -> Bool {
    error.isTransient && error.code != .versionChanged && error.code != .outOfSpace
  }

  /// `isUntouched` tells whether the attempt that failed has changed nothing, `hasProgressed` whether it has brought
  /// something: then the next one counts as the first.
  private func retry<R>(
    _ call: CallContext,
    isUntouched: () throws(ContainerError) -> Bool = { () throws(ContainerError) in true },
    hasProgressed: () -> Bool = { false },
    _ body: () throws(ContainerError) -> R
  ) throws(ContainerError) -> R {
    var pause = policy.firstPause
    var attempt = 1
    while true {
      do throws(ContainerError) {
        return try body()
      } catch {
        if hasProgressed() { (pause, attempt) = (policy.firstPause, 1) }
        // A container that wants a longer rest gets it from whoever called; no thread waits for that long.
        let rest = max(pause * Double.random(in: 0.5...1), error.retryAfter ?? 0)
        guard attempt < policy.attempts, isWorthIt(error), rest <= policy.longestPause, rests(rest, call) else {
          throw error
        }
        if let untouched = try? isUntouched(), !untouched { throw error }
      }
      attempt += 1
      retries.add()
      pause = min(pause * 2, policy.longestPause)
    }
  }

  /// False when the call has no time left for that.
  private func rests(_ seconds: Double, _ call: CallContext) -> Bool {
    (try? call.sleep(seconds, "wait for \(url)")) != nil
  }

  // MARK: - Questions

  package func identify(create: Bool, _ call: CallContext) throws(ContainerError) -> ContainerID {
    try retry(call) { () throws(ContainerError) in try base.identify(create: create, call) }
  }

  package func tryOut(_ call: CallContext) throws(ContainerError) {
    try retry(call) { () throws(ContainerError) in try base.tryOut(call) }
  }

  package func list(_ folder: ContainerPath, _ call: CallContext) throws(ContainerError) -> [RemoteItem] {
    try retry(call) { () throws(ContainerError) in try base.list(folder, call) }
  }

  package func item(at path: ContainerPath, _ call: CallContext) throws(ContainerError) -> RemoteItem? {
    try retry(call) { () throws(ContainerError) in try base.item(at: path, call) }
  }

  package func quota(_ call: CallContext) throws(ContainerError) -> Quota? {
    try retry(call) { () throws(ContainerError) in try base.quota(call) }
  }

  package func read(
    _ path: ContainerPath, version: Version, range: Range<Int64>, _ call: CallContext,
    sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) {
    var done = range.lowerBound
    var begun = done
    var refusal: ContainerError?
    do throws(ContainerError) {
      try retry(call, hasProgressed: { policy.attempts > 1 && done > begun }) { () throws(ContainerError) in
        begun = done
        try base.read(path, version: version, range: done..<range.upperBound, call) {
          bytes throws(ContainerError) in
          do throws(ContainerError) {
            try sink(bytes)
          } catch {
            refusal = error
            // A code that is final, whatever the sink's is.
            throw ContainerError(.cancelled, error.message)
          }
          done += Int64(bytes.count)
        }
        guard done == range.upperBound else {
          throw ContainerError(
            .inconsistent, "cannot read \(path): the bytes end at \(done), \(range.upperBound - done) before their end")
        }
      }
    } catch {
      throw refusal ?? error
    }
  }

  package func changeFeed(_ handler: @escaping @Sendable ([ChangeHint]) -> Void) -> (any ChangeFeed)? {
    base.changeFeed(handler)
  }

  // MARK: - Changes

  package func put(
    _ path: ContainerPath, from source: any UploadSource, attributes: RemoteAttributes,
    if condition: Precondition, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try retry(call, isUntouched: { () throws(ContainerError) in try holds(condition, path, call) }) {
      () throws(ContainerError) in
      try base.put(path, from: source, attributes: attributes, if: condition, call)
    }
  }

  package func makeFolder(_ path: ContainerPath, attributes: RemoteAttributes, _ call: CallContext)
    throws(ContainerError) -> RemoteItem
  {
    try retry(call, isUntouched: { () throws(ContainerError) in try holds(.absent, path, call) }) {
      () throws(ContainerError) in
      try base.makeFolder(path, attributes: attributes, call)
    }
  }

  package func makeSymlink(
    _ path: ContainerPath, target: [UInt8], attributes: RemoteAttributes, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try retry(call, isUntouched: { () throws(ContainerError) in try holds(.absent, path, call) }) {
      () throws(ContainerError) in
      try base.makeSymlink(path, target: target, attributes: attributes, call)
    }
  }

  package func rename(
    _ path: ContainerPath, to target: ContainerPath, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    let isUntouched = { () throws(ContainerError) -> Bool in
      guard try self.isThere(path, version, call) else { return false }
      return try self.holds(.absent, target, call)
    }
    return try retry(call, isUntouched: isUntouched) { () throws(ContainerError) in
      try base.rename(path, to: target, version: version, call)
    }
  }

  package func remove(_ path: ContainerPath, kind: ItemKind, version: Version?, _ call: CallContext)
    throws(ContainerError)
  {
    try retry(call, isUntouched: { () throws(ContainerError) in try isThere(path, version, call) }) {
      () throws(ContainerError) in
      try base.remove(path, kind: kind, version: version, call)
    }
  }

  package func setAttributes(
    _ path: ContainerPath, _ attributes: RemoteAttributes, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try retry(call, isUntouched: { () throws(ContainerError) in try isThere(path, version, call) }) {
      () throws(ContainerError) in
      try base.setAttributes(path, attributes, version: version, call)
    }
  }

  private func holds(_ condition: Precondition, _ path: ContainerPath, _ call: CallContext)
    throws(ContainerError) -> Bool
  {
    let item = try base.item(at: path, call)
    switch condition {
    case .absent: return item == nil
    case .version(let version): return item?.version == version
    }
  }

  private func isThere(_ path: ContainerPath, _ version: Version?, _ call: CallContext) throws(ContainerError)
    -> Bool
  {
    guard let item = try base.item(at: path, call) else { return false }
    return version.map { $0 == item.version } ?? true
  }
}
