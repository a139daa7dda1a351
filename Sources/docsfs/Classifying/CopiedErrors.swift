import CLinux
import Containers
import Glibc
import StorageErrors

/// A child's standard error, passed on as it comes, with its last part kept.
final class CopiedErrors: Sendable {
  /// Kept in bytes: what matters stands at the end.
  private static let limit = 1 << 20

  private struct State {
    var kept: [UInt8] = []
    var isToEnd = false
    var hasEnded = false
  }

  /// The child's end.
  let writer: Int32
  private let reader: Int32
  private let state = Guarded(State())

  init() throws(Failure) {
    var ends: [Int32] = [-1, -1]
    guard lx_pipe(&ends) == 0 else { throw Failure("cannot make a pipe: \(Errno.current.message.lowercasedFirst)") }
    (reader, writer) = (ends[0], ends[1])
  }

  /// When the child has been started.
  func start() {
    close(writer)
    let isRunning = startDetached("errors") {
      while self.passOn() {}
      self.state.signal { $0.hasEnded = true }
    }
    if !isRunning { state.signal { $0.hasEnded = true } }
  }

  /// When the child has ended. What it left running in the background may hold the pipe for ever: only what is there
  /// already is still read.
  func finish() -> String {
    state.withLock { $0.isToEnd = true }
    state.wait(until: Clock.now() + 5_000_000_000) { $0.hasEnded }
    return String(decoding: state.withLock { $0.kept }, as: UTF8.self)
  }

  /// False when nothing more is to come.
  private func passOn() -> Bool {
    let isLast = state.withLock { $0.isToEnd }
    var poller = pollfd(fd: reader, events: Int16(POLLIN), revents: 0)
    guard poll(&poller, 1, isLast ? 0 : 100) != 0 else { return !isLast }
    var piece = [UInt8](repeating: 0, count: 16_384)
    let count = piece.withUnsafeMutableBytes { read(reader, $0.baseAddress, $0.count) }
    if count < 0, errno == EINTR { return true }
    guard count > 0 else { return false }
    _ = writeAll(Array(piece.prefix(count)), to: STDERR_FILENO)
    state.withLock { state in
      state.kept += piece.prefix(count)
      if state.kept.count > Self.limit { state.kept.removeFirst(state.kept.count - Self.limit / 2) }
    }
    return true
  }
}
