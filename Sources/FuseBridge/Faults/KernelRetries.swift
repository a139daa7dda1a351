import DocsEngine
import Faults

/// The calls that the kernel is about to try again by itself.
///
/// A call by path that gets ESTALE comes again from the same thread, once, and looks its path up anew in between:
/// the application sees only the second failure. So the second is no fault of its own.
struct KernelRetries {
  /// What makes two requests the same call.
  struct Key: Equatable {
    var operation: FaultOperation
    var node: NodeID
    var name: [UInt8]?
    var target: [UInt8]?

    init(_ call: MountCall) {
      (operation, node, name, target) = (call.operation, call.node, call.name, call.target?.name)
    }
  }

  private struct Pending {
    var key: Key
    /// What failed it: a rule's id, or nil for the link.
    var rule: String?
    var hasLookedUp: Bool
  }

  private var pending: [Int32: Pending] = [:]
  var isEmpty: Bool { pending.isEmpty }
  /// Threads that never came again are forgotten when there are so many.
  private static let limit = 4096

  /// The first failure of a call by path. On the mount's root the kernel looks nothing up in between, and a lookup
  /// need not follow another.
  mutating func expect(_ call: MountCall, from thread: Int32, rule: String?) {
    guard thread > 0 else { return }
    if pending.count >= Self.limit { pending = [:] }
    pending[thread] = Pending(
      key: Key(call), rule: rule, hasLookedUp: call.operation == .lookup || call.node == .root && call.name == nil)
  }

  /// Whether `call` is the second try of a failed one, which is over with that; with what failed the first.
  mutating func take(_ call: MountCall, from thread: Int32) -> (rule: String?, isRetry: Bool) {
    guard !pending.isEmpty, var known = pending[thread] else { return (nil, false) }
    if known.key == Key(call), known.hasLookedUp {
      pending[thread] = nil
      return (known.rule, true)
    }
    switch call.operation {
    case .lookup:
      known.hasLookedUp = true
      pending[thread] = known
    // Permission checks on the way.
    case .getattr: break
    default: pending[thread] = nil
    }
    return (nil, false)
  }
}
