import Containers
import Faults
import StorageErrors

/// Which runs are still to be done. For each kind of operation and each errno the first call fails, the second, and so
/// on, until a run does not come to the call that was to fail.
final class SweepQueue: Sendable {
  private struct Series {
    var operation: FaultOperation
    var errno: Errno
    /// So many calls were recorded: these can be run side by side. Beyond, each waits for the one before it.
    var recorded: Int
    var next = 1
    var underWay = 0
    var hasEnded = false
  }
  private struct State {
    var series: [Series]
    var outcomes: [SweepOutcome] = []
    var failure: Failure?
  }
  private let state: Guarded<State>

  init(recorded: [FaultOperation: Int], _ plan: SweepPlan) {
    var series: [Series] = []
    for operation in FaultOperation.allCases where plan.operations?.contains(operation) ?? true {
      guard let count = recorded[operation] else { continue }
      for errno in plan.errnos where SweepPlan.mayFail(operation, with: errno) {
        series.append(Series(operation: operation, errno: errno, recorded: count))
      }
    }
    state = Guarded(State(series: series))
  }

  var isEmpty: Bool { state.withLock { $0.series.isEmpty } }

  /// How many runs are done, and how many there will be, as far as is known.
  var progress: (done: Int, total: Int) {
    state.withLock { state in
      let left = state.series.reduce(0) { sum, series in
        sum + series.underWay + (series.hasEnded ? 0 : max(0, series.recorded + 1 - series.next))
      }
      return (state.outcomes.count, state.outcomes.count + left)
    }
  }

  /// Waits for something to do; nil: all is done, or has failed.
  func take() -> SweepFault? {
    enum Next {
      case run(SweepFault)
      case end
    }
    let next = state.next { state -> Next? in
      if state.failure != nil { return .end }
      for index in state.series.indices {
        let series = state.series[index]
        guard !series.hasEnded, series.next <= series.recorded || series.underWay == 0 else { continue }
        state.series[index].next += 1
        state.series[index].underWay += 1
        return .run(SweepFault(operation: series.operation, ordinal: series.next, errno: series.errno))
      }
      return state.series.allSatisfy { $0.underWay == 0 } ? .end : nil
    }
    guard case .run(let fault) = next else { return nil }
    return fault
  }

  func done(_ fault: SweepFault, _ result: Result<SweepOutcome, Failure>) {
    state.signal { state in
      let index = state.series.firstIndex { $0.operation == fault.operation && $0.errno == fault.errno }
      if let index { state.series[index].underWay -= 1 }
      switch result {
      case .success(let outcome) where outcome.fired > 0: state.outcomes.append(outcome)
      case .success: if let index { state.series[index].hasEnded = true }
      case .failure(let failure): state.failure = state.failure ?? failure
      }
    }
  }

  /// When all is done: in the order of operations, errnos and calls.
  func outcomes() throws(Failure) -> [SweepOutcome] {
    let (outcomes, series, failure) = state.withLock { ($0.outcomes, $0.series, $0.failure) }
    if let failure { throw failure }
    func rank(_ outcome: SweepOutcome) -> (Int, Int) {
      let fault = outcome.fault
      let place = series.firstIndex { $0.operation == fault?.operation && $0.errno == fault?.errno }
      return (place ?? 0, fault?.ordinal ?? 0)
    }
    return outcomes.sorted { rank($0) < rank($1) }
  }
}
