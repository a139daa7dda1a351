import CLinux
import Glibc
import Containers
import Faults
import StorageErrors

/// `control.sock` in the state directory: one command a line, each answered by lines of JSON. One thread a
/// connection, so that a slow client waits for itself alone.
final class ControlServer: Sendable {
  private static let name = "control.sock"
  /// More at once are told to come again.
  private static let limit = 64
  /// A client that takes no reply, or sends no command, for so long is let go.
  private static let patience = 60

  private let listener: Int32
  private let directory: FilePath
  private let commands: VolumeCommands
  private let connections = Guarded<Set<Int32>>([])

  static func start(in directory: FilePath, commands: VolumeCommands) throws(Failure) -> ControlServer {
    let place = directory.appending(name)
    let listener = lx_unix_socket()
    guard listener >= 0 else { throw Failure("cannot make", place, .current) }
    guard bind(listener, in: directory), listen(listener, 16) == 0 else {
      let problem = Errno.current
      close(listener)
      throw Failure("cannot listen at", place, problem)
    }
    let server = ControlServer(listener, directory, commands)
    startDetached("control") { server.acceptAll() }
    return server
  }

  /// The caller holds the state directory's lock, so a socket that is there is a dead daemon's.
  private static func bind(_ listener: Int32, in directory: FilePath) -> Bool {
    let folder = directory.call { lx_open($0, Int32(LX_O_PATH) | O_DIRECTORY, 0) }
    guard folder >= 0 else { return false }
    defer { close(folder) }
    unlinkat(folder, name, 0)
    var address = sockaddr_un()
    guard lx_unix_address(&address, folder, name) == 0, lx_bind(listener, &address) == 0 else { return false }
    return fchmodat(folder, name, 0o600, 0) == 0
  }

  private init(_ listener: Int32, _ directory: FilePath, _ commands: VolumeCommands) {
    self.listener = listener
    self.directory = directory
    self.commands = commands
  }

  /// Takes no more, ends what is there, and waits for it a moment.
  func stop() {
    _ = directory.appending(Self.name).call { unlink($0) }
    shutdown(listener, Int32(SHUT_RDWR))
    // What a connection is doing sees its client gone and ends.
    connections.withLock { for connection in $0 { shutdown(connection, Int32(SHUT_RD)) } }
    connections.wait(until: Clock.now() + 5_000_000_000) { $0.isEmpty }
  }

  private func acceptAll() {
    while true {
      let connection = lx_accept(listener)
      if connection < 0 {
        if [EINTR, ECONNABORTED].contains(errno) { continue }
        if [EMFILE, ENFILE, ENOMEM, ENOBUFS].contains(errno) {
          usleep(100_000)
          continue
        }
        break
      }
      take(connection)
    }
    close(listener)
  }

  private func take(_ connection: Int32) {
    let admitted = connections.withLock { set in
      guard set.count < Self.limit else { return false }
      set.insert(connection)
      return true
    }
    guard admitted, startDetached("control-client", { self.serve(connection) }) else {
      Self.send(.done(ExitCode.tryAgain, "the daemon has too many clients; try again"), to: connection)
      drop(connection)
      return
    }
  }

  private func drop(_ connection: Int32) {
    connections.signal { _ = $0.remove(connection) }
    close(connection)
  }

  private func serve(_ connection: Int32) {
    defer { drop(connection) }
    lx_socket_timeout(connection, Int32(Self.patience))
    var uid = uid_t.max
    var pid: pid_t = 0
    guard lx_peer(connection, &uid, &pid) == 0, uid == geteuid() || uid == 0 else {
      Self.send(.done(ExitCode.failed, "this mount belongs to another user"), to: connection)
      return
    }
    let lines = LineReader(connection)
    while true {
      switch lines.next() {
      case .text(let line): guard answer(line, connection) else { return }
      case .tooLong:
        Self.send(.done(ExitCode.usage, "a command is one line of at most 1 MiB"), to: connection)
        return
      case .none: return
      }
    }
  }

  /// False when the client has gone.
  private func answer(_ line: [UInt8], _ connection: Int32) -> Bool {
    let request: ControlRequest?
    do { request = try ControlRequest(line) } catch {
      return Self.send(.done(error), to: connection)
    }
    guard let request else { return true }
    var isThere = true
    let last = commands.run(request, cancelled: { !isThere || Self.hasGone(connection) }) { reply in
      if isThere { isThere = Self.send(reply, to: connection) }
    }
    return isThere && Self.send(last, to: connection)
  }

  @discardableResult
  private static func send(_ reply: ControlReply, to connection: Int32) -> Bool {
    writeAll(Array(JSONText.of(reply).utf8) + [0x0a], to: connection)
  }

  private static func hasGone(_ connection: Int32) -> Bool {
    var byte: UInt8 = 0
    return recv(connection, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) == 0
  }
}
