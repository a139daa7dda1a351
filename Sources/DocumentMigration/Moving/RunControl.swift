import Foundation

/// What the threads of one run share: whether to go on, and how far they are.
final class RunControl: Sendable {
  struct State: Sendable {
    var stopped: String?
    var isCancelled = false
    var progress = MigrationProgress()
    /// When a thread last got on with something, in nanoseconds of the uptime.
    var lastSign = DispatchTime.now().uptimeNanoseconds
    /// When the storage was first found gone, of the present absence.
    var goneSince: UInt64?
    /// The patience was used up once; until something works again nobody waits.
    var isPatienceOver = false
    /// Documents under way, and the threads' waits for storage.
    var running: [DocumentPath: Listing.Entry] = [:]
    var waiting = 0
    /// Threads in a call that may take long by right: a sync of gigabytes, or one that waits for an upload.
    var syncing = 0
  }
  private let state = Locked(State())

  var progress: MigrationProgress { state.update { $0.progress } }
  var stopReason: String? { state.update { $0.stopped } }
  var isCancelled: Bool { state.update { $0.isCancelled } }
  var mayGoOn: Bool { state.update { $0.stopped == nil && !$0.isCancelled } }

  func cancel() {
    state.update {
      $0.isCancelled = true
      if $0.stopped == nil { $0.stopped = "stopped on request" }
    }
  }
  /// The first reason counts.
  func stop(_ reason: String) { state.update { if $0.stopped == nil { $0.stopped = reason } } }

  func expect(items: Int, bytes: Int64) {
    state.update {
      $0.progress.totalItems = items
      $0.progress.totalBytes = bytes
    }
  }

  /// Between steps and pieces; throws when the run is to end.
  func checkpoint() throws(StepFailure) {
    let goesOn = state.update { state in
      state.lastSign = DispatchTime.now().uptimeNanoseconds
      return state.stopped == nil && !state.isCancelled
    }
    if !goesOn { throw .cancelled }
  }
  func read(_ bytes: Int64) { state.update { $0.progress.doneBytes += bytes } }

  func began(_ entry: Listing.Entry) { state.update { $0.running[entry.path] = entry } }
  /// `counted`: what `read` was told of it; the bar ends where the sizes do.
  func ended(_ entry: Listing.Entry, counted: Int64) {
    state.update {
      $0.running[entry.path] = nil
      $0.progress.doneItems += 1
      $0.progress.doneBytes += (entry.status.kind == .file ? entry.status.size : 0) - counted
      $0.lastSign = DispatchTime.now().uptimeNanoseconds
    }
  }
  var running: [Listing.Entry] { state.update { $0.running.values.sorted { $0.path < $1.path } } }

  /// No thread has got on for so many seconds; an hour, when one is syncing. Waiting for storage counts as getting on.
  func isStuck(after seconds: Double) -> Bool {
    state.update { state in
      let silence = Double(DispatchTime.now().uptimeNanoseconds &- state.lastSign) / 1e9
      return state.waiting == 0 && silence > (state.syncing > 0 ? max(seconds, 3600) : seconds)
    }
  }

  func syncing<R>(_ body: () throws(StepFailure) -> R) throws(StepFailure) -> R {
    state.update { $0.syncing += 1 }
    defer { state.update { $0.syncing -= 1 } }
    return try body()
  }

  // MARK: Storage that has gone

  /// The storage answers.
  func works() {
    state.update {
      $0.goneSince = nil
      $0.isPatienceOver = false
    }
  }

  /// Whether there is patience left to wait for the storage; counted from when it was first found gone.
  func hasPatience(_ seconds: Double) -> Bool {
    state.update { state in
      let now = DispatchTime.now().uptimeNanoseconds
      let since = state.goneSince ?? now
      state.goneSince = since
      if Double(now &- since) / 1e9 >= seconds { state.isPatienceOver = true }
      return !state.isPatienceOver && state.stopped == nil && !state.isCancelled
    }
  }

  /// In slices, so that a stop is noticed.
  func pause(_ seconds: Double) {
    state.update { $0.waiting += 1 }
    let end = DispatchTime.now().uptimeNanoseconds &+ UInt64(seconds * 1e9)
    while mayGoOn, DispatchTime.now().uptimeNanoseconds < end { usleep(20_000) }
    state.update {
      $0.waiting -= 1
      $0.lastSign = DispatchTime.now().uptimeNanoseconds
    }
  }
}
