import CLinux
import Glibc
import DocsEngine
import FoundationEssentials
import FuseBridge
import StorageErrors

/// The other end of `control.sock`.
final class ControlClient {
  private let connection: Int32
  private let lines: LineReader
  private let mountpoint: FilePath

  /// Exit code 69 when no daemon answers.
  init(_ mount: MountEntry) throws(Failure) {
    mountpoint = mount.mountpoint
    connection = lx_unix_socket()
    lines = LineReader(connection, limit: 16 << 20)
    guard connection >= 0 else {
      throw Failure("cannot make a socket: \(Errno.current.message.lowercasedFirst)")
    }
    if let problem = Self.connect(connection, mount.stateDirectory) {
      throw Self.explain(problem, mount)
    }
  }

  deinit { if connection >= 0 { close(connection) } }

  private static func connect(_ connection: Int32, _ state: FilePath) -> Errno? {
    let folder = state.call { lx_open($0, Int32(LX_O_PATH) | O_DIRECTORY, 0) }
    guard folder >= 0 else { return .current }
    defer { close(folder) }
    var address = sockaddr_un()
    guard lx_unix_address(&address, folder, "control.sock") == 0 else { return .ENAMETOOLONG }
    return lx_connect(connection, &address) == 0 ? nil : .current
  }

  private static func explain(_ problem: Errno, _ mount: MountEntry) -> Failure {
    if problem == .EACCES || problem == .EPERM {
      return Failure("the mount \(mount.mountpoint) belongs to another user", ExitCode.unavailable)
    }
    if mount.daemonIsDead {
      return Failure(
        "the daemon of \(mount.mountpoint) has died; docsfs unmount \(mount.mountpoint) clears it, "
          + "docsfs mount replaces it", ExitCode.unavailable)
    }
    return Failure(
      "the daemon of \(mount.mountpoint) does not answer: \(problem.message.lowercasedFirst); try again",
      ExitCode.unavailable)
  }

  /// Sends one command; gives the replies before the last to `each`, and the last back, whatever its exit code.
  /// `patience`: seconds without any reply; nil: as long as it takes.
  func run(
    _ request: ControlRequest, patience: Int32? = nil, each: (ControlReply) -> Void = { _ in }
  ) throws(Failure) -> ControlReply {
    lx_socket_timeout(connection, patience ?? 0)
    guard writeAll(Array((request.line + "\n").utf8), to: connection) else { throw gone() }
    while case .text(let line) = lines.next() {
      guard let reply = try? JSONDecoder().decode(ControlReply.self, from: Data(line)) else {
        throw Failure("the daemon of \(mountpoint) speaks another version of docsfs; unmount and mount again")
      }
      if reply.done == true { return reply }
      each(reply)
    }
    throw gone()
  }

  /// As `run`, for commands that have only success or failure.
  func require(
    _ request: ControlRequest, patience: Int32 = 60, each: (ControlReply) -> Void = { _ in }
  ) throws(Failure) {
    let last = try run(request, patience: patience, each: each)
    if let exit = last.exit, exit != 0 { throw Failure(last.error ?? "\(mountpoint): failed", exit) }
  }

  private func gone() -> Failure {
    Failure(
      "the daemon of \(mountpoint) gave no answer; try again, or see the log in its state directory",
      ExitCode.unavailable)
  }
}
