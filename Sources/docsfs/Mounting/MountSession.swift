import CLinux
import Containers
import DocsEngine
import FuseBridge

/// The mount of this process, as those see it who may end it: signals and the control socket.
final class MountSession: Sendable {
  private struct State {
    var mount: FuseMount?
    var volume: Volume?
    var faults: FaultInjector?
    var hasEnded = false
  }
  private let state = Guarded(State())

  func began(_ mount: FuseMount, _ volume: Volume, _ faults: FaultInjector) {
    state.withLock { state in
      state.mount = mount
      state.volume = volume
      state.faults = faults
    }
  }

  func ended() { state.withLock { $0.hasEnded = true } }

  /// False when there is no mount yet.
  var hasBegun: Bool { state.withLock { $0.mount != nil } }

  /// Why it could not be unmounted; nil when it was, or is not mounted.
  func stop(_ manner: UnmountManner) -> FuseMountError? {
    let mount = state.withLock { $0.mount }
    do throws(FuseMountError) {
      try mount?.stop(manner)
      return nil
    } catch { return error }
  }

  /// Who uses the mount is cut off. Where the kernel's control files are out of reach (fusectl is not mounted, as in
  /// many containers) only the end of this process does that.
  func cutOff() -> FuseMountError? {
    let problem = stop(.forced)
    startDetached("cut-off") {
      sleep(2)
      guard let volume = self.state.withLock({ $0.hasEnded ? nil : $0.volume }) else { return }
      volume.stop(timeout: 10)
      _exit(ExitCode.done)
    }
    return problem
  }

  /// Who has something open keeps it until done with it.
  func end() {
    state.withLock { $0.faults }?.letGo()
    guard let problem = stop(.ifUnused) else { return }
    Log.warning("unmounted lazily; another signal cuts off who still uses it", ["reason": problem.message])
    if let problem = stop(.lazy) { Log.error("not unmounted", ["reason": problem.message]) }
  }
}
