import Foundation
import StorageErrors

/// Tries again where that can help: at once on stale handles and documents that change, after a wait when the storage has
/// gone. Stops the run when nothing else would work either.
struct Retries: Sendable {
  let control: RunControl
  /// Seconds to wait for storage that has gone.
  let patience: Double
  let source: DocumentPath
  let destination: DocumentPath
  let events: EventSink

  private static let limit = 4

  func run<R>(_ body: () throws(StepFailure) -> R) throws(StepFailure) -> R {
    var left = Self.limit
    var pause = 0.2
    while true {
      do {
        let result = try body()
        control.works()
        return result
      } catch {
        switch next(error, &left) {
        case .again: continue
        case .never: throw error
        case .afterPause:
          events.send(.waiting(error.reason))
          control.pause(pause)
          pause = min(pause * 2, 2)
        }
      }
    }
  }

  private enum Next { case again, afterPause, never }

  private func next(_ failure: StepFailure, _ left: inout Int) -> Next {
    guard control.mayGoOn else { return .never }
    switch failure {
    case .cancelled, .stalled: return .never
    case .gone: return wait()
    case .refused(.keepsChanging), .refused(.readBackDiffers), .system(.EEXIST, .destination, _, _):
      return again(&left)
    case .refused: return .never
    case .system(_, .journal, _, _): return stop(failure)
    case .system(let errno, let side, _, _):
      switch Remedy(errno).action {
      case .reopen:
        // Storage that has gone may say no more than EIO; then nothing of it can be opened.
        let next = again(&left)
        return next == .again || isThere(side) ? next : wait()
      case .wait: return wait()
      case .stop: return side == .destination ? stop(failure) : .never
      case .skip:
        // One folder that may not be written is that folder's; the whole destination is everybody's.
        let isForbidden = errno == .EACCES || errno == .EPERM
        return side == .destination && isForbidden && !POSIX.mayWrite(destination) ? stop(failure) : .never
      }
    }
  }

  private func again(_ left: inout Int) -> Next {
    left -= 1
    return left > 0 ? .again : .never
  }
  private func isThere(_ side: StepFailure.Side) -> Bool {
    (try? Descriptor(side == .source ? source : destination, O_RDONLY | O_DIRECTORY)) != nil
  }
  private func wait() -> Next { control.hasPatience(patience) ? .afterPause : .never }
  private func stop(_ failure: StepFailure) -> Next {
    control.stop(failure.reason)
    return .never
  }
}

/// Where events go: to one receiver, one at a time.
final class EventSink: Sendable {
  private let receive: @Sendable (MigrationEvent) -> Void
  private let turn = Locked(())

  init(_ receive: @escaping @Sendable (MigrationEvent) -> Void) { self.receive = receive }
  func send(_ event: MigrationEvent) { turn.update { _ in receive(event) } }
}
