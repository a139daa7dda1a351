import Containers

/// The next thing to do at the container so that it gets what an item is here. It follows from the item's state
/// alone: whatever happened in between (written, renamed, deleted), only what is left of it is done.
enum UploadStep: Equatable {
  /// Nothing differs any more.
  case settled
  /// Deleted here, and never there.
  case discard
  /// Another item has to get there, move away or go first.
  case blocked(on: ItemID)
  /// An upload was under way when the last process ended: look how it ended.
  case recallJob
  case makeFolder
  case makeSymlink
  case put(Precondition)
  case rename
  /// Items that wait for each other, such as two that swap their places: one steps aside.
  case park
  case remove
  case setAttributes
}

extension VolumeState {
  /// The step for `item`. Pure, but for handing on the place of a deleted file to the one that replaced it.
  mutating func plan(_ item: Item) throws(Need) -> UploadStep {
    if item.isGone { return .settled }
    let r = item.record
    if r.job != nil, !item.jobIsOurs { return .recallJob }
    if item.isDeleted { return planDeleted(item) }
    if r.place.folder != .root {
      let parent = try self.item(r.place.folder)
      if parent.record.remote == nil { return wait(item, for: parent.id) }
    }
    guard let remote = r.remote else {
      if let blocker = try occupant(of: r.place, for: item) { return .blocked(on: blocker) }
      // A file that was replaced has handed its place on.
      if let inherited = item.record.remote { return .put(.version(inherited.version)) }
      switch r.kind {
      case .folder: return .makeFolder
      case .symlink: return .makeSymlink
      case .file: return .put(.absent)
      }
    }
    if remote.place != r.place {
      if let blocker = try occupant(of: r.place, for: item) ?? folderToLeave(item) { return wait(item, for: blocker) }
      if item.record.remote?.place != r.place { return .rename }
    }
    guard let version = item.record.remote?.version else { return .settled }
    if r.isDirty || item.record.isDirty { return .put(.version(version)) }
    return r.flags.contains(.attributesDirty) ? .setAttributes : .settled
  }

  private mutating func planDeleted(_ item: Item) -> UploadStep {
    guard let remote = item.record.remote else { return .discard }
    if item.record.kind == .folder, let blocker = vacating[item.id]?.values.first { return .blocked(on: blocker) }
    // The file that replaced it here replaces it there, in one step.
    if item.record.kind == .file, let heir = heir(of: remote.place), handOn(from: item, to: heir) {
      return item.record.remote == nil ? .discard : .remove
    }
    return .remove
  }

  /// The local file at a place, where it can take over what is there.
  private func heir(of place: Place) -> Item? {
    guard let id = items[place.folder]?.folder?.children[place.name] else { return nil }
    return items[id]
  }

  /// Who is still at `place` at the container and has to leave; hands its place on where that is enough.
  private mutating func occupant(of place: Place, for item: Item) throws(Need) -> ItemID? {
    guard let id = vacating[place.folder]?[place.name], id != item.id else { return nil }
    let other = try self.item(id)
    if other.isDeleted, handOn(from: other, to: item) { return nil }
    return id
  }

  /// Largest file that is rather sent again than moved over a gap.
  private static let resendLimit: Int64 = 64 << 20

  /// Gives a deleted file's place at the container to the file that has its name now: the upload then replaces
  /// that very version, and at no moment is there nothing.
  private mutating func handOn(from old: Item, to heir: Item) -> Bool {
    guard old !== heir, old.isDeleted, old.record.kind == .file, heir.record.kind == .file, !heir.isDeleted,
      !old.isUploading, !heir.isUploading, old.record.job == nil, heir.record.job == nil,
      heir.record.flags.contains(.whole), let remote = old.record.remote, remote.place == heir.record.place,
      heir.record.remote == nil || heir.record.size <= Self.resendLimit
    else { return false }
    let left = heir.record.remote
    heir.record.remote = remote
    setDirty(heir, true)
    heir.record.flags.insert(.attributesDirty)
    setPending(heir, true)
    old.record.remote = left
    updateVacating(old, before: remote)
    updateVacating(heir, before: left)
    if left != nil { updateVacating(old, before: nil) }
    queue(heir)
    queue(old)
    return true
  }

  /// Nothing but another item's upload lets `item` go on. Where that one waits for `item` in turn, `item` steps aside.
  private func wait(_ item: Item, for other: ItemID) -> UploadStep {
    item.record.remote != nil && isCycle(from: other, to: item) ? .park : .blocked(on: other)
  }

  /// Where a folder is to go lies inside it at the container: the folder in between that has to leave it first.
  private func folderToLeave(_ item: Item) -> ItemID? {
    guard item.record.kind == .folder else { return nil }
    var leaving: ItemID?
    var id = item.record.place.folder
    for _ in 0..<4096 where id != .root {
      if id == item.id { return leaving }
      guard let other = items[id], let remote = other.record.remote else { return nil }
      if remote.place != other.record.place { leaving = id }
      id = remote.place.folder
    }
    return nil
  }

  /// Whether the items that `start` waits for lead back to `item`.
  private func isCycle(from start: ItemID, to item: Item) -> Bool {
    var seen: Set<ItemID> = [start]
    var next = [start]
    while let id = next.popLast(), seen.count < 10_000 {
      if id == item.id { return true }
      for other in waits(id) where seen.insert(other).inserted { next.append(other) }
    }
    return false
  }

  /// The items that have to get there, move away or go before this one can.
  private func waits(_ id: ItemID) -> [ItemID] {
    guard let item = items[id], !item.isGone else { return [] }
    if item.isDeleted { return vacating[id].map { Array($0.values) } ?? [] }
    let place = item.record.place
    guard item.record.remote?.place != place else { return [] }
    var result: [ItemID] = []
    if place.folder != .root, let parent = items[place.folder], parent.record.remote == nil { result.append(parent.id) }
    if let occupant = vacating[place.folder]?[place.name], occupant != id { result.append(occupant) }
    if let folder = folderToLeave(item) { result.append(folder) }
    return result
  }
}
