import CFuse
import Containers
import DocsEngine
import Glibc

/// Makes the kernel forget what it has of the mount, so that faults hold at once.
///
/// Its thread serves no request, and no other notice waits for it: a notice blocks behind unanswered requests of the
/// same node, so such nodes are passed over.
final class CacheRefresh: Sendable {
  private let bridge: Bridge
  private struct State {
    var wanted: UInt64 = 0
    var done: UInt64 = 0
    var isClosed = false
  }
  private let state = Guarded(State())

  init(_ bridge: Bridge) { self.bridge = bridge }

  /// `wait`: until that is done, at most a second.
  func refresh(wait: Bool) {
    let number = state.signal { state in
      state.wanted += 1
      return state.wanted
    }
    guard wait else { return }
    state.wait(until: Clock.now() + 1_000_000_000) { $0.done >= number || $0.isClosed }
  }

  func close() { state.signal { $0.isClosed = true } }

  func run() {
    while let number = state.next(nextPass) ?? nil {
      forgetAll()
      state.signal { $0.done = number }
    }
  }

  private func nextPass(_ state: inout State) -> UInt64?? {
    if state.isClosed { return .some(nil) }
    // Not a ternary: of a doubly optional result it takes `nil` for the inner one, and the thread would end.
    if state.wanted > state.done { return state.wanted }
    return nil
  }

  private func forgetAll() {
    forgetNames()
    guard let session = bridge.session else { return }
    for node in bridge.volume.knownNodes() {
      if fuse_session_exited(session) != 0 { return }
      if bridge.faults?.held.holds(node) == true || bridge.volume.isWaited(for: node) { continue }
      fuse_lowlevel_notify_inval_inode(session, node.rawValue, 0, 0)
    }
  }

  /// FUSE_NOTIFY_INC_EPOCH (protocol 7.44, Linux 6.16): every name that the kernel knows is looked up anew, also those
  /// that an answer on its way now will bring. It waits for nothing. Older kernels answer EINVAL.
  func forgetNames() {
    var notice = fuse_out_header(len: UInt32(MemoryLayout<fuse_out_header>.size), error: 8, unique: 0)
    _ = write(bridge.device, &notice, MemoryLayout<fuse_out_header>.size)
  }
}
