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
  let isAllowed: Bool
  /// The operations that somebody has an interest in, a bit each: all others pass without a lock.
  private let interest = Atomic<UInt64>(0)
  private let cachesAreOff = Atomic<Bool>(false)
  private let epochNow = Atomic<Int>(0)
  private let owesRefresh = Atomic<Bool>(false)
  private let namesMatterNow = Atomic<Bool>(false)
  let caches = Guarded<CacheRefresh?>(nil)

  package init(volume: Volume, isAllowed: Bool) {
    self.volume = volume
    self.isAllowed = isAllowed
  }

  /// Of the link: counts reconnects.
  var epoch: Int { epochNow.load(ordering: .relaxed) }
  /// While something is armed, the kernel must ask about everything.
  var forbidsCaching: Bool { cachesAreOff.load(ordering: .relaxed) }

  /// While lookups may fail, each has to arrive once. Otherwise the kernel keeps its names, that of `.docsfs` above all:
  /// it cannot look that up anew while a call that makes or removes a name in the root is held.
  var namesMatter: Bool { namesMatterNow.load(ordering: .relaxed) }

  func isInterested(in operation: FaultOperation) -> Bool {
    let wanted = interest.load(ordering: .relaxed)
    return wanted != 0 && FaultOperations(rawValue: wanted).contains(operation)
  }

  /// Whether opens shall go past the page cache: each read has to arrive as it was made.
  var wantsDirectReads: Bool {
    guard forbidsCaching || epoch > 0 else { return false }
    return state.withLock { state in
      state.failsByLink || state.hasOldHandles || state.faults.operations(Clock.now()).contains(.read)
    }
  }

  // MARK: Commands

  /// Carries out a command that concerns faults; false for one that does not. It holds once `reachKernel` has returned,
  /// which several may share. EPERM: the volume is mounted with faults=off.
  package func carryOut(_ statement: ControlStatement) throws(ControlError) -> Bool {
    guard isAllowed || !statement.command.isForFaults && !statement.command.isForCloud else {
      throw statement.place.error("this volume is mounted with faults=off; mount it without", .EPERM)
    }
    guard statement.command.isForFaults else { return false }
    try state.signal { state -> Result<Void, ControlError> in
      if state.isEnding { return .failure(statement.place.error("this mount is about to end", .EBUSY)) }
      do throws(ControlError) { return .success(try state.apply(statement, now: Clock.now())) } catch {
        return .failure(error)
      }
    }.get()
    settle()
    switch statement.command {
    // Rules of the same name are other ones.
    case .replace: held.end { if case .rule = $0 { true } else { false } }
    case .disconnect(let profile, _) where profile.isEngines:
      volume.cutLink(reason: "disconnected by command; docsfs reconnect mends it")
    case .disconnect, .reconnect: volume.joinLink()
    default: break
    }
    return true
  }

  /// Brings everything in line with the rules and the link as they are now.
  private func settle() {
    let now = Clock.now()
    let (isArmed, wasArmed) = state.withLock { state in
      publish(state, now)
      volume.trackLosses(state.mayLose(now))
      let isArmed = state.isArmed(now)
      return (isArmed, cachesAreOff.exchange(isArmed, ordering: .acquiringAndReleasing))
    }
    endHeld(now)
    if isArmed || wasArmed { owesRefresh.store(true, ordering: .releasing) }
    held.poke()
  }

  /// After commands: the kernel answers nothing any more from what it knew before them.
  package func reachKernel() {
    let owes = owesRefresh.exchange(false, ordering: .acquiringAndReleasing)
    let isArmed = forbidsCaching
    // Somebody else may have taken the debt over, and not be done with it.
    if owes || isArmed { caches.withLock { $0 }?.refresh(wait: isArmed) }
  }

  /// Calls that a rule or the link holds, and does not any more, go on.
  private func endHeld(_ now: UInt64) {
    guard held.count > 0 else { return }
    let (rules, isDown) = state.withLock { ($0.faults.lastingIDs(now), $0.failsByLink) }
    held.end { cause in
      switch cause {
      case .rule(let id): !rules.contains(id)
      case .link: !isDown
      case .work: false
      }
    }
  }

  /// Holds a call until it is due, or what holds it is over. False when its caller was interrupted already.
  func hold(_ call: HeldCall) -> Bool {
    guard held.add(call) else { return false }
    // A command may have ended the cause since the call was judged, when there was nothing to let go yet.
    if !lasts(call.cause), let call = held.take(call.unique) { call.goOn(call, true) }
    return true
  }

  private func lasts(_ cause: HoldCause) -> Bool {
    switch cause {
    case .rule(let id): state.withLock { $0.faults.lasts(id, Clock.now()) }
    case .link: failsByLink
    case .work: true
    }
  }

  /// The mount is about to end: nobody is held any more, nothing fails, and nothing can be armed.
  package func letGo() {
    state.signal { state in
      state.isEnding = true
      state.faults = FaultSet()
      state.link.reconnect()
    }
    settle()
    reachKernel()
  }

  // MARK: Time

  /// Serves timers, until the mount is gone.
  func run() {
    held.run(
      nextTick: { moment in self.state.withLock { $0.nextExpiry(after: moment) } },
      tick: {
        let mends = self.state.signal { $0.link.expire(now: Clock.now()) }
        self.settle()
        self.reachKernel()
        if mends { self.volume.joinLink() }
      })
  }

  // MARK: Handles

  /// A file or folder is being opened.
  func opened(_ node: NodeID, by opener: CallerIdentity) -> LinkMoment {
    state.withLock { state in
      let moment = LinkMoment(epoch: state.link.epoch, disconnects: state.link.disconnects)
      state.open[node, default: []].append(OpenMoment(moment: moment, opener: opener.pid))
      return moment
    }
  }

  func closed(_ node: NodeID, _ moment: LinkMoment, by opener: CallerIdentity) {
    let closed = OpenMoment(moment: moment, opener: opener.pid)
    state.withLock { state in
      guard var moments = state.open[node], let index = moments.firstIndex(of: closed) else { return }
      moments.remove(at: index)
      state.open[node] = moments.isEmpty ? nil : moments
      // Once the last broken handle is closed, nobody looks at calls on handles any more.
      if state.link.epoch > 0 { publish(state, Clock.now()) }
    }
  }

  /// What requests look at without the lock, which is held here: so that it never falls behind.
  private func publish(_ state: FaultState, _ now: UInt64) {
    interest.store(state.interest(now).rawValue, ordering: .releasing)
    epochNow.store(state.link.epoch, ordering: .releasing)
    namesMatterNow.store(state.namesMatter(now), ordering: .releasing)
  }

  var failsByLink: Bool { state.withLock { $0.failsByLink } }

  // MARK: What it says

  /// The application sees a failure that `answer` gives it; false: it was gone already. Counted first, because it may
  /// ask at once.
  func seen(_ rule: String?, _ answer: () -> Bool) {
    count(rule, 1)
    if !answer() { count(rule, -1) }
  }

  private func count(_ rule: String?, _ times: Int) {
    state.signal { state in
      if let rule { state.faults.saw(rule, times) } else { state.linkFailures += times }
    }
  }

  /// The link, the cloud's conditions and the rules, as lines that could be written back.
  package func text(cloud: ControlCommand?) -> String {
    state.withLock { state in
      let now = Clock.now()
      return state.faults.text(link: [state.link.text(now: now), cloud?.text].compactMap { $0 }, now: now)
    }
  }

  package func log(from place: Int, count: Int) -> [UInt8] {
    state.withLock { $0.log.bytes(from: place, count: count) }
  }
  package var logRange: Range<Int> { state.withLock { $0.log.start..<$0.log.end } }

  /// Waits until the rule's counter is at least `count`; false when it is not within `timeout` seconds, or `cancelled`
  /// says so. ENOENT: there is no such rule.
  package func wait(
    for id: String, _ counter: FaultCounter, atLeast count: Int, timeout: Double?, cancelled: () -> Bool
  ) throws(Errno) -> Bool {
    let limit = timeout.map { Clock.now() + UInt64($0 * 1e9) } ?? .max
    while true {
      let found = state.next(until: min(limit, Clock.now() + 100_000_000)) { state -> Bool? in
        guard let counters = state.faults.counters(id) else { return false }
        return counters[counter] >= count ? true : nil
      }
      if let found {
        guard found else { throw .ENOENT }
        return true
      }
      if Clock.now() >= limit || cancelled() { return false }
    }
  }
}

extension ControlCommand {
  /// Whether it changes how the container's side behaves.
  fileprivate var isForCloud: Bool { if case .cloud = self { true } else { false } }

  /// Whether it changes rules, the link or the log.
  fileprivate var isForFaults: Bool {
    switch self {
    case .add, .change, .record, .replace, .del, .clear, .seed, .disconnect, .reconnect, .mark: true
    default: false
    }
  }
}

extension FaultState {
  mutating func apply(_ statement: ControlStatement, now: UInt64) throws(ControlError) {
    switch statement.command {
    case .mark(let text): log.append(.mark(text))
    case .disconnect(let profile, let duration):
      link.disconnect(profile, until: duration.map { now &+ $0 })
      laterFrom = now + 5_000_000_000
    case .reconnect: link.reconnect()
    default: try faults.apply(statement, now: now)
    }
  }

  /// The link is down, and it is not the engine alone that answers for that.
  var failsByLink: Bool { link.profile.map { !$0.isEngines } ?? false }

  /// Handles from before the link went down, or that an earlier disconnect has broken, are still open.
  var hasOldHandles: Bool {
    guard failsByLink || link.epoch > 0 else { return false }
    return open.values.contains { $0.contains { isOld($0.moment) } }
  }

  private func isOld(_ opened: LinkMoment) -> Bool {
    link.answer(forHandleOfEpoch: opened.epoch) != nil || failsByLink && opened.disconnects != link.disconnects
  }

  func isArmed(_ now: UInt64) -> Bool { faults.isArmed(now) || faults.record || failsByLink }

  func interest(_ now: UInt64) -> FaultOperations {
    if faults.record || failsByLink { return .all }
    let wanted = faults.operations(now).union(hasOldHandles ? .handled : [])
    // Lookups tell the kernel's second try of a call from another call.
    return wanted.isEmpty && retries.isEmpty ? [] : wanted.union(FaultOperations(.lookup))
  }

  func namesMatter(_ now: UInt64) -> Bool {
    faults.record || failsByLink || faults.operations(now).contains(.lookup)
  }

  func mayLose(_ now: UInt64) -> Bool { faults.mayLose(now) || failsByLink && link.profile?.dropsUnsynced == true }

  func nextExpiry(after moment: UInt64) -> UInt64? {
    [faults.nextExpiry(after: moment), link.until].compactMap { $0 }.min()
  }
}
