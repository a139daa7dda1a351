import Containers

/// The container calls that are under way for one part of the engine, so that its `stop` can end them.
final class RunningCalls: Sendable {
  private struct State {
    var calls: [UInt64: CallContext] = [:]
    var next: UInt64 = 0
    var isStopped = false
  }
  private let state = Guarded(State())

  /// Runs `body` with a call that ends after `timeout` seconds without progress, or when all are stopped.
  func with<R>(_ timeout: Double, _ body: (CallContext) throws(ContainerError) -> R) throws(ContainerError) -> R {
    let call = CallContext(timeout: timeout)
    let id = state.withLock { state in
      state.next += 1
      state.calls[state.next] = call
      if state.isStopped { call.cancel() }
      return state.next
    }
    defer { state.withLock { _ = $0.calls.removeValue(forKey: id) } }
    return try body(call)
  }

  /// Ends those that run.
  func cancelAll() {
    for call in state.withLock({ Array($0.calls.values) }) { call.cancel() }
  }

  /// Ends those that run, and those that are still to come.
  func stop() {
    let calls = state.withLock { state in
      state.isStopped = true
      return Array(state.calls.values)
    }
    for call in calls { call.cancel() }
  }
}
