import Containers
import DocsEngine
import Faults
import StorageErrors
import Synchronization

/// Makes a mount fail on command: holds the rules, the link profile and the log, and judges each request.
package final class FaultInjector: Sendable {
  let volume: Volume
  let state = Guarded(FaultState())
  let held = HeldCalls()
  /// `faults=off`: the commands that would arm something are refused.
  private let isAllowed: Bool
  /// The operations that somebody has an interest in, a bit each: all others pass without a lock.
  private let interest = Atomic<UInt64>(0)
  private let cachesAreOff = Atomic<Bool>(false)
  private let epochNow = Atomic<UInt64>(0)
  let caches = Guarded<CacheRefresh?>(nil)

  package init(volume: Volume, isAllowed: Bool) {
    self.volume = volume
    self.isAllowed = isAllowed
  }

  /// Of the link: counts reconnects.
  var epoch: UInt64 { epochNow.load(ordering: .relaxed) }
  /// While something is armed, the kernel must ask about everything.
  var forbidsCaching: Bool { cachesAreOff.load(ordering: .relaxed) }

  func isInterested(in operation: FaultOperation) -> Bool {
    let wanted = interest.load(ordering: .relaxed)
    return wanted != 0 && FaultOperations(rawValue: wanted).contains(operation)
  }

  /// Whether opens shall go past the page cache: each read has to arrive as it was made.
  var wantsDirectReads: Bool {
    guard forbidsCaching || epoch > 0 else { return false }
    return state.withLock { state in
      state.faults.operations(now: Clock.now()).contains(.read) || state.hasOldHandles
    }
  }

  // MARK: Commands

  /// Carries out a command that concerns faults; false for one that does not. It holds when this returns.
  package func execute(_ command: ControlCommand) throws(ControlError) -> Bool {
    switch command {
    case .disconnect(let profile, let duration): try disconnect(profile, duration)
    case .reconnect: try reconnect()
    default:
      guard command.concernsRules else { return false }
      try change { state, now throws(ControlError) in
        if case .mark(let text) = command { return state.log.append { FaultLogLine(mark: text, sequence: $0) } }
        try state.faults.apply(command, now: now)
      }
    }
    return true
  }

  private func change(_ body: (inout FaultState, UInt64) throws(ControlError) -> Void) throws(ControlError) {
    guard isAllowed else {
      throw ControlError(.EPERM, line: 1, column: 1, "this volume is mounted with faults=off; mount it without")
    }
    try state.signal { state -> Result<Void, ControlError> in
      do throws(ControlError) { return .success(try body(&state, Clock.now())) } catch { return .failure(error) }
    }.get()
    settle()
  }

  private func disconnect(_ profile: LinkProfile, _ duration: UInt64?) throws(ControlError) {
    try change { state, now in
      state.link.disconnect(profile, now: now, for: duration)
      state.hasFailedSync = false
    }
    if profile.isCloud { volume.cutLink(reason: "disconnected by command; docsfs reconnect ends it") }
  }

  private func reconnect() throws(ControlError) {
    try change { state, now in state.link.reconnect(now: now) }
    volume.joinLink()
  }

  /// Brings everything in line with the rules and the link as they are now.
  private func settle() {
    let now = Clock.now()
    let (wanted, isArmed, epoch, tracks) = state.withLock { state in
      (state.interest(now), state.isArmed(now), state.link.epoch, state.mayLose(now))
    }
    volume.trackLosses(tracks)
    interest.store(wanted.rawValue, ordering: .releasing)
    epochNow.store(epoch, ordering: .releasing)
    let wasArmed = cachesAreOff.exchange(isArmed, ordering: .acquiringAndReleasing)
    endHeld(now)
    if isArmed || wasArmed { caches.withLock { $0 }?.refresh(wait: isArmed) }
    held.poke()
  }

  /// Calls that a rule or the link holds, and does not any more, go on.
  private func endHeld(_ now: UInt64) {
    guard held.count > 0 else { return }
    let (rules, hangs) = state.withLock { ($0.faults.armedIDs(now: now), $0.link.isDown(now: now)) }
    held.end { cause in
      switch cause {
      case .rule(let id): !rules.contains(id)
      case .link: !hangs
      case .work: false
      }
    }
  }

  // MARK: Time

  /// Serves timers, until the mount is gone.
  func run() {
    held.run(
      nextTick: { self.state.withLock { $0.nextExpiry(Clock.now()) } },
      tick: {
        let rejoins = self.state.signal { $0.link.expire(now: Clock.now()) }
        if rejoins { self.volume.joinLink() }
        self.settle()
      })
  }

  // MARK: Handles

  /// A file is being opened; its epoch.
  func opened() -> UInt64 {
    state.withLock { state in
      state.openByEpoch[state.link.epoch, default: 0] += 1
      return state.link.epoch
    }
  }
  func closed(_ epoch: UInt64) {
    state.withLock { state in
      let left = (state.openByEpoch[epoch] ?? 1) - 1
      state.openByEpoch[epoch] = left > 0 ? left : nil
    }
  }

  // MARK: What it says

  /// The application has seen a failure.
  func saw(_ rule: String?) {
    state.signal { state in
      if let rule { state.faults.saw(rule) } else { state.linkFailures += 1 }
    }
  }

  /// The rules and the link, as lines that could be written back.
  package var text: String {
    state.withLock { state in state.link.text(now: Clock.now()) + state.faults.text }
  }

  package func log(from place: Int, count: Int) -> [UInt8] { state.withLock { $0.log.bytes(from: place, count: count) } }
  package var logRange: Range<Int> { state.withLock { $0.log.start..<$0.log.end } }

  /// Waits until `id` has fired `count` times; false when it has not within `timeout` seconds.
  package func wait(for id: String, fired count: Int, timeout: Double, cancelled: () -> Bool) throws(ControlError) -> Bool {
    let limit = Clock.now() + UInt64(timeout * 1e9)
    while true {
      let found = state.next(until: min(limit, Clock.now() + 100_000_000)) { state -> Bool? in
        guard let counters = state.faults.counters(id) else { return false }
        return counters.fired >= count ? true : nil
      }
      if let found {
        guard found else { throw ControlError(.ENOENT, line: 1, column: 1, "there is no rule \(id)") }
        return true
      }
      if Clock.now() >= limit || cancelled() { return false }
    }
  }
}

extension FaultState {
  /// Handles of an epoch that fails them are still open.
  var hasOldHandles: Bool {
    openByEpoch.keys.contains { link.answer(forHandleOfEpoch: $0) != nil }
  }

  func isArmed(_ now: UInt64) -> Bool { faults.isArmed(now: now) || faults.isRecording || link.failsCalls(now: now) }

  func interest(_ now: UInt64) -> FaultOperations {
    if faults.isRecording || link.failsCalls(now: now) { return .all }
    return faults.operations(now: now).union(link.epoch > 0 ? .handled : [])
  }

  func mayLose(_ now: UInt64) -> Bool { faults.mayLose(now: now) || link.isDown(now: now) && link.dropsUnsynced }

  func nextExpiry(_ now: UInt64) -> UInt64? {
    [faults.nextExpiry(now: now), link.nextChange(now: now)].compactMap { $0 }.min()
  }
}
