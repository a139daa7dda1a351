import Containers
import Faults
import FuseBridge
import StorageErrors

/// The files of `.docsfs`: the commands of the socket, by writing lines. `wait` is the socket's alone: it would hold up
/// everybody else who writes.
final class MountControl: ControlChannel {
  /// How long a write waits for its commands that may have to ask the container, in ns: the kernel lets nobody else write
  /// to `control` meanwhile, not even `clear`.
  private static let patience: UInt64 = 1_000_000_000
  /// So many of them may go on after their write; more are refused.
  private static let limit = 64

  private let commands: VolumeCommands
  private let error = Guarded("")
  private let asides = Guarded(0)

  init(_ commands: VolumeCommands) { self.commands = commands }

  var rules: String { commands.controlText }
  var status: String { JSONText.of(commands.status()) + "\n" }
  var lastError: String { error.withLock { $0 } }

  func refused(_ error: ControlError) { self.error.withLock { $0 = error.description + "\n" } }

  /// On a thread of its own: no thread of the mount waits for what a command does.
  func carryOut(_ statements: [ControlStatement], _ done: @escaping @Sendable (ControlError?) -> Void) {
    let starts = startDetached("docsfs-control") {
      let error = self.carryOut(statements)
      if let error { self.refused(error) } else { self.error.withLock { $0 = "" } }
      done(error)
    }
    if !starts { done(ControlError(.EAGAIN, line: 1, column: 1, "no thread is left; try again")) }
  }

  private func carryOut(_ statements: [ControlStatement]) -> ControlError? {
    defer { commands.faults.reachKernel() }
    let deadline = Clock.now() + Self.patience
    for statement in statements {
      if let error = carryOut(statement, until: deadline) { return error }
    }
    return nil
  }

  private func carryOut(_ statement: ControlStatement, until deadline: UInt64) -> ControlError? {
    switch statement.command {
    case .wait: statement.place.error("wait is for docsfs fault and the socket; here it would hold up others")
    case .evict, .materialize, .pin, .refresh: runAside(statement, until: deadline)
    default: run(statement)
    }
  }

  private enum Aside {
    case running
    case left
    case ended(ControlError?)
  }

  /// On a thread of its own, and waited for until `deadline`. What takes longer goes on while the writer does; `error`
  /// tells if it failed.
  private func runAside(_ statement: ControlStatement, until deadline: UInt64) -> ControlError? {
    let busy = statement.place.error("too many commands are under way; try again", .EAGAIN)
    let isAdmitted = asides.withLock { count in
      guard count < Self.limit else { return false }
      count += 1
      return true
    }
    guard isAdmitted else { return busy }
    let aside = Guarded(Aside.running)
    let starts = startDetached("docsfs-control") {
      let error = self.run(statement)
      self.asides.withLock { $0 -= 1 }
      let isLeft = aside.signal { aside in
        if case .left = aside { return true }
        aside = .ended(error)
        return false
      }
      if isLeft, let error { self.refused(error) }
    }
    guard starts else {
      asides.withLock { $0 -= 1 }
      return busy
    }
    aside.wait(until: deadline) { if case .ended = $0 { true } else { false } }
    return aside.withLock { aside in
      if case .ended(let error) = aside { return error }
      aside = .left
      return nil
    }
  }

  private func run(_ statement: ControlStatement) -> ControlError? {
    var refused: String?
    let last = commands.run(.control(statement), isLast: false, cancelled: { false }) {
      refused = refused ?? $0.refused
    }
    guard let exit = last.exit, exit != ExitCode.done else { return nil }
    let errno = last.errno.flatMap { Errno(name: $0) } ?? .EBUSY
    // It may tell its place already.
    let message = (refused ?? last.error ?? "failed").trimmingPrefix(statement.place.error("").description)
    return statement.place.error(String(message), errno)
  }
}
