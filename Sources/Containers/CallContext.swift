import CLinux
import StorageErrors

/// How long a container call may take, and whether anybody still wants it. Shared by the caller and the worker.
package final class CallContext: Sendable {
  private let state: Guarded<State>
  private let timeout: Double?
  private struct State {
    var cancelled = false
    var deadline: UInt64?
  }

  /// `timeout` in seconds from now; nil: unbounded (the caller cancels).
  package init(timeout: Double? = nil) {
    self.timeout = timeout
    state = Guarded(State(deadline: timeout.map { Clock.now() &+ UInt64($0 * 1e9) }))
  }

  package func cancel() { state.signal { $0.cancelled = true } }
  package var isCancelled: Bool { state.withLock { $0.cancelled } }

  /// Moves the deadline to `seconds` from now: progress was made.
  package func extend(_ seconds: Double) {
    state.withLock { if $0.deadline != nil { $0.deadline = Clock.now() &+ UInt64(seconds * 1e9) } }
  }

  /// Progress was made: as much time again as at the beginning.
  package func progress() { if let timeout { extend(timeout) } }

  /// Throws `.cancelled` or `.timedOut`. Call it between pieces of work.
  package func check(_ what: @autoclosure () -> String) throws(ContainerError) {
    let (cancelled, deadline) = state.withLock { ($0.cancelled, $0.deadline) }
    if cancelled { throw ContainerError(.cancelled, "\(what()): cancelled") }
    if let deadline, Clock.now() > deadline { throw ContainerError(.timedOut, "\(what()): no answer in time") }
  }

  /// Sleeps for `seconds`, or until cancelled or past the deadline, and then throws as `check` does.
  package func sleep(_ seconds: Double, _ what: @autoclosure () -> String) throws(ContainerError) {
    let end = Clock.now() &+ UInt64(max(0, seconds) * 1e9)
    while true {
      try check(what())
      let now = Clock.now()
      if now >= end { return }
      let limit = state.withLock { min(end, $0.deadline.map { $0 &+ 1_000_000 } ?? end) }
      state.wait(until: limit) { $0.cancelled }
    }
  }
}

/// CLOCK_MONOTONIC in nanoseconds.
package enum Clock {
  package static func now() -> UInt64 {
    var t = timespec()
    clock_gettime(CLOCK_MONOTONIC, &t)
    return UInt64(t.tv_sec) &* 1_000_000_000 &+ UInt64(t.tv_nsec)
  }
}

extension Timestamp {
  /// By CLOCK_REALTIME.
  package static func now() -> Timestamp {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    return Timestamp(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
  }
}
