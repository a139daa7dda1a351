import Containers
import StorageErrors

// lookup, create, unlink, rename: each is a change in memory under the lock, a row in the journal, and an answer
// after the commit. The uploader follows on its own.
extension Volume {
  package func lookup(
    _ parent: NodeID, _ name: ItemName, _ wait: @escaping Interruptible, _ reply: @escaping Reply<Entry?>
  ) {
    perform(wait, reply) { state throws(Need) in
      let (_, folder) = try state.folder(parent)
      guard let item = try state.child(folder, name) else { return .done(nil) }
      return .done(name == item.record.place.name ? state.entry(item) : state.shownEntry(item))
    }
  }

  package func makeFolder(
    _ parent: NodeID, _ name: ItemName, mode: UInt32, _ caller: Caller, _ wait: @escaping Interruptible,
    _ reply: @escaping Reply<Entry>
  ) {
    make(.folder, parent, name, mode: mode, nil, caller, wait, reply) { state, item in state.entry(item) }
  }

  package func makeSymlink(
    _ parent: NodeID, _ name: ItemName, target: [UInt8], _ caller: Caller, _ wait: @escaping Interruptible,
    _ reply: @escaping Reply<Entry>
  ) {
    make(.symlink, parent, name, mode: 0o777, target, caller, wait, reply) { state, item in state.entry(item) }
  }

  package func makeFile(
    _ parent: NodeID, _ name: ItemName, mode: UInt32, _ caller: Caller, _ wait: @escaping Interruptible,
    _ reply: @escaping Reply<Entry>
  ) {
    make(.file, parent, name, mode: mode, nil, caller, wait, reply) { state, item in state.entry(item) }
  }

  package func create(
    _ parent: NodeID, _ name: ItemName, mode: UInt32, _ open: OpenMode, _ caller: Caller,
    _ wait: @escaping Interruptible, _ reply: @escaping Reply<(Entry, FileHandle)>
  ) {
    let lends = lends.load(ordering: .acquiring) && mode & 0o6000 == 0
    let made: Reply<(Entry, FileHandle)> = { result in
      guard lends, case .success(let (entry, handle)) = result else { return reply(result) }
      reply(.success((entry, self.lendNew(handle))))
    }
    make(.file, parent, name, mode: mode, nil, caller, wait, made) { state, item in
      let content = state.content(of: item)
      content.opens += 1
      // With its row: the first write needs no commit of its own.
      let number = state.newContentNumber()
      content.local.withLock { $0.number = number }
      item.record.content = number
      return (state.entry(item), FileHandle(content, open))
    }
  }

  /// The handle of a file that was just made, on a content file that is lent, unless somebody else has it open already.
  private func lendNew(_ handle: FileHandle) -> FileHandle {
    let content = handle.content
    guard let offer = offer(content.local.withLock { $0.number }, create: true) else { return handle }
    let lent = locked { state in self.lend(content, offer, handle.mode, &state) }
    return FileHandle(content, handle.mode, lent: lent, keepsPages: lent == nil)
  }

  private func make<T: Sendable>(
    _ kind: ItemKind, _ parent: NodeID, _ name: ItemName, mode: UInt32, _ target: [UInt8]?, _ caller: Caller,
    _ wait: @escaping Interruptible, _ reply: @escaping Reply<T>,
    answer: @escaping @Sendable (inout VolumeState, Item) -> T
  ) {
    perform(wait, reply) { state throws(Need) in
      try self.requireWritable(state)
      let (dir, folder) = try state.folder(parent)
      guard !dir.isDeleted, !dir.isGone else { throw .fail(.ENOENT) }
      guard try state.child(folder, name) == nil else { throw .fail(.EEXIST) }
      guard !ReservedName.isReserved(Place(folder: dir.id, name: name)) else { throw .fail(.EPERM) }
      let now = Timestamp.now()
      var record = ItemRecord(
        id: state.newItemID(), place: Place(folder: dir.id, name: name), kind: kind, mode: mode & 0o7777,
        uid: caller.uid, gid: caller.gid, size: 0, accessed: now, modified: now, changed: now)
      if dir.record.mode & 0o2000 != 0 {
        record.gid = dir.record.gid
        if kind == .folder { record.mode |= 0o2000 }
      }
      record.target = target
      record.flags = kind == .file ? [.whole, .contentDirty] : kind == .folder ? [.listed] : []
      let item = state.add(record, to: folder)
      item.folder?.isLoaded = true
      self.changedLocally(item, &state)
      state.touchFolder(dir, now)
      return .recorded(answer(&state, item))
    }
  }

  package func unlink(
    _ parent: NodeID, _ name: ItemName, _ wait: @escaping Interruptible, _ reply: @escaping Reply<Void>
  ) {
    perform(wait, reply) { state throws(Need) in
      try self.requireWritable(state, needsRoom: false)
      let (dir, folder) = try state.folder(parent)
      guard let item = try state.child(folder, name) else { throw .fail(.ENOENT) }
      guard item.record.kind != .folder else { throw .fail(.EISDIR) }
      self.remove(item, from: folder, &state)
      state.touchFolder(dir, .now())
      return .recorded(())
    }
  }

  package func removeFolder(
    _ parent: NodeID, _ name: ItemName, _ wait: @escaping Interruptible, _ reply: @escaping Reply<Void>
  ) {
    perform(wait, reply) { state throws(Need) in
      try self.requireWritable(state, needsRoom: false)
      let (dir, folder) = try state.folder(parent)
      guard let item = try state.child(folder, name) else { throw .fail(.ENOENT) }
      try self.requireEmptyFolder(item, &state)
      self.remove(item, from: folder, &state)
      state.touchFolder(dir, .now())
      return .recorded(())
    }
  }

  private func requireEmptyFolder(_ item: Item, _ state: inout VolumeState) throws(Need) {
    guard let folder = item.folder else { throw .fail(.ENOTDIR) }
    try state.load(item, folder)
    guard folder.children.isEmpty else { throw .fail(.ENOTEMPTY) }
  }

  /// Takes an item out of its folder. What the container has of it is journalled to go too; what it never had, and
  /// is not about to get, leaves no trace.
  func remove(_ item: Item, from folder: Folder, _ state: inout VolumeState) {
    showAnew(item, at: item.record.place, state)
    folder.remove(item)
    item.record.flags.insert(.deleted)
    // Another version that nobody has seen here is not what is removed: at the container this will not fit, and it stays.
    if let seen = item.lastSeenVersion { item.record.remote?.version = seen }
    item.record.changed = .now()
    item.record.flags.remove(.pinned)
    state.setDirty(item, false)
    item.record.flags.remove(.attributesDirty)
    releaseBytesIfUnused(item, &state)
    if item.record.remote == nil, item.record.job == nil, !item.isUploading {
      state.discard(item)
    } else {
      state.setPending(item, true)
      state.queue(item)
      state.updateVacating(item, before: item.record.remote)
      uploader.schedule(item, self)
    }
  }

  /// The local bytes of a deleted item, once no handle needs them.
  func releaseBytesIfUnused(_ item: Item, _ state: inout VolumeState) {
    guard item.isDeleted, item.record.kind == .file, (item.content?.opens ?? 0) == 0 else { return }
    state.countBytes(item, 0)
    let number =
      item.content?.local.withLock { local in
        defer { local.number = 0 }
        local.file = nil
        local.streaming = false
        return local.number
      } ?? item.record.content
    state.removeContentFile(number)
    if item.record.content != number { state.removeContentFile(item.record.content) }
    item.record.content = 0
  }

  package func rename(
    _ parent: NodeID, _ name: ItemName, to newParent: NodeID, _ newName: ItemName, _ flags: RenameFlags,
    _ wait: @escaping Interruptible, _ reply: @escaping Reply<Void>
  ) {
    perform(wait, reply) { state throws(Need) in
      try self.requireWritable(state)
      guard flags.rawValue & ~3 == 0, flags != [.noReplace, .exchange] else { throw .fail(.EINVAL) }
      let (fromDir, fromFolder) = try state.folder(parent)
      let (toDir, toFolder) = try state.folder(newParent)
      guard !toDir.isDeleted, !toDir.isGone else { throw .fail(.ENOENT) }
      guard let item = try state.child(fromFolder, name) else { throw .fail(.ENOENT) }
      // A stub is moved as the item that it stands for, also to another stub's name.
      let isStub = item.record.place.name != name
      guard !isStub || !flags.contains(.exchange) else { throw .fail(.EINVAL) }
      let newName = isStub ? Stub.realName(of: newName) ?? newName : newName
      guard !ReservedName.isReserved(Place(folder: toDir.id, name: newName)) else { throw .fail(.EPERM) }
      let target = try state.child(toFolder, newName)
      try self.requireOutside(item, toDir, state)
      if flags.contains(.exchange) {
        guard let target else { throw .fail(.ENOENT) }
        try self.requireOutside(target, fromDir, state)
        self.exchange(item, fromFolder, target, toFolder, &state)
      } else if let target {
        guard !flags.contains(.noReplace) else { throw .fail(.EEXIST) }
        if target === item { return .done(()) }
        try self.requireReplaceable(target, by: item, &state)
        if state.isPinned(target), item.record.kind == .file, target.record.kind == .file,
          target.record.flags.contains(.pinned)
        {
          item.record.flags.insert(.pinned)
        }
        self.remove(target, from: toFolder, &state)
        self.move(item, fromFolder, Place(folder: toDir.id, name: newName), toFolder, &state)
      } else {
        self.move(item, fromFolder, Place(folder: toDir.id, name: newName), toFolder, &state)
      }
      let now = Timestamp.now()
      state.touchFolder(fromDir, now)
      if toDir !== fromDir { state.touchFolder(toDir, now) }
      return .recorded(())
    }
  }

  /// A folder cannot become its own descendant.
  private func requireOutside(_ item: Item, _ folder: Item, _ state: VolumeState) throws(Need) {
    if try state.isInside(folder, item) { throw .fail(.EINVAL) }
  }

  private func requireReplaceable(_ target: Item, by item: Item, _ state: inout VolumeState) throws(Need) {
    if target.record.kind == .folder {
      guard item.record.kind == .folder else { throw .fail(.EISDIR) }
      try requireEmptyFolder(target, &state)
    } else if item.record.kind == .folder {
      throw .fail(.ENOTDIR)
    }
  }

  /// Moves an item to another place here, and journals that it should follow at the container.
  func move(_ item: Item, _ from: Folder, _ place: Place, _ to: Folder, _ state: inout VolumeState) {
    showAnew(item, at: item.record.place, state)
    from.remove(item)
    item.record.place = place
    item.record.changed = .now()
    to.insert(place.name, item.id)
    showAnew(item, at: place, state)
    state.updateVacating(item, before: item.record.remote)
    changedLocally(item, &state)
  }

  private func exchange(_ a: Item, _ inA: Folder, _ b: Item, _ inB: Folder, _ state: inout VolumeState) {
    let (placeA, placeB) = (a.record.place, b.record.place)
    for (item, place, folder) in [(a, placeB, inB), (b, placeA, inA)] {
      item.record.place = place
      item.record.changed = .now()
      folder.insert(place.name, item.id)
      state.updateVacating(item, before: item.record.remote)
      changedLocally(item, &state)
    }
  }

  /// Journals that something of the item differs from the container, and lets the uploader know.
  func changedLocally(_ item: Item, _ state: inout VolumeState) {
    guard !item.isGone, item.id != .root else {
      state.queue(item)
      return
    }
    state.setPending(item, true)
    state.queue(item)
    uploader.schedule(item, self)
  }
}
