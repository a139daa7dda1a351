import Foundation

/// A value behind a lock. (The engine's `Guarded` needs Linux's condition clocks; this library runs elsewhere too.)
final class Locked<Value>: @unchecked Sendable {  // `value` is reached only under `lock`
  private var value: Value
  private let lock = NSLock()

  init(_ value: consuming sending Value) { self.value = value }

  func update<R, E: Error>(_ body: (inout Value) throws(E) -> R) throws(E) -> R {
    lock.lock()
    defer { lock.unlock() }
    return try body(&value)
  }
}

/// Work on plain threads of its own. A system call on storage that has gone may block for long: in Swift's own pool,
/// which has a thread for each core, a few of those would stop the whole program.
final class Workers<Item: Sendable>: @unchecked Sendable {  // what changes is reached only under `condition`
  private let condition = NSCondition()
  private var waiting: [Item]
  private var next = 0
  private var running = 0
  private var weightInWork: Int64 = 0
  private var isAbandoned = false
  private let weight: @Sendable (Item) -> Int64
  private let budget: Int64

  /// In work at once are items of `budget` together, or a single one that is heavier.
  init(_ items: [Item], budget: Int64 = .max, weight: @escaping @Sendable (Item) -> Int64 = { _ in 0 }) {
    waiting = items
    self.budget = budget
    self.weight = weight
  }

  /// Returns when all is done; `body` may give further items. `keepsWaiting` is asked about ten times a second; when it
  /// says no, what runs still is left alone and false comes back.
  @discardableResult
  func run(
    threads: Int, name: String, keepsWaiting: () -> Bool = { true }, _ body: @escaping @Sendable (Item) -> [Item]
  ) -> Bool {
    for _ in 0..<max(1, threads) {
      let thread = Thread { self.work(body) }
      thread.name = name
      thread.start()
    }
    condition.lock()
    defer { condition.unlock() }
    while running > 0 || next < waiting.count {
      _ = condition.wait(until: Date(timeIntervalSinceNow: 0.1))
      condition.unlock()
      let goesOn = keepsWaiting()
      condition.lock()
      if !goesOn {
        isAbandoned = true
        condition.broadcast()
        return false
      }
    }
    return true
  }

  private func work(_ body: (Item) -> [Item]) {
    while let item = take() {
      let more = body(item)
      condition.lock()
      running -= 1
      weightInWork -= weight(item)
      waiting += more
      condition.broadcast()
      condition.unlock()
    }
  }

  private func take() -> Item? {
    condition.lock()
    defer { condition.unlock() }
    while !isAbandoned {
      if next < waiting.count {
        let item = waiting[next]
        if running == 0 || weightInWork + weight(item) <= budget {
          next += 1
          running += 1
          weightInWork += weight(item)
          return item
        }
      } else if running == 0 {
        condition.broadcast()
        return nil
      }
      condition.wait()
    }
    return nil
  }
}
