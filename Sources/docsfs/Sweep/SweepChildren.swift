import CLinux
import Containers
import Glibc

/// The commands of all runs that are under way, so that an interrupted sweep ends them.
final class SweepChildren: Sendable {
  private struct State {
    /// Leaders of process groups.
    var running: Set<pid_t> = []
    var isInterrupted = false
  }
  private let state = Guarded(State())

  var isInterrupted: Bool { state.withLock { $0.isInterrupted } }

  /// Kills what runs; nothing is begun any more.
  func interrupt() {
    state.signal { state in
      state.isInterrupted = true
      for pid in state.running { kill(-pid, SIGKILL) }
    }
  }

  /// The exit status of a group's leader; nil when it took longer than `limit` seconds. Either way nothing of the group
  /// is left. `unblock` is called for one that does not die, because a call of it is held.
  func wait(_ pid: pid_t, limit: Double, unblock: () -> Void) throws(Failure) -> Int32? {
    let mayRun = state.withLock { state in
      state.running.insert(pid)
      return !state.isInterrupted
    }
    if !mayRun { kill(-pid, SIGKILL) }
    let ended = waitUntilEnded(pid, limit)
    // It is not reaped yet, so that its number is nobody else's.
    state.withLock { _ = $0.running.remove(pid) }
    kill(-pid, SIGKILL)
    if !ended, !waitUntilEnded(pid, 10) { unblock() }
    let status = Spawn.wait(pid)
    if isInterrupted { throw Failure("interrupted", 130) }
    return ended ? status : nil
  }

  private func waitUntilEnded(_ pid: pid_t, _ limit: Double) -> Bool {
    let deadline = Clock.now() + UInt64(limit * 1e9)
    var pause: UInt32 = 500
    while true {
      var info = siginfo_t()
      if waitid(P_PID, id_t(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0, info.si_signo == SIGCHLD { return true }
      if Clock.now() > deadline { return false }
      usleep(pause)
      pause = min(pause * 2, 10_000)
    }
  }
}
