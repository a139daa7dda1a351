import Containers
import Faults
import Glibc
import StorageErrors

/// Keeps what is known of the container true: lists folders that somebody asks for, follows the change feed, polls,
/// and knows whether the container is there at all.
final class RemoteWatcher: Sendable {
  private static let listers = 4

  private struct State {
    /// Folders that somebody waits for.
    var wanted: [ItemID] = []
    var hints: Set<ChangeHint> = []
    var hintsSince: UInt64 = 0
    /// Places whose item is just being uploaded; not before this time.
    var later: Set<ChangeHint> = []
    var laterAt: UInt64 = 0
    /// What was not found where it should be, until nothing more of the kind comes for a moment: many small looks
    /// must not pass for less than they are together.
    var missing: Set<ItemID> = []
    var missingSince: UInt64 = 0
    var lastMissing: UInt64 = 0
    var doubt: String?
    var nextPoll: UInt64 = 0
    var nextProbe: UInt64 = 0
    var probes = 0
    var wantsFullScan = false
    var watched: Set<ContainerPath> = []
    /// Folders that could not be looked at, for a reason that may pass: the next poll does.
    var unseen: Set<ContainerPath> = []
    /// Folders that are to be followed at these paths, and are not yet.
    var moved: Set<ContainerPath> = []
    var polls: UInt64 = 0
    var isStopped = false
    /// Somebody has cut the link by command: the container is not asked.
    var isCut = false
    /// The first question after that is still to be asked.
    var isRejoining = false
    /// What the container keeps of what changes need is known, or no change will be made.
    var isTriedOut = false
  }
  private let state = Guarded(State())
  private let threads = WorkerThreads()
  private let calls = RunningCalls()
  private let feed = Guarded<(any ChangeFeed)?>(nil)

  func start(_ volume: Volume) {
    let started = volume.container.changeFeed { [weak self] hints in self?.look(at: hints) }
    feed.withLock { $0 = started }
    state.withLock { state in
      state.nextPoll = Clock.now() + UInt64(volume.configuration.poll * 1e9)
      state.wantsFullScan = true
      state.isTriedOut = volume.configuration.readOnly
    }
    for _ in 0..<Self.listers { threads.spawn("docsfs-list") { self.listWanted(volume) } }
    threads.spawn("docsfs-watch", isBackground: true) { self.watch(volume) }
  }

  func stop() {
    state.signal { $0.isStopped = true }
    calls.stop()
    let started = feed.withLock { feed in
      defer { feed = nil }
      return feed
    }
    started?.stop()
    threads.join()
  }

  // MARK: Asking

  /// Somebody waits for the entries of a folder.
  func want(_ folder: ItemID) { state.signal { $0.wanted.append(folder) } }

  /// These places may have changed.
  func look(at hints: [ChangeHint]) {
    guard !hints.isEmpty else { return }
    state.signal { state in
      if state.hints.isEmpty { state.hintsSince = Clock.now() }
      state.hints.formUnion(hints)
    }
  }

  /// These places are looked at again when the uploads that are under way there may have ended.
  func lookLater(at hints: [ChangeHint]) {
    guard !hints.isEmpty else { return }
    state.withLock { state in
      if state.later.isEmpty { state.laterAt = Clock.now() + 500_000_000 }
      state.later.formUnion(hints)
    }
  }

  /// This folder could not be looked at.
  func lookAtNextPoll(_ folder: ContainerPath) { state.withLock { _ = $0.unseen.insert(folder) } }

  /// These were not found; they are removed when it is known how many they are.
  func miss(_ ids: [ItemID]) {
    guard !ids.isEmpty else { return }
    state.signal { state in
      state.lastMissing = Clock.now()
      if state.missing.isEmpty { state.missingSince = state.lastMissing }
      state.missing.formUnion(ids)
    }
  }

  /// A folder has another path now: it and what is in it is looked at there, and followed from then on.
  func pathsMoved(from path: ContainerPath, to target: ContainerPath) {
    let stale = forgetPaths(under: path)
    let now = stale.map { ContainerPath(target.names + $0.names.dropFirst(path.names.count)) }
    // It may move on before anybody has looked.
    state.withLock { $0.moved.formUnion(now) }
    look(at: now.map { ChangeHint(folder: $0) })
  }

  /// Folders at and below `path` are followed no longer; gives those that were.
  @discardableResult
  func forgetPaths(under path: ContainerPath) -> Set<ContainerPath> {
    let (stale, moved) = state.withLock { state in
      let stale = state.watched.filter { $0.names.starts(with: path.names) }
      let moved = state.moved.filter { $0.names.starts(with: path.names) }
      state.watched.subtract(stale)
      state.moved.subtract(moved)
      return (stale, moved)
    }
    let feed = feed.withLock { $0 }
    for path in stale { feed?.unwatch(path) }
    return stale.union(moved)
  }

  /// A call failed as if the container were gone: find out.
  func doubtLink(_ reason: String) { state.signal { if $0.doubt == nil { $0.doubt = reason } } }

  /// The link is cut by command, until `rejoin`.
  func cut() {
    state.signal { $0.isCut = true }
    calls.cancelAll()
  }

  /// The container is asked again, at once; returns when it has answered, at most after `timeout` seconds.
  func rejoin(timeout: Double) {
    state.signal { state in
      state.isCut = false
      state.isRejoining = true
      state.probes = 0
      state.nextProbe = 0
    }
    state.wait(until: Clock.now() + UInt64(timeout * 1e9)) { !$0.isRejoining || $0.isStopped }
  }

  var isCut: Bool { state.withLock { $0.isCut } }

  /// Everything that is listed is compared once more.
  func rescan() { state.signal { $0.wantsFullScan = true } }

  func withCall<R>(_ volume: Volume, _ body: (CallContext) throws(ContainerError) -> R) throws(ContainerError) -> R {
    try calls.with(volume.configuration.timeo, body)
  }

  /// The feed tells of this folder from now on, where it can.
  func follow(_ path: ContainerPath) {
    guard let feed = feed.withLock({ $0 }) else { return }
    // Also one that is followed: another folder may have taken its place. Noted first, for it may move meanwhile.
    state.withLock { state in if !state.watched.contains(path) { state.moved.insert(path) } }
    guard feed.watch(path) else { return }
    let hasMoved = state.withLock { state in
      guard state.moved.remove(path) != nil || state.watched.contains(path) else { return true }
      state.watched.insert(path)
      return false
    }
    if hasMoved { feed.unwatch(path) }
  }

  func unfollow(_ path: ContainerPath) {
    let known = state.withLock { state in
      guard state.watched.remove(path) != nil else { return false }
      // Perhaps it has only moved; that will be known when it is seen elsewhere.
      state.moved.insert(path)
      return true
    }
    if known { feed.withLock { $0 }?.unwatch(path) }
  }

  func isFollowed(_ path: ContainerPath) -> Bool { state.withLock { $0.watched.contains(path) } }

  // MARK: Working

  private func listWanted(_ volume: Volume) {
    while true {
      let next: ItemID?? = state.next { state in
        if state.isStopped { return .some(nil) }
        return state.wanted.isEmpty ? nil : .some(state.wanted.removeFirst())
      }
      guard let id = next ?? nil else { return }
      volume.listNow(id)
    }
  }

  private enum Task {
    case stop
    case probe(String?)
    case hints([ChangeHint])
    case poll(full: Bool)
    case remove([ItemID])
    case tick
  }

  private func watch(_ volume: Volume) {
    while true {
      switch nextTask(volume) {
      case .stop: return
      case .probe(let doubt): probe(volume, doubt)
      case .hints(let hints): volume.scan(hints)
      case .poll(let full): poll(volume, full: full)
      case .remove(let ids): volume.removeMissing(ids)
      case .tick: volume.expireListings()
      }
    }
  }

  private func nextTask(_ volume: Volume) -> Task {
    let connected = volume.locked { $0.link.isConnected }
    let limit = Clock.now() + 200_000_000
    let task: Task? = state.next(until: limit) { state in
      let now = Clock.now()
      if state.isStopped { return .stop }
      if state.isCut { return nil }
      if let doubt = state.doubt {
        state.doubt = nil
        return .probe(doubt)
      }
      if !connected {
        guard now >= state.nextProbe else { return nil }
        return .probe(nil)
      }
      if !state.later.isEmpty, now >= state.laterAt {
        if state.hints.isEmpty { state.hintsSince = now }
        state.hints.formUnion(state.later)
        state.later = []
      }
      // Changes come in bursts: a twentieth of a second gathers one.
      if !state.hints.isEmpty, now > state.hintsSince + 50_000_000 {
        defer { state.hints = [] }
        return .hints(Array(state.hints))
      }
      if !state.missing.isEmpty, now > state.lastMissing + 300_000_000 || now > state.missingSince + 5_000_000_000 {
        defer { state.missing = [] }
        return .remove(Array(state.missing))
      }
      if state.wantsFullScan {
        state.wantsFullScan = false
        return .poll(full: true)
      }
      if now >= state.nextPoll {
        state.nextPoll = now + UInt64(volume.configuration.poll * 1e9)
        state.polls += 1
        // What the feed follows is polled as well, though seldom: feeds can miss something.
        return .poll(full: state.polls % 10 == 0)
      }
      return nil
    }
    return task ?? .tick
  }

  /// Is the container there, and is it ours?
  private func probe(_ volume: Volume, _ doubt: String?) {
    defer { state.signal { $0.isRejoining = false } }
    var failure: String?
    do throws(ContainerError) {
      let id = try withCall(volume) { call throws(ContainerError) in
        try volume.container.identify(create: false, call)
      }
      if let known = volume.containerID, id != known {
        failure = "\(volume.container.url): another container is there (\(id), not \(known))"
      }
    } catch {
      if error.code != .identityMissing || volume.containerID != nil { failure = error.message }
    }
    guard !isCut else { return }
    let probes = state.withLock { state in
      state.probes = failure == nil ? 0 : state.probes + 1
      let seconds = min(pow(2, Double(min(state.probes, 5))) / 2, max(1, min(30, volume.configuration.poll)))
      state.nextProbe = Clock.now() + UInt64(seconds * 1e9)
      return state.probes
    }
    if let failure {
      if probes == 1 { Log.warning("disconnected", ["container": volume.container.url, "reason": failure]) }
      volume.setLink(.disconnected(.cloud, reason: failure))
    } else {
      volume.setLink(.connected)
    }
  }

  /// So that `status` tells what the container cannot promise before anything is changed there.
  private func tryOut(_ volume: Volume) {
    if state.withLock({ $0.isTriedOut }) { return }
    do throws(ContainerError) {
      try withCall(volume) { call throws(ContainerError) in try volume.container.tryOut(call) }
      state.withLock { $0.isTriedOut = true }
      if let weakness = volume.container.traits.weakness { Log.info(weakness, ["container": volume.container.url]) }
    } catch {
      // The next poll tries again, where that may help; a change does so too, and says what is wrong.
      if !error.isTransient { state.withLock { $0.isTriedOut = true } }
    }
  }

  /// Has the feed ask, and looks at every listed folder that it does not follow; at all of them when `full`, or when the
  /// feed cannot tell.
  private func poll(_ volume: Volume, full: Bool) {
    tryOut(volume)
    let unseen = state.withLock { state in
      defer { state.unseen = [] }
      return state.unseen
    }
    var full = full
    if !full, let feed = feed.withLock({ $0 }) {
      do throws(ContainerError) {
        try withCall(volume) { call throws(ContainerError) in try feed.ask(call) }
      } catch {
        switch error.code {
        case .unreachable, .identityMissing: return doubtLink(error.message)
        case .cancelled: return
        default:
          Log.error("asking for changes failed", ["error": error.message])
          volume.troubles.note(.looking, error.message)
        }
        full = true
      }
    }
    guard let folders = try? volume.catalog.listedFolders() else { return }
    var hints: [ChangeHint] = []
    for id in folders {
      guard case .success(let path) = volume.performNow({ state throws(Need) in try state.remoteFolderPath(id) })
      else { continue }
      if full || !isFollowed(path) || unseen.contains(path) { hints.append(ChangeHint(folder: path)) }
    }
    volume.scan(hints)
  }
}
