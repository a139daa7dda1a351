import CLinux

/// A value behind a pthread mutex, with a condition to wait on. Never held across I/O.
///
/// pthread's mutex: 7 ns uncontended against 22 for `Synchronization.Mutex`, and the thread sanitizer knows it.
package final class Guarded<Value>: @unchecked Sendable {  // `value` is reached only between lock and unlock
  private var value: Value
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let condition: UnsafeMutablePointer<pthread_cond_t>

  package init(_ value: consuming sending Value) {
    self.value = value
    mutex = .allocate(capacity: 1)
    condition = .allocate(capacity: 1)
    pthread_mutex_init(mutex, nil)
    var attributes = pthread_condattr_t()
    pthread_condattr_init(&attributes)
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    pthread_cond_init(condition, &attributes)
    pthread_condattr_destroy(&attributes)
  }

  deinit {
    pthread_mutex_destroy(mutex)
    pthread_cond_destroy(condition)
    mutex.deallocate()
    condition.deallocate()
  }

  @inline(__always)
  package func withLock<R, E: Error>(_ body: (inout Value) throws(E) -> R) throws(E) -> R {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    return try body(&value)
  }

  /// Changes the value and wakes everybody who waits.
  package func signal<R>(_ body: (inout Value) -> R) -> R {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    let result = body(&value)
    pthread_cond_broadcast(condition)
    return result
  }

  /// As `signal`, where one of those who wait is enough.
  package func signalOne<R>(_ body: (inout Value) -> R) -> R {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    let result = body(&value)
    pthread_cond_signal(condition)
    return result
  }

  /// Waits until `ready`, at most until `deadline` (CLOCK_MONOTONIC ns; nil: without end). Whether it became ready.
  @discardableResult
  package func wait(until deadline: UInt64? = nil, _ ready: (inout Value) -> Bool) -> Bool {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    while !ready(&value) {
      if let deadline {
        var t = timespec(tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
        if pthread_cond_timedwait(condition, mutex, &t) == ETIMEDOUT { return ready(&value) }
      } else {
        pthread_cond_wait(condition, mutex)
      }
    }
    return true
  }

  /// Waits until `take` gives something, at most until `deadline`; nil when it did not in time.
  package func next<R>(until deadline: UInt64? = nil, _ take: (inout Value) -> R?) -> R? {
    var result: R?
    wait(until: deadline) { value in
      result = take(&value)
      return result != nil
    }
    return result
  }
}
