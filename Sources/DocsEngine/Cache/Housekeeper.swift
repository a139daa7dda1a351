import CLinux
import Containers
import Glibc
import StorageErrors

/// What has to be seen to now and then, on one thread: commits that nobody waits for, the log's size, the cache's
/// limits, room on the state disk, pins.
final class Housekeeper: Sendable {
  private struct State {
    var wantsCommit = false
    var wantsSweep = false
    var wantsPinned = false
    var wantsLoans = false
    var isStopped = false
  }
  private let state = Guarded(State())
  private let knownQuota = Guarded<Quota?>(nil)
  private let threads = WorkerThreads()

  func start(_ volume: Volume) {
    threads.spawn("docsfs-keep") { self.run(volume) }
    // Of its own: the container may be slow to answer.
    threads.spawn("docsfs-quota") {
      repeat {
        self.refreshQuota(volume)
      } while !self.state.wait(
        until: Clock.now() + 15_000_000_000, { $0.isStopped })
    }
    state.signal { state in
      state.wantsPinned = true
      state.wantsLoans = true
    }
  }
  func stop() {
    state.signal { $0.isStopped = true }
    threads.join()
  }

  func commitSoon() { state.signal { $0.wantsCommit = true } }
  /// Look at the cache's limits now.
  func wake() { state.signal { $0.wantsSweep = true } }
  func materializePinned() { state.signal { $0.wantsPinned = true } }

  /// A file that was lent could not be taken back yet: the kernel closes it only just after it says so, or it is mapped.
  func takeBackSoon() { state.signal { $0.wantsLoans = true } }

  func wakeIfFull(_ volume: Volume) {
    guard let limit = volume.configuration.cacheSize, volume.locked({ $0.cacheBytes > limit }) else { return }
    wake()
  }

  /// The container's, as it was lately; statfs never waits for it.
  var quota: Quota? { knownQuota.withLock { $0 } }

  private func refreshQuota(_ volume: Volume) {
    guard volume.locked({ $0.link.isConnected }) else { return }
    let found = try? volume.remote.withCall(volume) { call throws(ContainerError) in
      try volume.container.quota(call)
    }
    if let found { knownQuota.withLock { $0 = found } }
  }

  private func run(_ volume: Volume) {
    volume.removeOrphans()
    while true {
      let work = state.next(until: Clock.now() + 1_000_000_000) { state -> State? in
        guard state.isStopped || state.wantsCommit || state.wantsSweep || state.wantsPinned || state.wantsLoans
        else { return nil }
        let now = state
        state.wantsCommit = false
        state.wantsSweep = false
        state.wantsPinned = false
        state.wantsLoans = false
        return now
      }
      if work?.isStopped == true { return }
      if work?.wantsCommit == true {
        // A few more may want the same.
        usleep(20_000)
        volume.commit { _ in }
      }
      if work?.wantsLoans == true { usleep(1_000) }
      if work == nil || work?.wantsLoans == true { volume.noticeAllWrites() }
      if work?.wantsPinned == true { volume.streamPinned() }
      if work == nil || work?.wantsSweep == true {
        volume.catalog.checkpointIfLarge()
        volume.checkRoom()
        volume.sweepCache()
        volume.shrink()
      }
    }
  }
}

extension Volume {
  /// Content files that no item has: of fetches whose commit did not come before a crash.
  func removeOrphans() {
    guard let known = try? catalog.contentNumbers() else { return }
    for number in store.numbers() where number < firstContent && !known.contains(number) {
      let isUsed = locked { state in state.items.values.contains { $0.record.content == number } }
      if !isUsed { store.remove(number) }
    }
  }

  // MARK: Room

  private static let lowRoom: Int64 = 2 << 20
  private static let reserveSize: off_t = 4 << 20

  /// While the state disk is full, changes that need room are refused, and what is under way is finished from a
  /// reserve.
  func checkRoom() {
    guard let space = store.space() else { return }
    // What was accepted is finished, from the reserve if need be.
    if catalog.lacksRoom, releaseReserve() { locked { $0.diskIsFull = true } }
    let isFull = locked { $0.diskIsFull }
    if !isFull, space.free < Self.lowRoom {
      locked { $0.diskIsFull = true }
      Log.error(
        "the state disk is full; writes are refused until there is room", ["state": configuration.stateDirectory])
    } else if isFull, space.free > Self.lowRoom * 2 + Int64(Self.reserveSize) {
      flush()
      guard makeReserve() else { return }
      locked { $0.diskIsFull = false }
      Log.info("the state disk has room again", ["state": configuration.stateDirectory])
    }
  }

  /// A few blocks that are given back when a commit finds no room. Whether they are there.
  @discardableResult
  func makeReserve() -> Bool {
    let fd = lx_openat(store.stateFile.fd, "reserve", O_RDWR | O_CREAT, 0o600)
    guard fd >= 0 else { return false }
    defer { close(fd) }
    return posix_fallocate(fd, 0, Self.reserveSize) == 0
  }

  func releaseReserve() -> Bool { unlinkat(store.stateFile.fd, "reserve", 0) == 0 }

  // MARK: The cache's limits

  /// Evicts what was used longest ago until the cache and the disk are within their limits.
  func sweepCache() { evictOldest(cacheExcess()) }

  /// The state disk is full: evicts a little more than `count` bytes. Whether there was anything to evict.
  @discardableResult
  func makeRoom(for count: Int64) -> Bool {
    let before = locked { $0.cacheBytes }
    evictOldest(count + Self.lowRoom + Int64(Self.reserveSize) * 2)
    flush()
    checkRoom()
    return locked { $0.cacheBytes } < before
  }

  private func evictOldest(_ count: Int64) {
    var excess = count
    guard excess > 0 else { return }
    // What was used last is in the catalog.
    flush()
    var after: Int64 = 0
    while excess > 0 {
      guard let candidates = try? catalog.evictable(limit: 200, after: after), let last = candidates.last else {
        return
      }
      var freed: Int64 = 0
      for record in candidates where freed < excess {
        if case .success(let count) = performNow({ state throws(Need) in try self.evictQuietly(record.id, &state) }) {
          freed += count
        }
      }
      commit { _ in }
      excess -= freed
      if candidates.count < 200 || last.used == after && freed == 0 { return }
      after = freed == 0 ? last.used : 0
    }
  }

  /// Bytes over `cache_size`, or missing to `min_free`.
  private func cacheExcess() -> Int64 {
    var excess: Int64 = 0
    if let limit = configuration.cacheSize { excess = locked { $0.cacheBytes } - limit }
    if let space = store.space() {
      let wanted: Int64 =
        switch configuration.minFree {
        case .bytes(let count): count
        case .percent(let percent): Int64(Double(space.total) * percent / 100)
        }
      excess = max(excess, min(wanted - space.free, locked { $0.cacheBytes }))
    }
    return excess
  }

  private func evictQuietly(_ id: ItemID, _ state: inout VolumeState) throws(Need) -> Int64 {
    let item = try state.item(id)
    let bytes = item.record.bytes
    return try refusalToEvict(item, state) == nil
      ? {
        evict(item, &state); return bytes
      }() : 0
  }

  // MARK: Memory

  /// So many folder uses back, a folder stays in memory whatever the limit: an operation that has just had it
  /// loaded must find it there, or it would begin again for ever.
  private static let recentUses: UInt64 = 32

  /// Lets folders that were not used for long leave memory when there are too many items in it. Items that are to be
  /// uploaded cannot leave, and do not count.
  func shrink() {
    let limit = configuration.itemsInMemory
    if locked({ self.shrink(to: limit, &$0) }) { materializer.settleSoon() }
  }

  /// Whether there is still too much.
  private func shrink(to limit: Int, _ state: inout VolumeState) -> Bool {
    guard state.freeItems > limit + limit / 8 else { return false }
    state.unloads += 1
    let folders = state.items.values.filter { $0.folder?.isLoaded == true }
      .sorted { ($0.folder?.lastUse ?? 0) < ($1.folder?.lastUse ?? 0) }
    for item in folders where state.freeItems > limit { unload(item, &state) }
    guard state.freeItems > limit else { return false }
    // Items that came one by one.
    for item in Array(state.items.values) where !item.isBusy && item.id != .root {
      if state.items[item.record.place.folder]?.folder?.isLoaded != true { state.items[item.id] = nil }
    }
    return state.freeItems > limit
  }

  /// A folder leaves memory with its entries, if none of them is in use.
  private func unload(_ item: Item, _ state: inout VolumeState) {
    guard let folder = item.folder, folder.opens == 0, !folder.isListing,
      folder.lastUse + Self.recentUses < state.tick,
      item.id != .root || folder.children.count > 1000
    else { return }
    let children = folder.children.values.compactMap { state.items[$0] }
    guard children.allSatisfy({ !$0.isBusy }) else { return }
    for child in children { state.items[child.id] = nil }
    folder.children = [:]
    folder.ordered = nil
    folder.isLoaded = false
  }
}
