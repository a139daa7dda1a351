import Containers
import StorageErrors

// What the container has is taken over here, one item at a time and under the lock. Local edits are never touched:
// where both sides have changed, the upload's precondition fails, and that decides.
extension Volume {
  /// Takes `content` away from its item: handles keep it, the name leads elsewhere from now on.
  func detach(_ content: Content, from item: Item, _ state: inout VolumeState) {
    state.nodes[content.node] = content
    item.lastSeenVersion = item.lastSeenVersion ?? item.record.remote?.version
    item.content = nil
    item.node = state.newNode()
  }

  /// Gives the item the container's version, as a placeholder.
  func adopt(_ found: RemoteItem, for item: Item, _ state: inout VolumeState) {
    let before = item.record.remote
    let place = before?.place ?? item.record.place
    item.record.remote = RemoteState(
      place: place, version: found.version, identity: found.identity, size: found.size)
    state.setDirty(item, false)
    state.countBytes(item, 0)
    item.record.content = 0
    item.record.extents = RangeSet()
    item.record.size = found.size
    item.record.flags.remove([.remoteNewer, .conflict, .attributesDirty, .whole, .lent])
    if found.size == 0 { item.record.flags.insert(.whole) }
    item.record.job = nil
    state.setError(item, nil)
    item.dirtySince = 0
    takeAttributes(found, item)
    state.updateVacating(item, before: before)
    state.setPending(item, item.isDeleted || item.record.remote?.place != item.record.place)
    state.queue(item)
    if item.node.rawValue != item.id.rawValue { _ = state.content(of: item) }
    let dir = state.items[item.record.place.folder]
    tellKernel { if let dir { $0.invalidateEntry(dir.node, item.record.place.name) } }
    showAnew(item, at: item.record.place, state)
    if state.isPinned(item), item.record.kind == .file { materializer.stream(state.content(of: item)) }
  }

  func takeAttributes(_ found: RemoteItem, _ item: Item) {
    if let mode = found.attributes.mode { item.record.mode = mode & 0o7777 }
    if let modified = found.attributes.mtime { item.record.modified = modified }
    if let xattrs = found.attributes.xattrs, container.traits.holdsXattrs { item.record.xattrs = xattrs }
    if found.kind == .symlink { item.record.target = found.target }
    item.record.changed = .now()
  }

  /// Makes an item of the container appear at `place`, where nothing local is in the way.
  @discardableResult
  func install(_ found: RemoteItem, at place: Place, _ state: inout VolumeState) -> Item? {
    guard let dir = state.items[place.folder], let folder = dir.folder, folder.isLoaded else { return nil }
    if dir.isDeleted || dir.isGone { return nil }
    guard folder.children[place.name] == nil else { return nil }
    let record = record(found, at: place, &state)
    let item = state.add(record, to: folder)
    tellKernel {
      $0.invalidateEntry(dir.node, place.name)
      $0.invalidateContent(dir.node)
    }
    if state.isPinned(item), item.record.kind == .file { materializer.stream(state.content(of: item)) }
    return item
  }

  func record(_ found: RemoteItem, at place: Place, _ state: inout VolumeState) -> ItemRecord {
    let now = Timestamp.now()
    let defaultMode: UInt32 = found.kind == .folder ? 0o755 : found.kind == .symlink ? 0o777 : 0o644
    var record = ItemRecord(
      id: state.newItemID(), place: place, kind: found.kind, mode: (found.attributes.mode ?? defaultMode) & 0o7777,
      uid: configuration.uid, gid: configuration.gid, size: found.size, accessed: found.attributes.mtime ?? now,
      modified: found.attributes.mtime ?? now, changed: found.attributes.mtime ?? now)
    record.target = found.target
    record.xattrs = found.attributes.xattrs ?? [:]
    record.remote = RemoteState(
      place: place, version: found.version, identity: found.identity, size: found.size)
    if found.kind == .file, found.size == 0 { record.flags.insert(.whole) }
    return record
  }

  /// A known item as the container has it now.
  func update(_ item: Item, with found: RemoteItem, _ state: inout VolumeState) {
    guard let remote = item.record.remote, !item.isUploading else { return }
    guard found.kind == item.record.kind else { return }
    if remote.version == found.version, remote.size == found.size { return updateAttributes(item, with: found, &state) }
    if found.kind != .file {
      if found.kind == .folder, let path = try? state.remotePath(remote.place) {
        // Another folder of the same name: what is in it has to be looked at anew.
        self.remote.forgetPaths(under: path)
        if item.record.flags.contains(.listed) { self.remote.look(at: [ChangeHint(folder: path)]) }
      }
      item.record.remote?.version = found.version
      item.record.remote?.identity = found.identity
      if !item.record.flags.contains(.attributesDirty) { takeAttributes(found, item) }
      state.queue(item)
      // The kernel keeps a symlink's target as it keeps content.
      tellKernel {
        if found.kind == .symlink { $0.invalidateContent(item.node) } else { $0.invalidateAttributes(item.node) }
      }
      return
    }
    // What is lent for writing is taken for dirty, until it is taken back.
    if item.record.isDirty || item.isDeleted || item.record.flags.contains(.lent) {
      item.record.flags.insert(.remoteNewer)
      state.queue(item)
      return
    }
    replaceContent(item, with: found, &state)
  }

  /// Somebody has set the time or mode of a file whose bytes are the same; what was set here goes before.
  private func updateAttributes(_ item: Item, with found: RemoteItem, _ state: inout VolumeState) {
    guard container.traits.attributesChangeAlone, !found.attributes.areGuessed, item.record.kind == .file,
      !item.record.isDirty, !item.record.flags.contains(.attributesDirty), !item.isDeleted
    else { return }
    let before = (item.record.mode, item.record.modified)
    let now = (found.attributes.mode ?? before.0, found.attributes.mtime ?? before.1)
    guard before != now else { return }
    takeAttributes(found, item)
    state.queue(item)
    tellKernel { $0.invalidateAttributes(item.node) }
  }

  /// A new version of a file that nobody has changed here. Handles keep the old one.
  private func replaceContent(_ item: Item, with found: RemoteItem, _ state: inout VolumeState) {
    let number = item.record.content
    let isKnown = state.lookups[item.node] != nil || (item.content?.opens ?? 0) > 0
    let keepsPlace = item.record.place
    let attributesDirty = item.record.flags.contains(.attributesDirty)
    if isKnown {
      let content = state.content(of: item)
      detach(content, from: item, &state)
      content.local.withLock { $0.streaming = false }
      let opens = content.opens
      adopt(found, for: item, &state)
      if opens == 0 { drop(content, &state) }
    } else {
      item.content?.local.withLock { $0.streaming = false }
      item.content = nil
      adopt(found, for: item, &state)
      state.removeContentFile(number)
    }
    item.record.place = keepsPlace
    if attributesDirty {
      item.record.flags.insert(.attributesDirty)
      state.setPending(item, true)
    }
  }

  /// The item is no longer at the container. Local edits are kept, and go up again as new.
  func removedElsewhere(_ item: Item, _ state: inout VolumeState) {
    if let content = item.content { noticeWrites(content, &state) }
    let before = item.record.remote
    if item.record.kind == .folder {
      if let before, let path = try? state.remotePath(before.place) { remote.forgetPaths(under: path) }
      // With all that was in it there, wherever that is here; what was moved into it here is elsewhere there.
      let children = item.folder.map { Array($0.children.values) } ?? []
      let left = state.vacating[item.id].map { Array($0.values) } ?? []
      for id in children + left {
        guard let child = state.items[id], child.record.remote?.place.folder == item.id else { continue }
        removedElsewhere(child, &state)
      }
    }
    if item.isDeleted { return removedRemotely(item, &state) }
    // Renamed here and still whole: that is an edit too. So is what is lent for writing: nobody could refuse the writes
    // that may still come.
    if item.record.kind == .file, item.record.flags.contains(.whole),
      item.record.place != before?.place || item.record.flags.contains(.lent)
    {
      state.setDirty(item, true)
    }
    let survives =
      item.record.isDirty || item.record.remote == nil
      || item.folder.map { !$0.children.isEmpty } == true
    if survives {
      item.record.remote = nil
      item.record.job = nil
      item.record.flags.remove(.remoteNewer)
      state.updateVacating(item, before: before)
      changedLocally(item, &state)
      return
    }
    guard let dir = state.items[item.record.place.folder], let folder = dir.folder else { return }
    let name = item.record.place.name
    folder.remove(item)
    item.record.flags.insert(.deleted)
    item.wasRemovedElsewhere = true
    item.record.remote = nil
    state.updateVacating(item, before: before)
    if let content = item.content, content.opens > 0 {
      // Handles go on reading what is local.
      content.local.withLock { $0.streaming = false }
    } else {
      releaseBytesIfUnused(item, &state)
    }
    state.discard(item)
    tellKernel {
      $0.invalidateEntry(dir.node, name)
      $0.invalidateContent(dir.node)
    }
  }

  /// Somebody has moved the item to `place` at the container; it follows here, unless it was moved here too, or
  /// that place was moved into the item here: then it is moved back there.
  func movedElsewhere(
    _ item: Item, to place: Place, as found: RemoteItem, _ state: inout VolumeState
  ) throws(Need) {
    guard let dir = state.items[place.folder], let folder = dir.folder, folder.isLoaded, !dir.isDeleted else { return }
    // Both looks were right, each in its time: the next one tells.
    if state.isBelow(place.folder, item.id) { return remote.rescan() }
    let isInside = try state.isInside(dir, item)
    let before = item.record.remote
    if item.record.kind == .folder, let before, let old = try? state.remotePath(before.place),
      let new = try? state.remotePath(place)
    {
      remote.pathsMoved(from: old, to: new)
    }
    let followed = item.record.place == before?.place
    item.record.remote?.place = place
    state.updateVacating(item, before: before)
    if followed, !isInside, !item.isDeleted, folder.children[place.name] == nil {
      guard let oldDir = state.items[item.record.place.folder] else { return }
      let oldName = item.record.place.name
      oldDir.folder?.remove(item)
      item.record.place = place
      folder.insert(place.name, item.id)
      state.updateVacating(item, before: nil)
      tellKernel {
        $0.invalidateEntry(oldDir.node, oldName)
        $0.invalidateContent(oldDir.node)
        $0.invalidateEntry(dir.node, place.name)
        $0.invalidateContent(dir.node)
      }
    }
    state.updateVacating(item, before: item.record.remote)
    // A rename changes the version's mark where the mark holds a change time, not the bytes.
    if item.record.remote?.size == found.size, found.attributes.mtime == item.record.modified {
      item.record.remote?.version = found.version
      item.content?.local.withLock { if $0.version != nil { $0.version = found.version } }
    } else {
      update(item, with: found, &state)
    }
    if item.record.remote?.place != item.record.place { changedLocally(item, &state) }
    state.queue(item)
  }
}
