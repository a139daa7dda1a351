import CLinux
import Containers
import Glibc
import StorageErrors

// Nothing is overwritten unseen: the version at the container keeps the name, the local bytes get one of their own.
extension Volume {
  /// Somebody else's `found` is where `item` was to go.
  func resolveConflict(_ item: Item, _ found: RemoteItem, _ work: UploadWork) -> Bool {
    guard case .put = work.step, item.record.remote != nil else { return yieldName(item, to: found, work) }
    return keepBoth(item, found, work)
  }

  /// The item goes on with what the container has of it; the bytes that were written here become a file beside it.
  func keepBoth(_ item: Item, _ found: RemoteItem, _ work: UploadWork) -> Bool {
    Log.warning("conflict: changed here and by somebody else; both are kept", ["path": work.path])
    return locked { state in
      guard !item.isDeleted, !item.isGone, item.record.remote == work.record.remote else { return true }
      let content = state.content(of: item)
      self.detach(content, from: item, &state)
      self.adopt(found, for: item, &state)
      self.keepAsConflict(content, &state)
      return true
    }
  }

  /// `item` steps aside with all it has; the name is the other's.
  func yieldName(_ item: Item, to found: RemoteItem, _ work: UploadWork) -> Bool {
    Log.warning("conflict: another item has the name; both are kept", ["path": work.path])
    return locked { state in
      guard !item.isDeleted, !item.isGone, let dir = state.items[item.record.place.folder],
        let folder = dir.folder,
        folder.isLoaded
      else {
        uploader.retry(item, in: 1)
        return false
      }
      counters.conflicts.add()
      let place = item.record.place
      item.record.job = nil
      item.record.flags.insert(.conflict)
      let free = Self.freeName(
        Self.conflictName(place.name, isFolder: item.record.kind == .folder), in: folder)
      self.move(item, folder, Place(folder: dir.id, name: free), folder, &state)
      self.install(found, at: place, &state)
      return true
    }
  }

  /// A content that the item's name no longer leads to, and that was changed: it becomes a file of its own beside it.
  func keepAsConflict(_ content: Content, _ state: inout VolumeState) {
    let old = content.owner
    guard let dir = state.items[old.record.place.folder], let folder = dir.folder else { return }
    counters.conflicts.add()
    var record = old.record
    record.id = state.newItemID()
    record.remote = nil
    record.job = nil
    record.error = nil
    record.pending = nil
    record.bytes = 0
    record.flags = [.whole, .contentDirty, .conflict]
    if content.loan?.isWritable == true { record.flags.insert(.lent) }
    let (number, size) = content.local.withLock { ($0.number, $0.size) }
    record.content = number
    record.size = size
    record.place.name = Self.freeName(Self.conflictName(old.record.place.name), in: folder)
    let copy = state.add(record, to: folder)
    copy.node = content.node
    copy.content = content
    content.owner = copy
    content.local.withLock { $0.version = nil }
    state.nodes[content.node] = content
    let info = store.info(number)
    state.countBytes(copy, info?.bytes ?? size)
    changedLocally(copy, &state)
    tellKernel {
      $0.invalidateEntry(dir.node, record.place.name)
      $0.invalidateContent(dir.node)
      $0.invalidateAttributes(content.node)
    }
  }

  /// `name (conflict HOST YYYY-MM-DD HH.MM.SS).ext`, cut to 255 bytes.
  static func conflictName(_ name: ItemName, isFolder: Bool = false) -> ItemName {
    ConflictName.make(for: name, isFolder: isFolder)
  }

  /// `name`, or with a number in front of it, such that the folder has none of that name.
  static func freeName(_ name: ItemName, in folder: Folder) -> ItemName {
    var candidate = name
    var number = 2
    while folder.children[candidate] != nil {
      let prefix = Array("\(number) ".utf8)
      candidate = (try? ItemName(prefix + name.bytes.prefix(255 - prefix.count))) ?? name
      number += 1
    }
    return candidate
  }
}
