import Containers
import StorageErrors

extension Volume {
  package func openFolder(_ node: NodeID, _ wait: @escaping Interruptible, _ reply: @escaping Reply<FolderHandle>) {
    perform(wait, reply) { state throws(Need) in
      let (item, folder) = try state.folder(node)
      folder.opens += 1
      let handle = FolderHandle(item)
      self.rewind(handle, folder)
      return .done(handle)
    }
  }

  package func releaseFolder(_ handle: FolderHandle) {
    locked { state in
      handle.item.folder?.opens -= 1
      state.dropIfUnused(handle.item)
    }
  }

  /// Takes the entries as they are now, in the order of their ids: an entry's id is its place in the stream.
  private func rewind(_ handle: FolderHandle, _ folder: Folder) {
    if folder.ordered == nil {
      folder.ordered = folder.children.map { (id: $1, name: $0) }.sorted { $0.id < $1.id }
    }
    let entries = folder.ordered ?? []
    handle.snapshot.withLock { $0 = entries }
  }

  /// Gives the entries behind `cookie`, from the start with 0, until `body` returns false. The start takes the
  /// entries anew; after that, entries that come are not shown, and those that go are left out.
  package func readFolder(
    _ handle: FolderHandle, after cookie: UInt64, plus: Bool, _ body: (FolderEntry) -> Bool
  ) -> Result<Void, Errno> {
    let (id, parent) = locked { _ in
      (handle.item.id, handle.item.id == .root ? ItemID.root : handle.item.record.place.folder)
    }
    if cookie == 0 {
      // A handle of a folder that has left memory meanwhile keeps the entries it has.
      locked { _ in if let folder = handle.item.folder, folder.isLoaded { rewind(handle, folder) } }
      guard body(.init(cookie: 1, name: [0x2e], kind: .folder, id: id)) else { return .success(()) }
    }
    if cookie < 2 {
      guard body(.init(cookie: 2, name: [0x2e, 0x2e], kind: .folder, id: parent)) else { return .success(()) }
    }
    let entries = handle.snapshot.withLock { $0 }
    var index = Self.firstIndex(in: entries, after: ItemID(max(2, cookie) - 1))
    while index < entries.count {
      let end = min(index + 256, entries.count)
      switch page(entries[index..<end], of: handle.item, plus: plus) {
      case .failure(let errno): return .failure(errno)
      case .success(let page):
        for (position, entry) in page.enumerated() where !body(entry) {
          giveBack(page[position...])
          return .success(())
        }
      }
      index = end
    }
    return .success(())
  }

  /// Ids begin at 2, cookies of entries at 3: an entry's cookie is its id and 1.
  private static func firstIndex(in entries: [(id: ItemID, name: ItemName)], after id: ItemID) -> Int {
    var low = 0
    var high = entries.count
    while low < high {
      let middle = (low + high) / 2
      if entries[middle].id <= id { low = middle + 1 } else { high = middle }
    }
    return low
  }

  private func page(
    _ entries: ArraySlice<(id: ItemID, name: ItemName)>, of folder: Item, plus: Bool
  ) -> Result<[FolderEntry], Errno> {
    performNow { state throws(Need) in
      var found: [(Item, ItemName)] = []
      for (id, name) in entries {
        // Without the folder in memory, an entry that is not there either may have been removed: ask.
        if let loaded = folder.folder, loaded.isLoaded, loaded.children[name] != id,
          state.items[id].map({ $0.isDeleted || $0.isGone || $0.record.place.folder != folder.id }) ?? true
        {
          continue
        }
        let item = try state.item(id)
        guard !item.isDeleted, !item.isGone, item.record.place.folder == folder.id else { continue }
        found.append((item, item.record.place.name))
      }
      return found.map { item, name in
        FolderEntry(
          cookie: item.id.rawValue + 1, name: (state.stubName(item) ?? name).bytes, kind: item.record.kind, id: item.id,
          entry: plus ? state.shownEntry(item) : nil)
      }
    }
  }

  /// Entries that did not fit were not looked up.
  private func giveBack(_ entries: ArraySlice<FolderEntry>) {
    for entry in entries {
      if let node = entry.entry?.node { forget(node, count: 1) }
    }
  }
}
