import CFuse
import CLinux
import Containers
import DocsEngine

/// Something that the kernel must not answer from its caches any more.
private enum Notice: Hashable {
  case entry(NodeID, ItemName)
  case attributes(NodeID)
  case content(NodeID)
}

private struct NoticeQueue {
  var order: [Notice] = []
  var waiting: Set<Notice> = []
  var isClosed = false

  mutating func add(_ notice: Notice) {
    guard !isClosed, !isCovered(notice), waiting.insert(notice).inserted else { return }
    order.append(notice)
  }

  /// Invalidating content takes the attributes along.
  private func isCovered(_ notice: Notice) -> Bool {
    guard case .attributes(let node) = notice else { return false }
    return waiting.contains(.content(node))
  }

  /// All that waits, once there is some or the queue is closed; nil before.
  mutating func takeAll() -> [Notice]? {
    guard !order.isEmpty || isClosed else { return nil }
    defer {
      order = []
      waiting = []
    }
    return order
  }
}

/// Tells the kernel what has changed, from a thread that serves no request: a notification waits behind
/// unanswered requests of the same node, so that one made from within a request could wait for itself.
final class Notifier: KernelCache {
  private let bridge: Bridge
  private let queue = Guarded(NoticeQueue())

  init(_ bridge: Bridge) { self.bridge = bridge }

  func invalidateEntry(_ folder: NodeID, _ name: ItemName) { add(.entry(folder, name)) }
  func invalidateAttributes(_ node: NodeID) { add(.attributes(node)) }
  func invalidateContent(_ node: NodeID) { add(.content(node)) }

  private func add(_ notice: Notice) { queue.signal { $0.add(notice) } }

  /// Ends `run`.
  func close() { queue.signal { $0.isClosed = true } }

  /// Until `close`.
  func run() {
    while let notices = queue.next(take), !notices.isEmpty {
      for notice in notices { deliver(notice) }
    }
  }

  private func take(_ queue: inout NoticeQueue) -> [Notice]? { queue.takeAll() }

  private func deliver(_ notice: Notice) {
    guard let session = bridge.session, fuse_session_exited(session) == 0 else { return }
    let result =
      switch notice {
      case .attributes(let node): fuse_lowlevel_notify_inval_inode(session, node.rawValue, -1, 0)
      case .content(let node): fuse_lowlevel_notify_inval_inode(session, node.rawValue, 0, 0)
      case .entry(let folder, let name): notify(session, folder, name)
      }
    report(result, notice)
  }

  private func notify(_ session: OpaquePointer, _ folder: NodeID, _ name: ItemName) -> Int32 {
    // libfuse sends one byte more than the name's length, for the NUL.
    (name.bytes + [0]).withUnsafeBytes { bytes in
      fuse_lowlevel_notify_inval_entry(
        session, folder.rawValue, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), name.bytes.count)
    }
  }

  /// ENOENT: the kernel had nothing of it. ENOTCONN, ENODEV and EBADF: the mount is gone.
  private func report(_ result: Int32, _ notice: Notice) {
    switch -result {
    case 0, ENOENT, ENOTCONN, ENODEV, EBADF: break
    case let error:
      Log.error("the kernel did not forget", ["what": "\(notice)", "error": String(cString: strerror(error))])
    }
  }
}
