import Containers

/// A call of a container, as a gate sees it.
package struct ContainerCall: Sendable, CustomStringConvertible {
  package enum Operation: String, Sendable {
    case identify, list, item, read, put, makeFolder, makeSymlink, rename, remove, setAttributes, quota
  }
  package var operation: Operation
  package var path: ContainerPath
  package var range: Range<Int64>?
  package var condition: Precondition?

  /// Whether it sets out to change something.
  package var isMutation: Bool {
    switch operation {
    case .identify, .list, .item, .read, .quota: false
    case .put, .makeFolder, .makeSymlink, .rename, .remove, .setAttributes: true
    }
  }
  package var description: String { "\(operation.rawValue) \(path)" + (range.map { " \($0)" } ?? "") }
}

/// A container that records its calls, and holds or fails those that a test chooses: before they do anything, or
/// after they have done it, so that only their answer is lost. Held calls end with their context all the same.
package final class GateContainer: Container {
  package enum Moment: Sendable {
    case before, after
    /// Before each piece of a read.
    case piece
  }
  private enum Effect: Sendable {
    case hold
    case fail(ContainerError.Code)
  }
  private struct Rule: Sendable {
    var moment: Moment
    var effect: Effect
    var remaining: Int
    var matches: @Sendable (ContainerCall) -> Bool
  }
  private struct State {
    var rules: [Rule] = []
    var calls: [ContainerCall] = []
    var held = 0
    var isFrozen = false
    var isDead = false
  }

  private let base: any Container
  private let state = Guarded(State())

  package init(_ base: any Container) { self.base = base }

  // MARK: For the test

  /// Calls of this kind wait until `open`.
  package func hold(
    _ operation: ContainerCall.Operation, _ moment: Moment = .before,
    where matches: @escaping @Sendable (ContainerCall) -> Bool = { _ in true }
  ) {
    add(.init(moment: moment, effect: .hold, remaining: .max) { $0.operation == operation && matches($0) })
  }

  /// The next `times` calls of this kind fail.
  package func fail(
    _ operation: ContainerCall.Operation, _ code: ContainerError.Code, times: Int = 1,
    _ moment: Moment = .before,
    where matches: @escaping @Sendable (ContainerCall) -> Bool = { _ in true }
  ) {
    add(
      .init(moment: moment, effect: .fail(code), remaining: times) {
        $0.operation == operation && matches($0)
      })
  }

  private func add(_ rule: Rule) { state.withLock { $0.rules.append(rule) } }

  /// Nothing is held or failed any more.
  package func open() { state.signal { $0.rules = [] } }

  /// Waits until so many calls are held; false when that does not happen.
  package func waitUntilHeld(_ count: Int = 1) -> Bool {
    state.wait(until: Containers.Clock.now() + 20_000_000_000) { $0.held >= count }
  }

  package var calls: [ContainerCall] { state.withLock { $0.calls } }
  package var mutations: [String] { calls.filter(\.isMutation).map(\.description) }
  package func count(_ operation: ContainerCall.Operation) -> Int {
    calls.count { $0.operation == operation }
  }
  package func forgetCalls() { state.withLock { $0.calls = [] } }

  /// From now on no call begins, and none that has begun returns: as at the moment when a process is killed.
  package func freeze() { state.signal { $0.isFrozen = true } }
  /// After `freeze`: every call ends, and nothing reaches the container any more.
  package func cut() { state.signal { $0.isDead = true } }

  // MARK: Passing

  private func perform<R>(
    _ call: ContainerCall, _ context: CallContext, _ body: () throws(ContainerError) -> R
  ) throws(ContainerError) -> R {
    state.withLock { $0.calls.append(call) }
    try pass(call, .before, context)
    let result: R
    do throws(ContainerError) {
      result = try body()
    } catch {
      try pass(nil, .after, context)
      throw error
    }
    try pass(call, .after, context)
    return result
  }

  private enum Decision {
    case go, wait, fail(ContainerError.Code)
  }

  private func pass(_ call: ContainerCall?, _ moment: Moment, _ context: CallContext) throws(ContainerError) {
    var isHeld = false
    defer { if isHeld { state.signal { $0.held -= 1 } } }
    while true {
      switch state.withLock({ Self.decide(call, moment, &$0) }) {
      case .go: return
      case .fail(let code): throw ContainerError(code, "\(call?.description ?? "a call"): the gate says no")
      case .wait: break
      }
      if !isHeld { state.signal { $0.held += 1 } }
      isHeld = true
      state.wait(until: Containers.Clock.now() + 10_000_000) {
        if case .wait = Self.decide(call, moment, &$0) { false } else { true }
      }
      if state.withLock({ !$0.isFrozen }) { try context.check("the gate") }
    }
  }

  private static func decide(_ call: ContainerCall?, _ moment: Moment, _ state: inout State) -> Decision {
    if state.isDead { return .fail(.cancelled) }
    if state.isFrozen { return .wait }
    guard let call else { return .go }
    for index in state.rules.indices {
      let rule = state.rules[index]
      guard rule.moment == moment, rule.remaining > 0, rule.matches(call) else { continue }
      switch rule.effect {
      case .hold: return .wait
      case .fail(let code):
        state.rules[index].remaining -= 1
        return .fail(code)
      }
    }
    return .go
  }

  // MARK: Container

  package var url: String { base.url }
  package var traits: ContainerTraits { base.traits }
  package func checksum(of version: Version) -> ContentDigest? { base.checksum(of: version) }

  package func identify(create: Bool, _ call: CallContext) throws(ContainerError) -> ContainerID {
    try perform(.init(operation: .identify, path: .root), call) { () throws(ContainerError) in
      try base.identify(create: create, call)
    }
  }
  package func tryOut(_ call: CallContext) throws(ContainerError) { try base.tryOut(call) }
  package func list(_ folder: ContainerPath, _ call: CallContext) throws(ContainerError) -> [RemoteItem] {
    try perform(.init(operation: .list, path: folder), call) { () throws(ContainerError) in
      try base.list(folder, call)
    }
  }
  package func item(at path: ContainerPath, _ call: CallContext) throws(ContainerError) -> RemoteItem? {
    try perform(.init(operation: .item, path: path), call) { () throws(ContainerError) in
      try base.item(at: path, call)
    }
  }
  package func read(
    _ path: ContainerPath, version: Version, range: Range<Int64>, _ call: CallContext,
    sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) {
    let seen = ContainerCall(operation: .read, path: path, range: range)
    try perform(seen, call) { () throws(ContainerError) in
      try base.read(path, version: version, range: range, call) { piece throws(ContainerError) in
        try pass(seen, .piece, call)
        try sink(piece)
      }
    }
  }
  package func put(
    _ path: ContainerPath, from source: any UploadSource, attributes: RemoteAttributes,
    if condition: Precondition, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try perform(.init(operation: .put, path: path, condition: condition), call) { () throws(ContainerError) in
      try base.put(path, from: source, attributes: attributes, if: condition, call)
    }
  }
  package func makeFolder(
    _ path: ContainerPath, attributes: RemoteAttributes, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try perform(.init(operation: .makeFolder, path: path), call) { () throws(ContainerError) in
      try base.makeFolder(path, attributes: attributes, call)
    }
  }
  package func makeSymlink(
    _ path: ContainerPath, target: [UInt8], attributes: RemoteAttributes, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try perform(.init(operation: .makeSymlink, path: path), call) { () throws(ContainerError) in
      try base.makeSymlink(path, target: target, attributes: attributes, call)
    }
  }
  package func rename(
    _ path: ContainerPath, to target: ContainerPath, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try perform(.init(operation: .rename, path: path), call) { () throws(ContainerError) in
      try base.rename(path, to: target, version: version, call)
    }
  }
  package func remove(
    _ path: ContainerPath, kind: ItemKind, version: Version?, _ call: CallContext
  ) throws(ContainerError) {
    try perform(.init(operation: .remove, path: path), call) { () throws(ContainerError) in
      try base.remove(path, kind: kind, version: version, call)
    }
  }
  package func setAttributes(
    _ path: ContainerPath, _ attributes: RemoteAttributes, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try perform(.init(operation: .setAttributes, path: path), call) { () throws(ContainerError) in
      try base.setAttributes(path, attributes, version: version, call)
    }
  }
  package func quota(_ call: CallContext) throws(ContainerError) -> Quota? {
    try perform(.init(operation: .quota, path: .root), call) { () throws(ContainerError) in
      try base.quota(call)
    }
  }
  package func changeFeed(_ handler: @escaping @Sendable ([ChangeHint]) -> Void) -> (any ChangeFeed)? {
    base.changeFeed(handler)
  }
}
