import StorageErrors

/// Tries a document again where that can help: at once on stale handles and files that change, after a wait when the
/// storage has gone.
struct Attempts: Sendable {
  let mover: Mover
  let events: EventSink

  private static let limit = 4
  private var control: RunControl { mover.control }

  func migrate(_ entry: Listing.Entry) -> FileReport {
    var counted: Int64 = 0
    control.began(entry)
    defer { control.ended(entry, counted: counted) }
    // A second attempt reads again what is counted already.
    let read = { (bytes: Int64) in
      let new = min(bytes, entry.status.size - counted)
      guard new > 0 else { return }
      counted += new
      control.read(new)
    }
    var left = Self.limit
    var pause = 0.2
    while true {
      let failure: StepFailure
      do {
        let report = try mover.run(entry, read: read)
        control.works()
        return report
      } catch { failure = error }
      switch next(failure, &left) {
      case .again: continue
      case .afterPause:
        events.send(.waiting(failure.reason))
        control.pause(pause)
        pause = min(pause * 2, 2)
      case .never:
        mover.tidy(entry)
        return FileReport(entry, failure)
      }
    }
  }

  private enum Next { case again, afterPause, never }

  private func next(_ failure: StepFailure, _ left: inout Int) -> Next {
    guard control.mayGoOn else { return .never }
    switch failure {
    case .cancelled, .stalled: return .never
    case .refused(.keepsChanging), .refused(.readBackDiffers), .system(.EEXIST, .destination, _, _):
      left -= 1
      return left > 0 ? .again : .never
    case .refused: return .never
    case .gone: return wait()
    case .system(let errno, let side, _, _): return next(errno, side, failure, &left)
    }
  }

  private func next(_ errno: Errno, _ side: StepFailure.Side, _ failure: StepFailure, _ left: inout Int) -> Next {
    if side == .journal { return stop(failure) }
    switch Remedy(errno).action {
    case .reopen:
      left -= 1
      return left > 0 ? .again : .never
    case .wait: return wait()
    case .stop: return side == .destination ? stop(failure) : .never
    case .skip:
      // One folder that may not be written is that folder's; the whole destination is everybody's.
      let isForbidden = errno == .EACCES || errno == .EPERM
      return side == .destination && isForbidden && !POSIX.mayWrite(mover.destination.path) ? stop(failure) : .never
    }
  }

  private func wait() -> Next { control.hasPatience(mover.options.patience) ? .afterPause : .never }

  private func stop(_ failure: StepFailure) -> Next {
    control.stop(failure.reason)
    return .never
  }
}

extension Mover {
  /// Away with what a document that was given up has left at the destination. What cannot be removed now, a later run
  /// removes: the journal knows it.
  func tidy(_ entry: Listing.Entry) {
    let known = ledger[entry.path]
    guard known.isUnderWay, let begun = known.begun else { return }
    do throws(Errno) { try POSIX.removeIfPresent(destination[begun.temporary]) } catch { return }
    try? ledger.note(.dropped(path: entry.path))
  }
}

/// Where events go: to one receiver, one at a time.
final class EventSink: Sendable {
  private let receive: @Sendable (MigrationEvent) -> Void
  private let turn = Locked(())

  init(_ receive: @escaping @Sendable (MigrationEvent) -> Void) { self.receive = receive }
  func send(_ event: MigrationEvent) { turn.update { _ in receive(event) } }
}
