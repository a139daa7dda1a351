import Containers
import StorageErrors

// What the fault injector asks of the volume. None of it does I/O beyond the catalog.
extension Volume {
  /// The path of a node from the mount's root, with a slash first: the present one, or the last of a deleted item.
  /// nil for a node that is not known.
  package func path(of node: NodeID) -> [UInt8]? {
    let found = performNow { state throws(Need) in try state.localPath(try state.resolve(node).item) }
    guard case .success(let path) = found else { return nil }
    return path.names.isEmpty ? [0x2f] : Array(path.names.map { [0x2f] + $0.bytes }.joined())
  }

  /// Whether the bytes of a file in `range` (nil: all) are local. A folder's always are.
  package func isLocal(_ node: NodeID, _ range: Range<Int64>?) -> Bool {
    let found = performNow { state throws(Need) -> Bool in
      let (item, known) = try state.resolve(node)
      guard item.record.kind == .file, node.stubbedItem == nil else { return true }
      let content = known ?? state.content(of: item)
      guard let range else { return content.isWhole }
      return content.local.withLock { $0.has(range) }
    }
    return (try? found.get()) ?? true
  }

  /// The nodes that the kernel may have something of. It never looks up the root.
  package func knownNodes() -> [NodeID] { [.root] + locked { Array($0.lookups.keys) } }

  /// Whether a request of this node waits for the container. A notice to the kernel would wait behind it.
  package func isWaited(for node: NodeID) -> Bool {
    locked { state in
      guard let content = state.nodes[node] ?? state.items[ItemID(node.rawValue)]?.content else { return false }
      return content.local.withLock { !$0.waiters.isEmpty }
    }
  }

  /// Whether the file has changes since its last good fsync, as far as losses are tracked.
  package func hasUnsynced(_ node: NodeID) -> Bool {
    locked { state in
      guard let content = state.nodes[node] ?? state.items[ItemID(node.rawValue)]?.content else { return false }
      return content.local.withLock { $0.synced != nil }
    }
  }
}
