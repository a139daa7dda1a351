import Faults

/// A container whose cloud side is as bad as told: `conditions` decide what each call meets, before it reaches the
/// real container, or while its body is on the way.
///
/// They are met as a container across HTTP would meet them: a status becomes the error that `HTTPStatus` makes of it,
/// a body that ends early is just shorter, an altered one is handed on. Noticing that is everybody else's work.
/// A listing's body is taken to be as long as its names, and to be noticed when it is cut, as XML is.
package final class FaultingContainer: Container {
  private let base: any Container
  /// `base`, as slow as `conditions` say.
  private let slow: ThrottledContainer
  private struct State {
    var conditions = CloudConditions()
    /// CLOCK_MONOTONIC ns; nil: until they are changed.
    var end: UInt64?

    mutating func expire() {
      guard let end, end <= Clock.now() else { return }
      self = State()
    }
  }
  private let state = Guarded(State())
  /// Requests that have failed by a condition, since the start.
  package let failures = Counter()

  package init(_ base: any Container) {
    self.base = base
    slow = ThrottledContainer(base, latency: 0, rate: nil)
  }

  /// What holds now, with what it has counted; setting it counts anew. From any thread. Calls that
  /// wait because of what held before go on at once.
  package var conditions: CloudConditions {
    get {
      state.withLock { state in
        state.expire()
        return state.conditions
      }
    }
    set { set(newValue, end: nil) }
  }

  /// A `cloud` command. One that sets a time for its end sets it for all conditions.
  package func apply(_ change: CloudChange) {
    switch change {
    case .online: conditions = CloudConditions()
    case .conditions(let added, let duration):
      var all = conditions
      all.add(added)
      set(all, end: duration.map { Clock.now() &+ $0 } ?? state.withLock { $0.end })
    }
  }

  /// What holds, as a command that could be given again; nil: all is well.
  package var command: ControlCommand? {
    let now = conditions
    if now.isClear { return nil }
    let left = state.withLock { $0.end }.map { max(1, $0 &- Clock.now()) }
    return .cloud(.conditions(now, duration: left))
  }

  private func set(_ conditions: CloudConditions, end: UInt64?) {
    state.withLock { $0 = State(conditions: conditions, end: end) }
    slow.set(latency: Double(conditions.latency ?? 0) / 1e9, rate: conditions.rate, until: end)
  }

  package var url: String { base.url }
  package var traits: ContainerTraits { base.traits }
  package func checksum(of version: Version) -> ContentDigest? { base.checksum(of: version) }

  // MARK: - Meeting

  private func meet<R>(
    _ operation: CloudOperation, _ what: @autoclosure () -> String, _ call: CallContext, size: Int64 = 0,
    _ body: (any Container, CloudEffect) throws(ContainerError) -> R
  ) throws(ContainerError) -> R {
    try call.check(what())
    let effect = state.withLock { state in
      state.expire()
      return state.conditions.meet(operation, size: size)
    }
    if let failure = effect.failure {
      failures.add()
      throw error(failure, what())
    }
    return try body(effect.isSlow ? slow : base, effect)
  }

  private func error(_ failure: CloudFailure, _ what: String) -> ContainerError {
    switch failure {
    case .unreachable: ContainerError(.unreachable, "cannot \(what): \(url) does not answer")
    case .expired: HTTPStatus.error(401, "cannot \(what)")
    case .full: HTTPStatus.error(507, "cannot \(what)")
    case .status(let status, let retryAfter):
      HTTPStatus.error(status, "cannot \(what)", retryAfter: retryAfter.map { Double($0) / 1e9 })
    }
  }

  // MARK: - Questions

  package func identify(create: Bool, _ call: CallContext) throws(ContainerError) -> ContainerID {
    try meet(.identify, "open \(url)", call) { base, _ throws(ContainerError) in
      try base.identify(create: create, call)
    }
  }

  package func tryOut(_ call: CallContext) throws(ContainerError) {
    try meet(.identify, "open \(url)", call) { base, _ throws(ContainerError) in try base.tryOut(call) }
  }

  package func list(_ folder: ContainerPath, _ call: CallContext) throws(ContainerError) -> [RemoteItem] {
    try meet(.list, "list \(folder)", call) { base, effect throws(ContainerError) in
      let items = try base.list(folder, call)
      if let limit = effect.bodyLimit, items.reduce(0, { $0 + Int64($1.name.bytes.count) }) > limit {
        throw ContainerError(.inconsistent, "cannot list \(folder): the listing ends in the middle")
      }
      return items
    }
  }

  package func item(at path: ContainerPath, _ call: CallContext) throws(ContainerError) -> RemoteItem? {
    do throws(ContainerError) {
      return try meet(.look, "look at \(path)", call) { base, _ throws(ContainerError) in
        try base.item(at: path, call)
      }
    } catch  where error.code == .notFound {
      return nil
    }
  }

  package func quota(_ call: CallContext) throws(ContainerError) -> Quota? {
    try meet(.quota, "ask for the room of \(url)", call) { base, _ throws(ContainerError) in
      let quota = try base.quota(call)
      let (total, used) = state.withLock { ($0.conditions.quota, $0.conditions.used) }
      return total.map { Quota(total: $0, free: max(0, $0 - used)) } ?? quota
    }
  }

  package func read(
    _ path: ContainerPath, version: Version, range: Range<Int64>, _ call: CallContext,
    sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) {
    try meet(.fetch, "fetch \(path)", call) { base, effect throws(ContainerError) in
      let end = effect.bodyLimit.map { min(range.upperBound, range.lowerBound.addingClamped($0)) } ?? range.upperBound
      guard let salt = effect.corruption else {
        return try base.read(path, version: version, range: range.lowerBound..<end, call, sink: sink)
      }
      try base.read(path, version: version, range: range.lowerBound..<end, call) { piece throws(ContainerError) in
        let altered = UnsafeMutableRawBufferPointer.allocate(byteCount: piece.count, alignment: 1)
        defer { altered.deallocate() }
        altered.copyMemory(from: piece)
        alter(altered, salt)
        try sink(UnsafeRawBufferPointer(altered))
      }
    }
  }

  package func changeFeed(_ handler: @escaping @Sendable ([ChangeHint]) -> Void) -> (any ChangeFeed)? {
    let feed = base.changeFeed { [weak self] hints in
      // No message comes through a network that is down; what it tells is found by looking, afterwards.
      guard let self, !self.conditions.offline else { return }
      handler(hints)
    }
    return feed.map { FaultyFeed(base: $0, cloud: self) }
  }

  /// A feed that asks meets what a listing meets.
  private final class FaultyFeed: ChangeFeed {
    private let base: any ChangeFeed
    private let cloud: FaultingContainer

    init(base: any ChangeFeed, cloud: FaultingContainer) {
      self.base = base
      self.cloud = cloud
    }

    func watch(_ folder: ContainerPath) -> Bool { base.watch(folder) }
    func unwatch(_ folder: ContainerPath) { base.unwatch(folder) }
    func stop() { base.stop() }
    func ask(_ call: CallContext) throws(ContainerError) {
      guard base.asks else { return }
      try cloud.meet(.list, "ask for changes", call) { _, _ throws(ContainerError) in try base.ask(call) }
    }
    var asks: Bool { base.asks }
  }

  // MARK: - Changes

  package func put(
    _ path: ContainerPath, from source: any UploadSource, attributes: RemoteAttributes,
    if condition: Precondition, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try meet(.upload, "upload \(path)", call, size: source.size) { base, effect throws(ContainerError) in
      do throws(ContainerError) {
        let source = FaultySource(base: source, effect: effect, what: "cannot upload \(path)")
        return try base.put(path, from: source, attributes: attributes, if: condition, call)
      } catch {
        state.withLock { if $0.conditions.quota != nil { $0.conditions.giveBack(source.size) } }
        throw error
      }
    }
  }

  package func makeFolder(_ path: ContainerPath, attributes: RemoteAttributes, _ call: CallContext)
    throws(ContainerError) -> RemoteItem
  {
    try meet(.makeFolder, "make the folder \(path)", call) { base, _ throws(ContainerError) in
      try base.makeFolder(path, attributes: attributes, call)
    }
  }

  package func makeSymlink(
    _ path: ContainerPath, target: [UInt8], attributes: RemoteAttributes, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try meet(.makeSymlink, "make the symlink \(path)", call) { base, _ throws(ContainerError) in
      try base.makeSymlink(path, target: target, attributes: attributes, call)
    }
  }

  package func rename(
    _ path: ContainerPath, to target: ContainerPath, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try meet(.rename, "rename \(path)", call) { base, _ throws(ContainerError) in
      try base.rename(path, to: target, version: version, call)
    }
  }

  package func remove(_ path: ContainerPath, kind: ItemKind, version: Version?, _ call: CallContext)
    throws(ContainerError)
  {
    try meet(.remove, "remove \(path)", call) { base, _ throws(ContainerError) in
      try base.remove(path, kind: kind, version: version, call)
    }
  }

  package func setAttributes(
    _ path: ContainerPath, _ attributes: RemoteAttributes, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try meet(.setAttributes, "set the attributes of \(path)", call) { base, _ throws(ContainerError) in
      try base.setAttributes(path, attributes, version: version, call)
    }
  }
}

/// One bit of the first byte is another; which one, `salt` says.
private func alter(_ bytes: UnsafeMutableRawBufferPointer, _ salt: UInt64) {
  if !bytes.isEmpty { bytes[0] ^= 1 << UInt8(salt % 8) }
}

/// An upload's bytes as they leave on a bad line.
private struct FaultySource: UploadSource {
  let base: any UploadSource
  let effect: CloudEffect
  let what: String

  var size: Int64 { base.size }
  var sha256: [UInt8]? { base.sha256 }
  func isStillCurrent() -> Bool { base.isStillCurrent() }
  func sent(_ count: Int) { base.sent(count) }

  func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ContainerError) -> Int {
    var room = buffer
    if let limit = effect.bodyLimit {
      guard offset < limit else {
        throw ContainerError(.inconsistent, "\(what): the connection broke after \(limit) bytes")
      }
      room = UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(Int(clamping: limit - offset)))
    }
    let count = try base.read(at: offset, into: room)
    if let salt = effect.corruption {
      alter(UnsafeMutableRawBufferPointer(rebasing: room.prefix(count)), salt)
    }
    return count
  }
}

extension Int64 {
  fileprivate func addingClamped(_ other: Int64) -> Int64 {
    let (sum, isOver) = addingReportingOverflow(other)
    return isOver ? .max : sum
  }
}
