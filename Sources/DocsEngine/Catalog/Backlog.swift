import CSQLite
import Containers
import Glibc
import StorageErrors

/// What the commit log has and the database does not: brought there by one thread, many commits at once, each row as it
/// was last.
final class Backlog: Sendable {
  private struct State {
    var waiting: [(sequence: UInt64, changes: CatalogChanges)] = []
    var rows = 0
    /// The last commit that was taken in, and the last that the database has.
    var taken: UInt64 = 0
    var applied: UInt64 = 0
    var isHurried = false
    var isStopped = false
    /// Nobody brings anything any more: what is left stays in the log, for the next process.
    var isEnded = false
    /// Why the database cannot take it now; it is tried again.
    var failure: Errno?
  }

  /// So many rows are brought at once, and so many may wait before commits are held up.
  private static let batch = 2_000
  private static let limit = 50_000
  /// How long a commit may wait for others to go with it, in ns.
  private static let pause: UInt64 = 50_000_000

  private let state = Guarded(State())
  private let threads = WorkerThreads()

  /// `apply` writes the changes and the number of the last commit among them in one transaction.
  func start(from applied: UInt64, _ apply: @escaping @Sendable (CatalogChanges, UInt64) -> Errno?) {
    state.withLock { state in
      state.applied = applied
      state.taken = applied
    }
    threads.spawn("docsfs-catalog", isBackground: true) { self.run(apply) }
  }

  /// Ends when all is applied, or cannot be.
  func stop() {
    state.signal { $0.isStopped = true }
    threads.join()
  }

  /// Why nothing may be added now.
  var failure: Errno? { state.withLock { $0.failure } }

  func add(_ sequence: UInt64, _ changes: CatalogChanges) {
    let isDue = state.withLock { state in
      let wasDue = state.rows >= Self.batch
      let wasEmpty = state.waiting.isEmpty
      state.waiting.append((sequence, changes))
      state.rows += changes.records.count + changes.removed.count
      state.taken = sequence
      return wasEmpty || !wasDue && state.rows >= Self.batch
    }
    // Nobody is woken for each: what comes within a moment goes together.
    if isDue { state.signal { _ in } }
    if state.withLock({ $0.rows > Self.limit }) {
      state.wait { $0.rows <= Self.limit || $0.failure != nil || $0.isStopped }
    }
  }

  /// Waits until the database has all that was committed before: what reads from it reads that.
  func drain() throws(Errno) {
    let (target, failure) = state.withLock { ($0.taken, $0.applied == $0.taken ? nil : $0.failure) }
    if let failure { throw failure }
    if state.withLock({ $0.applied >= target }) { return }
    state.signal { $0.isHurried = true }
    var outcome: Errno?
    state.wait { state in
      if state.applied >= target { return true }
      outcome = state.failure ?? (state.isEnded ? .EIO : nil)
      return outcome != nil
    }
    if let outcome { throw outcome }
  }

  private func run(_ apply: (CatalogChanges, UInt64) -> Errno?) {
    defer { state.signal { $0.isEnded = true } }
    while let (last, changes) = next() {
      while let errno = apply(changes, last) {
        let isStopped = state.signal { state in
          state.failure = errno
          return state.isStopped
        }
        if isStopped { return }
        state.wait(until: Clock.now() + 100_000_000) { $0.isStopped }
      }
      state.signal { state in
        state.failure = nil
        state.applied = last
      }
    }
  }

  /// All that waits, each item's row once.
  private func next() -> (UInt64, CatalogChanges)? {
    state.wait { !$0.waiting.isEmpty || $0.isStopped }
    state.wait(until: Clock.now() + Self.pause) { $0.isHurried || $0.isStopped || $0.rows >= Self.batch }
    let waiting = state.signal { state in
      defer {
        state.waiting = []
        state.rows = 0
        state.isHurried = false
      }
      return state.waiting
    }
    guard let last = waiting.last else { return nil }
    return (last.sequence, Self.merge(waiting.map(\.changes)))
  }

  private static func merge(_ list: [CatalogChanges]) -> CatalogChanges {
    guard list.count > 1 else { return list[0] }
    var rows: [ItemID: ItemRecord?] = [:]
    var merged = CatalogChanges()
    for changes in list {
      for record in changes.records { rows[record.id] = .some(record) }
      for id in changes.removed { rows[id] = .some(nil) }
      merged.facts.merge(changes.facts) { $1 }
    }
    for (id, record) in rows {
      if let record { merged.records.append(record) } else { merged.removed.append(id) }
    }
    return merged
  }
}
