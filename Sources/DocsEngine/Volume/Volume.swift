import CLinux
import Containers
import Faults
import StorageErrors
import Synchronization

/// The engine's namespace over one container: local first, journalled, uploaded in the background.
///
/// One lock guards all of memory and is never held across I/O. An operation runs under it from its beginning, and
/// either ends or says what it lacks (`Need`); that is fetched without the lock, and the operation runs again.
package final class Volume: Sendable {
  package let configuration: VolumeConfiguration
  let container: any Container
  let catalog: Catalog
  let store: ContentStore
  let state: Guarded<VolumeState>
  /// nil: a read-only container without one that is not known yet.
  let containerID: ContainerID?
  /// Content files below this number are of processes before this one.
  let firstContent: Int64
  let kernel = Guarded<(any KernelCache)?>(nil)
  let durability: Durability
  let materializer: Materializer
  let uploader: Uploader
  let remote: RemoteWatcher
  let housekeeper: Housekeeper
  package let counters = VolumeCounters()
  let troubles = Troubles()
  let tracksLosses = Atomic<Bool>(false)
  /// Whether content files are lent to the kernel (`Loan`).
  let lends = Atomic<Bool>(false)
  /// Why not, where they were to be.
  let refusalToLend = Guarded<String?>(nil)

  init(
    _ configuration: VolumeConfiguration, _ container: any Container, _ catalog: Catalog, _ store: ContentStore,
    _ containerID: ContainerID?, _ firstContent: Int64, _ initial: consuming sending VolumeState
  ) {
    self.configuration = configuration
    self.container = container
    self.catalog = catalog
    self.store = store
    self.containerID = containerID
    self.firstContent = firstContent
    state = Guarded(initial)
    durability = Durability(catalog: catalog)
    materializer = Materializer()
    uploader = Uploader()
    remote = RemoteWatcher()
    housekeeper = Housekeeper()
  }

  /// Starts the background's work; `kernel` hears of what changes.
  package func start(kernel cache: any KernelCache) {
    kernel.withLock { $0 = cache }
    durability.start()
    materializer.start(self)
    uploader.start(self)
    remote.start(self)
    housekeeper.start(self)
    locked { state in
      for id in state.pending { if let item = state.items[id] { uploader.schedule(item, self) } }
      uploader.setPaused(!state.link.isConnected)
    }
  }

  /// Ends the background's work and makes everything durable. At most about `timeout` seconds.
  package func stop(timeout: Double) {
    state.withLock { $0.isStopping = true }
    let ended = Guarded(false)
    // On a thread of its own: a container that hangs in the kernel must not keep the local state from being finished.
    WorkerThreads().spawn("docsfs-stop") {
      self.remote.stop()
      self.uploader.stop()
      self.materializer.stop(self)
      self.housekeeper.stop()
      ended.signal { $0 = true }
    }
    if !ended.wait(until: Clock.now() + UInt64(timeout * 1e9), { $0 }) {
      Log.error("the container does not end what it was asked for; left to itself", ["container": container.url])
    }
    kernel.withLock { $0 = nil }
    noticeAllWrites()
    settleDirtySizes()
    flush()
    _ = store.syncAll()
    durability.stop()
    catalog.close()
    locked { $0.closeFiles() }
  }

  // MARK: Running operations

  func locked<R, E: Error>(_ body: (inout VolumeState) throws(E) -> R) throws(E) -> R {
    try state.withLock(body)
  }

  /// Runs `body` until it lacks nothing, and answers. Waits for the container are interruptible.
  func perform<T: Sendable>(
    _ wait: @escaping Interruptible, _ reply: @escaping Reply<T>,
    _ body: @escaping @Sendable (inout VolumeState) throws(Need) -> Outcome<T>
  ) {
    let again: @Sendable (Errno?) -> Void = { errno in
      if let errno { reply(.failure(errno)) } else { self.perform(wait, reply, body) }
    }
    while true {
      do throws(Need) {
        switch try state.withLock({ state throws(Need) in try body(&state) }) {
        case .done(let value): return reply(.success(value))
        case .recorded(let value):
          return commit { errno in reply(errno.map { .failure($0) } ?? .success(value)) }
        }
      } catch {
        switch error {
        case .fail(let errno):
          // Perhaps there is room again, and nobody has looked yet.
          if errno == .ENOSPC, hasRoomAgain() { continue }
          return reply(.failure(errno))
        case .item, .children:
          if let errno = satisfy(error) { return reply(.failure(errno)) }
        case .listing(let folder): return list(folder, wait, again)
        case .whole(let content): return awaitBytes(content, 0..<Int64.max, wait, again)
        }
      }
    }
  }

  private func hasRoomAgain() -> Bool {
    guard locked({ $0.diskIsFull }) else { return false }
    checkRoom()
    return !locked { $0.diskIsFull }
  }

  /// Runs `body`, which needs nothing of the container, and gives its answer at once.
  func performNow<T: Sendable>(_ body: (inout VolumeState) throws(Need) -> T) -> Result<T, Errno> {
    while true {
      do throws(Need) {
        return .success(try state.withLock { state throws(Need) in try body(&state) })
      } catch {
        switch error {
        case .fail(let errno): return .failure(errno)
        case .item, .children:
          if let errno = satisfy(error) { return .failure(errno) }
        case .listing, .whole: return .failure(.EIO)
        }
      }
    }
  }

  /// Brings what the catalog has into memory.
  private func satisfy(_ need: Need) -> Errno? {
    do throws(Errno) {
      switch need {
      case .item(let id): try loadItem(id)
      case .children(let id): try loadChildren(id)
      case .fail(let errno): return errno
      case .listing, .whole: return .EIO
      }
      return nil
    } catch {
      return error
    }
  }

  private func loadItem(_ id: ItemID) throws(Errno) {
    locked { $0.loads += 1 }
    defer { locked { $0.endLoad() } }
    while true {
      let unloads = locked { $0.unloads }
      guard let record = try catalog.record(id) else { throw .ESTALE }
      let isLoaded = try locked { state throws(Errno) in
        guard state.unloads == unloads else { return false }
        guard !state.leaving.contains(id) else { throw .ESTALE }
        if state.items[id] == nil { state.items[id] = Item(record) }
        return true
      }
      if isLoaded { return }
    }
  }

  private func loadChildren(_ id: ItemID) throws(Errno) {
    locked { $0.loads += 1 }
    defer { locked { $0.endLoad() } }
    while true {
      let unloads = locked { $0.unloads }
      let records = try catalog.children(id)
      let installed = locked { state in
        // A folder that was loaded, changed and unloaded in between is read again.
        guard state.unloads == unloads else { return false }
        guard let folder = state.items[id]?.folder, !folder.isLoaded else { return true }
        install(records, of: id, into: folder, &state)
        return true
      }
      if installed {
        shrink()
        return
      }
    }
  }

  /// What is in memory is newer than what was read: it may have been moved or deleted since.
  private func install(_ records: [ItemRecord], of id: ItemID, into folder: Folder, _ state: inout VolumeState) {
    folder.children.reserveCapacity(records.count)
    for record in records where !state.leaving.contains(record.id) {
      if let known = state.items[record.id] {
        guard known.record.place.folder == id, !known.isDeleted, !known.isGone else { continue }
        folder.children[known.record.place.name] = known.id
      } else {
        state.items[record.id] = Item(record)
        folder.children[record.place.name] = record.id
      }
    }
    folder.ordered = nil
    folder.isLoaded = true
    state.tick += 1
    folder.lastUse = state.tick
  }

  // MARK: Committing

  /// Calls `done` when everything that was queued before survives kill -9. Whoever comes first commits for all who
  /// wait at that moment.
  func commit(_ done: @escaping @Sendable (Errno?) -> Void) {
    let leads = locked { state in
      state.waiters.append(done)
      if state.isCommitting { return false }
      state.isCommitting = true
      return true
    }
    guard leads else { return }
    while let batch = locked({ self.takeBatch(&$0) }) {
      var errno = batch.changes.isEmpty ? nil : catalog.commit(batch.changes)
      // What was accepted is finished, from the reserve if need be; what comes next is refused.
      if errno == .ENOSPC, releaseReserve() {
        locked { $0.diskIsFull = true }
        errno = catalog.commit(batch.changes)
      }
      locked { state in
        for item in batch.items { item.isBeingCommitted = false }
        if errno != nil { return self.putBack(batch, &state) }
        for item in batch.dirty { item.dirtyIsRecorded = true }
        state.forgetLeft(batch.changes.removed)
      }
      for waiter in batch.waiters { waiter(errno) }
      if errno == nil {
        for effect in batch.effects { effect() }
        for number in batch.unneededFiles { store.remove(number) }
      }
    }
  }

  /// Commits what is queued, and returns when that is done.
  func flush() {
    let done = Guarded(false)
    commit { _ in done.signal { $0 = true } }
    done.wait { $0 }
  }

  private struct Batch {
    var changes: CatalogChanges
    var items: [Item]
    /// Those whose rows say that their content is dirty.
    var dirty: [Item]
    var waiters: [@Sendable (Errno?) -> Void]
    var effects: [@Sendable () -> Void]
    var unneededFiles: [Int64]
  }

  private func takeBatch(_ state: inout VolumeState) -> Batch? {
    guard !state.waiters.isEmpty else {
      state.isCommitting = false
      return nil
    }
    var changes = CatalogChanges()
    changes.records.reserveCapacity(state.changed.count)
    for item in state.changed {
      item.isQueued = false
      item.isBeingCommitted = true
      if !item.isGone { changes.records.append(item.record) }
    }
    changes.removed = state.removed
    // Numbers are reserved a thousand at a time, ahead of their use, so that none is given out twice after a crash.
    if state.nextItem + 1000 > state.reservedItem {
      state.reservedItem = state.nextItem + 10_000
      changes.facts["nextItem"] = Int64(state.reservedItem)
    }
    if state.nextContent + 1000 > state.reservedContent {
      state.reservedContent = state.nextContent + 10_000
      changes.facts["nextContent"] = state.reservedContent
    }
    defer {
      state.changed = []
      state.removed = []
      state.waiters = []
      state.afterCommit = []
      state.unneededFiles = []
    }
    return Batch(
      changes: changes, items: state.changed, dirty: state.changed.filter { $0.record.isDirty }, waiters: state.waiters,
      effects: state.afterCommit,
      unneededFiles: state.unneededFiles)
  }

  /// A commit failed: its rows wait for the next one, and until the disk has room nothing new is begun.
  private func putBack(_ batch: Batch, _ state: inout VolumeState) {
    for item in batch.items { state.queue(item) }
    state.removed.append(contentsOf: batch.changes.removed)
    state.afterCommit.append(contentsOf: batch.effects)
    state.unneededFiles.append(contentsOf: batch.unneededFiles)
    if batch.changes.facts["nextItem"] != nil { state.reservedItem = state.nextItem }
    if batch.changes.facts["nextContent"] != nil { state.reservedContent = state.nextContent }
    state.diskIsFull = true
  }

  // MARK: Refusals

  /// Whether a change may be made now: EROFS, or ENOSPC while the state disk has no room for the catalog.
  func requireWritable(_ state: VolumeState, needsRoom: Bool = true) throws(Need) {
    if configuration.readOnly { throw .fail(.EROFS) }
    if configuration.offlineWrites == .erofs, !state.link.isConnected { throw .fail(.EROFS) }
    if needsRoom, state.diskIsFull { throw .fail(.ENOSPC) }
  }

  // MARK: The kernel

  func tellKernel(_ body: (any KernelCache) -> Void) {
    if let cache = kernel.withLock({ $0 }) { body(cache) }
  }

  package func forget(_ node: NodeID, count: UInt64) {
    let mustCommit = locked { state in
      let left = (state.lookups[node] ?? 0) &- count
      if left > 0, left < 1 << 62 {
        state.lookups[node] = left
        return false
      }
      state.lookups[node] = nil
      if let content = state.nodes[node] {
        if !content.isCurrent, content.opens == 0 { self.drop(content, &state) }
        if content.isCurrent { state.takeDefaultNode(content.owner) }
      } else if let item = state.items[ItemID(node.rawValue)] {
        state.dropIfUnused(item)
      }
      return !state.unneededFiles.isEmpty
    }
    if mustCommit { commit { _ in } }
  }

  /// A content that no name leads to any more, and nobody has open: its bytes go.
  func drop(_ content: Content, _ state: inout VolumeState) {
    guard !content.isCurrent, content.opens == 0 else { return }
    let number = content.local.withLock { local in
      local.streaming = false
      local.whole = false
      local.extents = RangeSet()
      local.generation += 1
      return local.number
    }
    if state.lookups[content.node] == nil { state.nodes[content.node] = nil }
    if number != 0, number != content.owner.record.content { state.removeContentFile(number) }
    content.local.withLock { $0.number = 0 }
  }
}
