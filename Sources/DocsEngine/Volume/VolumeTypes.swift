import CLinux
import Containers
import StorageErrors

/// A file, folder or symlink of a volume. It is the inode number, and never used again.
package struct ItemID: Hashable, Sendable, Comparable {
  package let rawValue: UInt64
  package init(_ rawValue: UInt64) { self.rawValue = rawValue }
  package static let root = ItemID(1)
  package static func < (a: ItemID, b: ItemID) -> Bool { a.rawValue < b.rawValue }
}

/// What the kernel calls an inode: an item together with one lineage of content. A remote version that replaces
/// a file's content gets a new node id under the same `ItemID`, so that old handles keep their bytes.
package struct NodeID: Hashable, Sendable {
  package let rawValue: UInt64
  package init(_ rawValue: UInt64) { self.rawValue = rawValue }
  package static let root = NodeID(1)
}

/// Who asks. `pid` is a thread's id, or 0 for a process of another pid namespace.
package struct Caller: Sendable {
  package var uid: UInt32
  package var gid: UInt32
  package var pid: Int32
  package init(uid: UInt32, gid: UInt32, pid: Int32) {
    self.uid = uid
    self.gid = gid
    self.pid = pid
  }
}

/// What stat(2) tells. `blocks` counts 512 bytes.
package struct Attributes: Sendable, Equatable {
  package var id: ItemID
  package var kind: ItemKind
  /// The low 12 bits of st_mode.
  package var mode: UInt32
  package var links: UInt32
  package var uid: UInt32
  package var gid: UInt32
  package var size: Int64
  package var blocks: Int64
  package var accessed: Timestamp
  package var modified: Timestamp
  package var changed: Timestamp
}

package struct Entry: Sendable {
  package var node: NodeID
  package var attributes: Attributes
}

/// What setattr changes; nil: leave it.
package struct AttributeChange: Sendable {
  package var mode: UInt32?
  package var uid: UInt32?
  package var gid: UInt32?
  package var size: Int64?
  package var accessed: NewTime?
  package var modified: NewTime?
  package init() {}
}

package enum NewTime: Sendable {
  case now
  case at(Timestamp)
}

package struct OpenMode: Sendable {
  package var reads: Bool
  package var writes: Bool
  package var truncates: Bool
  package init(reads: Bool, writes: Bool, truncates: Bool) {
    self.reads = reads
    self.writes = writes
    self.truncates = truncates
  }
}

package struct RenameFlags: OptionSet, Sendable {
  package let rawValue: UInt32
  package init(rawValue: UInt32) { self.rawValue = rawValue }
  package static let noReplace = RenameFlags(rawValue: 1)
  package static let exchange = RenameFlags(rawValue: 2)
}

/// What statvfs(3) tells; sizes in blocks of `blockSize` bytes.
package struct VolumeStatistics: Sendable {
  package var blockSize: UInt64
  package var blocks: UInt64
  package var free: UInt64
  package var files: UInt64
  package var filesFree: UInt64
}

/// Where the bytes of a read lie: in a content file, or nowhere (the end of the file).
package enum ReadResult: Sendable {
  /// `count` > 0 bytes at `offset` of `file.fd`. The file may be sparse.
  case file(ContentFile, offset: Int64, count: Int)
  /// These: a stub's.
  case bytes([UInt8])
  case end
}

/// One open descriptor, closed when nobody uses it any more.
package final class ContentFile: Sendable {
  package let fd: Int32
  package init(fd: Int32) { self.fd = fd }
  deinit { close(fd) }
}

/// An answer to one request: called exactly once, on any thread, perhaps before the call returns.
package typealias Reply<T> = @Sendable (Result<T, Errno>) -> Void

/// Lets a caller that was interrupted go. One for a request that waits; `cancel` may come at any moment.
package final class Interruption: Sendable {
  private let state = Guarded<(cancelled: Bool, action: (@Sendable () -> Void)?)>((false, nil))
  package init() {}

  /// The bridge: the caller was interrupted. Runs the engine's action, once, if there is one by now.
  package func cancel() {
    let action = state.withLock { state in
      state.cancelled = true
      defer { state.action = nil }
      return state.action
    }
    action?()
  }

  /// The engine: what to do when the caller is interrupted; runs at once when that was before.
  package func onCancel(_ action: @escaping @Sendable () -> Void) {
    let late = state.withLock { state in
      if !state.cancelled { state.action = action }
      return state.cancelled
    }
    if late { action() }
  }
}

/// Given with each request that may wait. The engine calls it before it waits, and only then; from the second time
/// on it gives the same `Interruption`.
package typealias Interruptible = @Sendable () -> Interruption

/// What the engine tells the kernel's caches; the bridge does it from a thread that serves no request.
package protocol KernelCache: AnyObject, Sendable {
  /// The name in `folder` means something else now, or nothing.
  func invalidateEntry(_ folder: NodeID, _ name: ItemName)
  /// Size, times, blocks or mode of `node` have changed.
  func invalidateAttributes(_ node: NodeID)
  /// The bytes of `node`, or the listing of a folder, have changed.
  func invalidateContent(_ node: NodeID)
}
