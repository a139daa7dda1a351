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
    var nodes: [(NodeID, @Sendable () -> Void)] = []
    var isClosed = false
  }
  private enum Task {
    case all(UInt64)
    case node(NodeID, @Sendable () -> Void)
    case stop
  }
  private let state = Guarded(State())

  init(_ bridge: Bridge) { self.bridge = bridge }

  /// Everything. `wait`: until that is done, at most a second.
  func refresh(wait: Bool) {
    let number = state.signal { state in
      state.wanted += 1
      return state.wanted
    }
    guard wait else { return }
    state.wait(until: Clock.now() + 1_000_000_000) { $0.done >= number || $0.isClosed }
  }

  /// The bytes and attributes of one node, unless a call of it is held; then `done`.
  func forget(_ node: NodeID, _ done: @escaping @Sendable () -> Void) {
    state.signal { $0.nodes.append((node, done)) }
  }

  func close() { state.signal { $0.isClosed = true } }

  func run() {
    while let task = state.next(Self.nextTask) {
      switch task {
      case .stop: return
      case .node(let node, let done):
        if !isWaited(for: node) { forget(node) }
        done()
      case .all(let number):
        forgetAll()
        state.signal { $0.done = number }
      }
    }
  }

  private static func nextTask(_ state: inout State) -> Task? {
    if state.isClosed { return .stop }
    if !state.nodes.isEmpty {
      let (node, done) = state.nodes.removeFirst()
      return .node(node, done)
    }
    return state.wanted > state.done ? .all(state.wanted) : nil
  }

  private func forgetAll() {
    if bridge.faults?.namesMatter == true { forgetNames() }
    for node in bridge.volume.knownNodes() {
      if state.withLock({ $0.isClosed }) { return }
      if !isWaited(for: node) { forget(node) }
    }
  }

  private func isWaited(for node: NodeID) -> Bool {
    bridge.faults?.held.holds(node) == true || bridge.volume.isWaited(for: node)
  }

  private func forget(_ node: NodeID) {
    guard let session = bridge.session, fuse_session_exited(session) == 0 else { return }
    fuse_lowlevel_notify_inval_inode(session, node.rawValue, 0, 0)
  }

  /// FUSE_NOTIFY_INC_EPOCH (protocol 7.44, Linux 6.16): every name that the kernel knows is looked up anew, also those
  /// that an answer on its way now will bring. It waits for nothing. Older kernels do not know it.
  func forgetNames() {
    guard bridge.handshake.forgetsNames else { return }
    var notice = fuse_out_header(len: UInt32(MemoryLayout<fuse_out_header>.size), error: 8, unique: 0)
    _ = write(bridge.device, &notice, MemoryLayout<fuse_out_header>.size)
  }
}
