import CFuse
import Containers
import DocsEngine
import Faults

/// Why a call is held.
enum HoldCause: Equatable {
  case rule(String)
  case link
  /// Something is done for it, and ends by itself.
  case work
}

/// A request that waits before it is answered or handed on, with a copy of what the kernel wrote.
final class HeldCall: @unchecked Sendable {  // the copy is used by whoever took the call out of the table
  let unique: UInt64
  let node: NodeID
  let cause: HoldCause
  /// CLOCK_MONOTONIC ns; nil: until somebody ends it.
  let due: UInt64?
  private let buffer: UnsafeMutableRawBufferPointer
  /// `wasEnded`: before its time, by a command or because its rule has expired.
  let goOn: @Sendable (HeldCall, _ wasEnded: Bool) -> Void

  init(
    _ raw: fuse_buf, unique: UInt64, node: NodeID, cause: HoldCause, due: UInt64?,
    goOn: @escaping @Sendable (HeldCall, _ wasEnded: Bool) -> Void
  ) {
    (self.unique, self.node, self.cause, self.due, self.goOn) = (unique, node, cause, due, goOn)
    buffer = .allocate(byteCount: raw.size, alignment: 16)
    if let bytes = raw.mem { buffer.copyMemory(from: UnsafeRawBufferPointer(start: bytes, count: raw.size)) }
  }

  deinit { buffer.deallocate() }

  /// For libfuse; valid as long as this is.
  var raw: fuse_buf {
    var raw = fuse_buf()
    raw.mem = buffer.baseAddress
    raw.size = buffer.count
    return raw
  }
}

/// All calls that are held now: by timers, never by sleeping threads.
final class HeldCalls: Sendable {
  private struct State {
    var calls: [UInt64: HeldCall] = [:]
    var nodes: [NodeID: Int] = [:]
    var nextDue: UInt64?
    /// Interruptions that came before their request was held; the last few.
    var early: [UInt64] = []
    var isPoked = false
    var isStopped = false

    mutating func take(_ unique: UInt64) -> HeldCall? {
      guard let call = calls.removeValue(forKey: unique) else { return nil }
      nodes[call.node] = nodes[call.node].flatMap { $0 > 1 ? $0 - 1 : nil }
      return call
    }
  }
  private let state = Guarded(State())

  var count: Int { state.withLock { $0.calls.count } }
  func holds(_ node: NodeID) -> Bool { state.withLock { $0.nodes[node] != nil } }

  /// False when its caller was interrupted already: the call is not held, and to be answered with EINTR.
  func add(_ call: HeldCall) -> Bool {
    state.signal { state in
      if let index = state.early.firstIndex(of: call.unique) {
        state.early.remove(at: index)
        return false
      }
      state.calls[call.unique] = call
      state.nodes[call.node, default: 0] += 1
      if let due = call.due, due < state.nextDue ?? .max {
        state.nextDue = due
        state.isPoked = true
      }
      return true
    }
  }

  /// Takes out the call whose caller was interrupted; nil when it is not held (yet).
  func interrupt(_ unique: UInt64) -> HeldCall? {
    state.withLock { state in
      if let call = state.take(unique) { return call }
      if state.early.count >= 64 { state.early.removeFirst() }
      state.early.append(unique)
      return nil
    }
  }

  /// Takes one out whose work is done; nil when its caller was interrupted meanwhile.
  func take(_ unique: UInt64) -> HeldCall? { state.withLock { $0.take(unique) } }

  /// Ends those for which `ended` says so.
  func end(_ ended: (HoldCause) -> Bool) {
    let calls = state.withLock { state in
      state.calls.values.filter { ended($0.cause) }.compactMap { state.take($0.unique) }
    }
    for call in calls { call.goOn(call, true) }
  }

  /// Serves the timers until `stop`. `nextTick` gives the first moment after its argument (CLOCK_MONOTONIC ns) at which
  /// `tick` has to run; it is asked anew after each `poke`.
  func run(nextTick: (_ after: UInt64) -> UInt64?, tick: () -> Void) {
    var ticked: UInt64 = 0
    while true {
      let next = nextTick(ticked)
      let limit = [state.withLock(\.nextDue), next].compactMap { $0 }.min()
      let due = state.next(until: limit, Self.takeDue) ?? []
      for call in due { call.goOn(call, false) }
      if state.withLock({ $0.isStopped }) { return }
      guard let next, case let now = Clock.now(), next <= now else { continue }
      ticked = now
      tick()
    }
  }

  /// The next tick may be another one now.
  func poke() { state.signal { $0.isPoked = true } }

  /// nil: wait on.
  private static func takeDue(_ state: inout State) -> [HeldCall]? {
    if state.isStopped { return [] }
    let now = Clock.now()
    guard let next = state.nextDue, next <= now else {
      defer { state.isPoked = false }
      return state.isPoked ? [] : nil
    }
    let due = state.calls.values.filter { $0.due.map { $0 <= now } == true }.sorted { ($0.due ?? 0) < ($1.due ?? 0) }
    for call in due { _ = state.take(call.unique) }
    state.nextDue = state.calls.values.compactMap(\.due).min()
    return due
  }

  /// Ends `run`, and drops what is held: the mount is gone.
  func stop() {
    state.signal { state in
      state.isStopped = true
      state.calls = [:]
      state.nodes = [:]
    }
  }
}
