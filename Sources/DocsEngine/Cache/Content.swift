import Containers
import StorageErrors

/// The local bytes of one lineage of a file's content: what a kernel node reads and writes.
///
/// Local edits and truncations stay within a `Content`; a remote version that replaces the content, and a conflict
/// copy that takes it over, get another one. Handles keep theirs.
final class Content: @unchecked Sendable {  // guarded by the volume's lock, `local` by its own
  var owner: Item
  var node: NodeID
  var opens = 0
  /// write(2) calls between their mark in the catalog and their last byte.
  var writesInFlight = 0
  var loan: Loan?
  /// Programs have written past the kernel's pages of the node, which are older. Until nobody has it open.
  var hasStalePages = false

  let local: Guarded<LocalBytes>

  init(owner: Item, node: NodeID, _ local: LocalBytes) {
    self.owner = owner
    self.node = node
    self.local = Guarded(local)
  }

  /// Whether this is (still) what the item's path leads to. Under the volume's lock.
  var isCurrent: Bool { owner.content === self }
  var isWhole: Bool { local.withLock { $0.whole } }
}

/// Which bytes of a content are there, who waits for others, and which are on their way.
struct LocalBytes {
  /// The content file; 0: none yet.
  var number: Int64
  var file: ContentFile?
  var whole: Bool
  var extents: RangeSet
  var size: Int64
  /// The container's version that missing bytes are of; nil for content that was made here.
  var version: Version?
  /// Counts truncations to nothing: bytes that were fetched for an older generation are dropped.
  var generation = 0

  var waiters: [Waiter] = []
  var nextWaiter = 0
  var inFlight = RangeSet()
  var fetches = 0
  /// How often it is listed as having bytes that the catalog does not know of yet.
  var unsettled = 0
  var streaming = false
  /// CLOCK_MONOTONIC ns of the last byte that came, or of the first waiter.
  var lastProgress: UInt64 = 0
  var failures = 0
  /// All have come, and are just being added up.
  var isProving = false
  /// How often in a row all had come and did not add up to the version's digest.
  var unproven = 0
  /// Where the last fetch for a reader ended, and by how much it went beyond what was asked.
  var demandEnd: Int64 = -1
  var sequential: Int64 = 0
  var readAhead: Int64 = 0
  /// The bytes as the last fsync left them, while losses are tracked and there were changes since.
  var synced: SyncedImage?

  struct Waiter {
    var id: Int
    var range: Range<Int64>
    var since: UInt64
    var finish: @Sendable (Errno?) -> Void
  }

  /// `..<Int64.max` asks for all of it, which is only granted when every fetch has proven its version.
  func has(_ range: Range<Int64>) -> Bool {
    whole || range.upperBound != .max && extents.contains(range.clamped(to: 0..<max(0, size)))
  }

  /// All bytes have come, and nobody has said yet that they are whole.
  var isComplete: Bool { fetches == 0 && !whole && version != nil && extents.contains(0..<size) }

  func isFetched(into number: Int64, of generation: Int) -> Bool {
    self.number == number && self.generation == generation
  }

  /// The local bytes that count for the cache.
  var localCount: Int64 { whole ? size : extents.count }

  /// Takes out the waiters that have what they wait for.
  mutating func satisfied() -> [Waiter] {
    guard !waiters.isEmpty else { return [] }
    let ready = waiters.filter { has($0.range) }
    if !ready.isEmpty {
      let done = Set(ready.map(\.id))
      waiters.removeAll { done.contains($0.id) }
    }
    return ready
  }

  mutating func takeWaiters() -> [Waiter] {
    defer { waiters = [] }
    return waiters
  }
}

extension Content {
  /// Adds a waiter for `range`, or answers nil when it is there already.
  func wait(for range: Range<Int64>, _ finish: @escaping @Sendable (Errno?) -> Void) -> Int? {
    local.withLock { local in
      if local.has(range) { return nil }
      local.nextWaiter += 1
      let now = Clock.now()
      if local.waiters.isEmpty { local.lastProgress = now }
      local.waiters.append(.init(id: local.nextWaiter, range: range, since: now, finish: finish))
      return local.nextWaiter
    }
  }

  func cancelWait(_ id: Int) {
    let waiter = local.withLock { local -> LocalBytes.Waiter? in
      guard let index = local.waiters.firstIndex(where: { $0.id == id }) else { return nil }
      return local.waiters.remove(at: index)
    }
    waiter?.finish(.EINTR)
  }

  /// Everybody who waits gets `errno`.
  func failWaiters(_ errno: Errno) {
    let waiters = local.withLock { $0.takeWaiters() }
    for waiter in waiters { waiter.finish(errno) }
  }

  /// The content file, opened on first use; `create` makes it if there is none. `number` must have been given out.
  func openFile(_ store: ContentStore, create: Bool) throws(Errno) -> ContentFile {
    let (file, number) = local.withLock { ($0.file, $0.number) }
    if let file { return file }
    guard number != 0 else { throw .ENOENT }
    let opened = try store.open(number, create: create)
    return local.withLock { local in
      if local.number != number { return opened }
      if let file = local.file { return file }
      local.file = opened
      return opened
    }
  }

  /// The content file that a fetch of `generation` was planned for, made if there is none: never the one that has taken
  /// its place since. ECANCELED: it was truncated or evicted meanwhile, and nobody wants these bytes any more.
  func openFile(_ store: ContentStore, number: Int64, of generation: Int) throws(Errno) -> ContentFile {
    let (isWanted, known) = local.withLock { ($0.isFetched(into: number, of: generation), $0.file) }
    guard isWanted else { throw .ECANCELED }
    if let known { return known }
    let opened = try store.open(number, create: true)
    let kept = local.withLock { local -> ContentFile? in
      guard local.isFetched(into: number, of: generation) else { return nil }
      local.file = local.file ?? opened
      return local.file
    }
    if let kept { return kept }
    // Perhaps it was made anew just now. Numbers are never used twice.
    store.remove(number)
    throw .ECANCELED
  }

  /// The content file was taken away from outside. What the container has can be fetched again: true.
  func forgetLostFile() -> Bool {
    local.withLock { local in
      guard local.version != nil else { return false }
      local.whole = false
      local.extents = RangeSet()
      local.file = nil
      return true
    }
  }
}
