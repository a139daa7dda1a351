import CLinux
import Glibc
import Containers

/// The command of `docsfs run`: signals that docsfs gets are meant for it.
final class RunningChild: Sendable {
  private struct State {
    var pid: pid_t?
    var pending: Int32?
  }
  private let state = Guarded(State())

  func forwardSignals() {
    EndSignals.serve(
      first: { self.forward($0) },
      again: { self.forward($0) })
  }

  /// Its exit status, as a shell tells it.
  func wait(_ pid: pid_t) -> Int32 {
    state.withLock { state in
      state.pid = pid
      if let pending = state.pending { kill(pid, pending) }
    }
    // Reaped only after it is forgotten: a signal never reaches another process that got its number.
    var info = siginfo_t()
    while waitid(P_PID, id_t(pid), &info, WEXITED | WNOWAIT) != 0, errno == EINTR {}
    state.withLock { $0.pid = nil }
    return Spawn.wait(pid)
  }

  private func forward(_ signal: Int32) {
    state.withLock { state in
      if let pid = state.pid { kill(pid, signal) } else { state.pending = signal }
    }
  }
}
