import Containers
import Glibc
import StorageErrors

/// Runs the journal: oldest first, a few at a time, each item when it has been quiet for a while, again with backoff
/// when it failed. An item that fails blocks only those that depend on it.
final class Uploader: Sendable {
  private static let workers = 8

  private struct State {
    var queue = DueQueue()
    /// Items that wait for another one's upload.
    var parked: [ItemID: [Item]] = [:]
    var nextWaiter: UInt64 = 0
    var isPaused = false
    var isStopped = false
    /// Files on their way.
    var sending: [ItemID: UploadProgress] = [:]
    var waitingForUpload: [UInt64: (content: Content, finish: @Sendable (Errno?) -> Void)] = [:]
  }
  private let state = Guarded(State())
  private let threads = WorkerThreads()
  private let calls = RunningCalls()

  func start(_ volume: Volume) {
    for _ in 0..<Self.workers { threads.spawn("docsfs-upload", isBackground: true) { self.work(volume) } }
  }

  func stop() {
    state.signal { $0.isStopped = true }
    calls.stop()
    threads.join()
    let waiting = state.withLock { state in
      defer { state.waitingForUpload = [:] }
      return Array(state.waitingForUpload.values)
    }
    for entry in waiting { entry.finish(.EIO) }
  }

  /// `true` while nothing is to be started: paused by hand, or the link is cut.
  func setPaused(_ paused: Bool) { state.signal { $0.isPaused = paused } }

  /// Something of `item` is to be uploaded when it has been quiet. Under the volume's lock.
  func schedule(_ item: Item, _ volume: Volume) {
    let configuration = volume.configuration
    let now = Clock.now()
    var due = now &+ UInt64(configuration.uploadDelay * 1e9)
    if item.record.isDirty, item.dirtySince != 0 {
      due = max(now, min(due, item.dirtySince &+ UInt64(configuration.uploadBound * 1e9)))
    }
    push(item, at: item.failures > 0 ? max(due, item.dueAt) : due)
  }

  private func push(_ item: Item, at due: UInt64) {
    let isFirst = state.withLock { state in
      item.dueAt = due
      if item.isScheduled { return false }
      item.isScheduled = true
      let next = state.queue.nextDue
      state.queue.push(due, item)
      return next.map { due < $0 } ?? true
    }
    // Whoever sleeps wakes for what is due before it.
    if isFirst { state.signal { _ in } }
  }

  /// Those that failed or wait for one that did are tried now: the link is back, or a person said so.
  func retryAll(_ items: [Item]) {
    state.signal { state in
      for item in items {
        item.dueAt = Clock.now()
        item.isScheduled = true
        state.queue.push(item.dueAt, item)
      }
    }
  }

  func park(_ item: Item, behind id: ItemID) {
    state.withLock { $0.parked[id, default: []].append(item) }
    // Should its wake-up be missed, it is looked at again.
    push(item, at: Clock.now() + 3_000_000_000)
  }

  func wakeParked(behind id: ItemID) {
    state.signal { state in
      for item in state.parked.removeValue(forKey: id) ?? [] {
        item.dueAt = 0
        item.isScheduled = true
        state.queue.push(0, item)
      }
    }
  }

  func retry(_ item: Item, in seconds: Double) { push(item, at: Clock.now() + UInt64(seconds * 1e9)) }

  // MARK: Showing

  func begin(_ id: ItemID, _ progress: UploadProgress) { state.withLock { $0.sending[id] = progress } }
  func end(_ id: ItemID) { state.withLock { $0.sending[id] = nil } }

  /// The files on their way; one for each worker at most.
  var underWay: [(ItemID, UploadProgress)] {
    state.withLock { $0.sending.sorted { $0.key < $1.key }.map { ($0.key, $0.value) } }
  }

  /// When the items are tried again, CLOCK_MONOTONIC ns. May be called under the volume's lock.
  func due(_ items: [Item]) -> [UInt64] { state.withLock { _ in items.map(\.dueAt) } }

  private func work(_ volume: Volume) {
    while let item = nextItem() { volume.upload(item) }
  }

  private func nextItem() -> Item? {
    while true {
      let (item, due, isStopped) = state.withLock { state -> (Item?, UInt64?, Bool) in
        if state.isStopped { return (nil, nil, true) }
        if state.isPaused { return (nil, nil, false) }
        return (state.queue.popDue(Clock.now()), state.queue.nextDue, false)
      }
      if isStopped { return nil }
      if let item { return item }
      let limit = min(due ?? .max, Clock.now() + 1_000_000_000)
      state.wait(until: limit) { state in
        // One that is due before what was waited for shortens the wait.
        let next = state.queue.nextDue ?? .max
        return state.isStopped || !state.isPaused && (next < limit || next <= Clock.now())
      }
    }
  }

  /// A call for one step, which `stop` can end.
  func withCall<R>(_ timeout: Double, _ body: (CallContext) throws(ContainerError) -> R) throws(ContainerError) -> R {
    try calls.with(timeout, body)
  }

  // MARK: fsync=cloud

  /// Answers when the content has been uploaded; interruptible.
  func whenUploaded(
    _ content: Content, _ volume: Volume, _ wait: @escaping Interruptible, _ reply: @escaping Reply<Void>
  ) {
    let interruption = wait()
    let isDirty = volume.locked { $0.pending.contains(content.owner.id) }
    guard isDirty else { return reply(.success(())) }
    let finish: @Sendable (Errno?) -> Void = { reply($0.map { .failure($0) } ?? .success(())) }
    let id = state.withLock { state in
      state.nextWaiter += 1
      state.waitingForUpload[state.nextWaiter] = (content, finish)
      return state.nextWaiter
    }
    interruption.onCancel {
      let entry = self.state.withLock { $0.waitingForUpload.removeValue(forKey: id) }
      entry?.finish(.EINTR)
    }
    uploadEnded(content.owner, nil, volume)
  }

  /// Lets those go who wait for an item that is uploaded by now, or whose upload failed.
  func uploadEnded(_ item: Item, _ failure: Errno?, _ volume: Volume) {
    let isPending = volume.locked { $0.pending.contains(item.id) }
    guard !isPending || failure != nil else { return }
    let entries = state.withLock { state in
      let ids = state.waitingForUpload.filter { $0.value.content.owner === item }.keys
      return ids.compactMap { state.waitingForUpload.removeValue(forKey: $0) }
    }
    for entry in entries { entry.finish(failure) }
  }
}

/// Items by when they are due: a binary heap. An item that was put off is put back when its first time comes.
struct DueQueue {
  private var heap: [(due: UInt64, item: Item)] = []

  var nextDue: UInt64? { heap.first?.due }

  mutating func push(_ due: UInt64, _ item: Item) {
    heap.append((due, item))
    var child = heap.count - 1
    while child > 0 {
      let parent = (child - 1) / 2
      guard heap[child].due < heap[parent].due else { return }
      heap.swapAt(child, parent)
      child = parent
    }
  }

  private mutating func pop() -> (due: UInt64, item: Item)? {
    guard let first = heap.first else { return nil }
    let last = heap.removeLast()
    if !heap.isEmpty {
      heap[0] = last
      var parent = 0
      while true {
        var least = parent
        for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count && heap[child].due < heap[least].due {
          least = child
        }
        if least == parent { break }
        heap.swapAt(parent, least)
        parent = least
      }
    }
    return first
  }

  /// The item that is due first, if it is due by now.
  mutating func popDue(_ now: UInt64) -> Item? {
    while let next = nextDue, next <= now, let (due, item) = pop() {
      guard item.isScheduled else { continue }
      if item.dueAt > due, item.dueAt > now {
        push(item.dueAt, item)
        continue
      }
      item.isScheduled = false
      return item
    }
    return nil
  }
}
