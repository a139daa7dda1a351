import Containers
import Faults
import FuseBridge
import StorageErrors

/// The files of `.docsfs`: the commands of the socket, by writing lines. `wait` is the socket's alone: it would hold up
/// everybody else who writes.
final class MountControl: ControlChannel {
  private let commands: VolumeCommands
  private let error = Guarded("")

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
    for statement in statements {
      if let error = carryOut(statement) { return error }
    }
    return nil
  }

  private func carryOut(_ statement: ControlStatement) -> ControlError? {
    switch statement.command {
    case .wait: return statement.place.error("wait is for docsfs fault and the socket; here it would hold up others")
    case .materialize:
      // It goes on while the writer does; its outcome shows in the item.
      startDetached("docsfs-control") { _ = self.run(statement) }
      return nil
    default: return run(statement)
    }
  }

  private func run(_ statement: ControlStatement) -> ControlError? {
    var refused: String?
    let last = commands.run(.control(statement), cancelled: { false }) { refused = refused ?? $0.refused }
    guard let exit = last.exit, exit != ExitCode.done else { return nil }
    let errno = last.errno.flatMap { Errno(name: $0) } ?? .EBUSY
    return statement.place.error(refused ?? last.error ?? "failed", errno)
  }
}
