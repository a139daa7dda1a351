import Containers
import StorageErrors

/// An item in memory: its record and what only a running volume knows. All of it is guarded by the volume's lock.
final class Item: @unchecked Sendable {  // every field is reached only under the volume's lock
  var record: ItemRecord
  /// The node that the item's name leads to.
  var node: NodeID
  /// The version that the kernel's last lookup of the name led to, while another one has taken its place that no
  /// lookup has led to yet. The kernel hears of that a moment later: until then a program that removes the name, or
  /// renames over it, means this one.
  var lastSeenVersion: Version?
  /// Somebody has removed it at the container, and nobody here: what a handle would write to it nobody would ever find.
  var wasRemovedElsewhere = false
  var content: Content?
  var folder: Folder?

  /// The record has changed since the last commit.
  var isQueued = false
  /// Its record is just being committed: until that is done, the catalog has an older one.
  var isBeingCommitted = false
  /// The row is gone (or will be with the next commit); the object stays while the kernel or a handle knows it.
  var isGone = false
  /// Counts local edits of content, and of mode, times and xattrs.
  var revision: Int64 = 0
  var attributesRevision: Int64 = 0
  /// The catalog knows that the content is dirty, so that bytes may be changed.
  var dirtyIsRecorded: Bool

  // What the uploader knows.
  var isUploading = false
  var isScheduled = false
  /// The job in the record was started by this process, so its outcome is known.
  var jobIsOurs = false
  var failures = 0
  /// CLOCK_MONOTONIC ns; not before then.
  var dueAt: UInt64 = 0
  /// When the dirty content was touched first, CLOCK_MONOTONIC ns.
  var dirtySince: UInt64 = 0

  init(_ record: ItemRecord) {
    self.record = record
    dirtyIsRecorded = record.isDirty
    if record.isDirty { dirtySince = Clock.now() }
    node = NodeID(record.id.rawValue)
    if record.kind == .folder { folder = Folder() }
  }

  var id: ItemID { record.id }
  var isDeleted: Bool { record.flags.contains(.deleted) }

  /// Whether something holds it in memory.
  var isBusy: Bool {
    isQueued || isBeingCommitted || isUploading || record.pending != nil || node.rawValue != id.rawValue
      || folder?.isLoaded == true
      || folder?.isListing == true || folder.map { $0.opens > 0 } == true
      || content.map { $0.opens > 0 || !$0.isIdle } == true
  }
}

extension Content {
  /// Nothing is fetched or proven, nobody waits, and the catalog knows of all that has come.
  var isIdle: Bool {
    local.withLock {
      $0.fetches == 0 && !$0.isProving && $0.waiters.isEmpty && !$0.streaming && $0.unsettled == 0
    }
  }
}

/// The entries of a folder in memory.
final class Folder {
  /// All entries of the catalog are in `children`.
  var isLoaded = false
  var children: [ItemName: ItemID] = [:]
  /// The container is being asked; who waits for it.
  var isListing = false
  var listWaiters: [ListWaiter] = []
  /// For the order in which folders leave memory.
  var lastUse: UInt64 = 0
  var opens = 0
  /// The ids in order, kept until an entry comes or goes.
  var ordered: [(id: ItemID, name: ItemName)]?

  struct ListWaiter {
    var id: UInt64
    /// CLOCK_MONOTONIC ns.
    var since: UInt64
    var finish: @Sendable (Errno?) -> Void
  }

  func insert(_ name: ItemName, _ id: ItemID) {
    children[name] = id
    ordered = nil
  }
  /// Takes the item's name out, unless it leads to another item.
  func remove(_ item: Item) {
    guard children[item.record.place.name] == item.id else { return }
    children[item.record.place.name] = nil
    ordered = nil
  }
}

/// An open file. It stays with its content, whatever becomes of the item's name.
package final class FileHandle: Sendable {
  let content: Content
  let mode: OpenMode
  /// The bytes of a stub, whose handle this is; nil: the content's.
  let stub: [UInt8]?
  /// Where the kernel may read and write by itself as long as the handle is open. All handles of a node have it, or
  /// none.
  package let lent: ContentFile?
  /// Whether what the kernel has of the node's bytes is what they are now.
  package let keepsPages: Bool
  init(
    _ content: Content, _ mode: OpenMode, stub: [UInt8]? = nil, lent: ContentFile? = nil, keepsPages: Bool = true
  ) {
    self.content = content
    self.mode = mode
    self.stub = stub
    self.lent = lent
    self.keepsPages = keepsPages
  }
}

/// An open folder, with the entries as they were when it was opened or last rewound.
package final class FolderHandle: Sendable {
  let item: Item
  let snapshot = Guarded<[(id: ItemID, name: ItemName)]>([])
  init(_ item: Item) { self.item = item }
}

package struct FolderEntry {
  /// Give it as `after` to go on behind this entry.
  package var cookie: UInt64
  package var name: [UInt8]
  package var kind: ItemKind
  package var id: ItemID
  /// With node and attributes, where they were asked for; never for `.` and `..`.
  package var entry: Entry?
}
