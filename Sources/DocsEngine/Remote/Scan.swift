import Containers
import StorageErrors

/// Looks at places of the container, and brings what was added, changed, moved and removed there into the volume.
///
/// Removals come last, when everything that was looked at is known: what is missing in one place may have been
/// moved to another. An item whose upload ran while its place was looked at is looked at again.
extension Volume {
  private struct Findings {
    var missing: [ItemID] = []
    var again: [ChangeHint] = []
  }

  func scan(_ hints: [ChangeHint]) {
    guard !hints.isEmpty else { return }
    var findings = Findings()
    var byFolder: [ContainerPath: Set<ItemName>?] = [:]
    for hint in hints {
      guard let name = hint.name else {
        byFolder[hint.folder] = .some(nil)
        continue
      }
      if let known = byFolder[hint.folder] {
        guard var names = known else { continue }
        names.insert(name)
        // From here on one listing is cheaper; before, a large folder is not listed for every burst of our own uploads.
        byFolder[hint.folder] = names.count > 2048 ? .some(nil) : names
      } else {
        byFolder[hint.folder] = [name]
      }
    }
    // Folders before what is in them: a new one must be there when its entries are looked at.
    for (path, names) in byFolder.sorted(by: { $0.key.names.count < $1.key.names.count }) {
      guard locked({ $0.link.isConnected && !$0.isStopping }) else { return }
      guard let folder = knownFolder(path) else { continue }
      if let names { look(at: names, in: folder, path, &findings) } else { relist(folder, path, &findings) }
    }
    remote.miss(findings.missing)
    commit { _ in }
    shrink()
    remote.lookLater(at: findings.again)
  }

  /// The listed folder that is at `path` at the container; nil when nobody has looked into it yet.
  private func knownFolder(_ path: ContainerPath) -> ItemID? {
    let result = performNow { state throws(Need) -> ItemID? in
      var id = ItemID.root
      for name in path.names {
        let item = try state.item(id)
        guard let folder = item.folder, item.record.flags.contains(.listed), !item.isGone else { return nil }
        guard folder.isLoaded else { throw .children(id) }
        guard let next = try self.itemAt(Place(folder: id, name: name), folder, state), next.record.kind == .folder
        else { return nil }
        id = next.id
      }
      let item = try state.item(id)
      guard let folder = item.folder, item.record.flags.contains(.listed), !item.isGone else { return nil }
      guard folder.isLoaded else { throw .children(id) }
      return id
    }
    guard case .success(let id) = result else { return nil }
    return id
  }

  /// The item that we know to be at a place of the container.
  private func itemAt(_ place: Place, _ folder: Folder, _ state: VolumeState) throws(Need) -> Item? {
    if let id = folder.children[place.name] {
      let item = try state.item(id)
      if item.record.remote?.place == place { return item }
    }
    guard let id = state.vacating[place.folder]?[place.name] else { return nil }
    return try state.item(id)
  }

  private func look(
    at names: Set<ItemName>, in folder: ItemID, _ path: ContainerPath, _ findings: inout Findings
  ) {
    for name in names {
      let since = locked { $0.beginLook() }
      defer { locked { $0.endLook() } }
      do throws(ContainerError) {
        let found = try remote.withCall(self) { call throws(ContainerError) in
          try container.item(at: path.appending(name), call)
        }
        troubles.end(.looking)
        take([name: found], in: folder, path, since: since, &findings)
      } catch {
        noteFailure(path, error)
        return
      }
    }
  }

  private func relist(_ folder: ItemID, _ path: ContainerPath, _ findings: inout Findings) {
    let since = locked { $0.beginLook() }
    defer { locked { $0.endLook() } }
    let listing: [RemoteItem]
    do throws(ContainerError) {
      remote.follow(path)
      listing = try remote.withCall(self) { call throws(ContainerError) in try container.list(path, call) }
      troubles.end(.looking)
    } catch {
      noteFailure(path, error)
      return
    }
    var seen: [ItemName: RemoteItem?] = [:]
    for found in listing { seen[found.name] = .some(found) }
    // Complete: what we know to be there and is not in it is gone.
    let known = performNow { state throws(Need) -> [ItemName] in
      let dir = try state.item(folder)
      guard let loaded = dir.folder, !dir.isGone else { return [] }
      guard loaded.isLoaded else { throw .children(folder) }
      var names = state.vacating[folder].map { Array($0.keys) } ?? []
      for id in loaded.children.values {
        if let place = try state.item(id).record.remote?.place, place.folder == folder { names.append(place.name) }
      }
      return names
    }
    guard case .success(let known) = known else { return }
    for name in known where seen[name] == nil { seen[name] = .some(nil) }
    take(seen, in: folder, path, since: since, &findings)
  }

  private func noteFailure(_ path: ContainerPath, _ error: ContainerError) {
    switch error.code {
    case .unreachable, .identityMissing: remote.doubtLink(error.message)
    case .notFound: remote.unfollow(path)
    case .cancelled: break
    default:
      Log.error("looking failed", ["path": path, "error": error.message])
      troubles.note(.looking, error.message)
      remote.lookAtNextPoll(path)
    }
  }

  /// Takes over what was seen under each name; nil: nothing is there.
  private func take(
    _ seen: [ItemName: RemoteItem?], in id: ItemID, _ path: ContainerPath, since: UInt64, _ findings: inout Findings
  ) {
    var new: [RemoteItem] = []
    var missing: [ItemID] = []
    var again: [ChangeHint] = []
    let result = performNow { state throws(Need) in
      new = []
      missing = []
      again = []
      let dir = try state.item(id)
      guard let folder = dir.folder, !dir.isGone else { return }
      guard folder.isLoaded else { throw .children(id) }
      for (name, found) in seen {
        let place = Place(folder: id, name: name)
        if state.isRecalling(place) { continue }
        let isTouched = state.isTouched(place, since: since)
        guard let item = try self.itemAt(place, folder, state) else {
          if isTouched { again.append(ChangeHint(folder: path, name: name)) }
          if let found, !isTouched { new.append(found) }
          continue
        }
        if item.isUploading || isTouched {
          again.append(ChangeHint(folder: path, name: name))
        } else if let found, found.kind == item.record.kind {
          self.update(item, with: found, &state)
        } else {
          missing.append(item.id)
          if let found { new.append(found) }
        }
      }
    }
    guard case .success = result else { return }
    findings.again += again
    let replaced = Set(new.map(\.name))
    // A file where a folder was: the old one goes first, so that the new one has room.
    let displaced = missing.filter { missing in
      let name = performNow { state throws(Need) in try state.item(missing).record.remote?.place.name }
      return (try? name.get()).flatMap { $0 }.map { replaced.contains($0) } ?? false
    }
    if !displaced.isEmpty { removeMissing(displaced) }
    findings.missing += missing.filter { !displaced.contains($0) }
    for found in new { takeNew(found, at: Place(folder: id, name: found.name), path, since: since, &findings) }
  }

  /// Something that we did not know of: moved from elsewhere, or new.
  private func takeNew(
    _ found: RemoteItem, at place: Place, _ path: ContainerPath, since: UInt64, _ findings: inout Findings
  ) {
    guard !ReservedName.isParked(place) else { return }
    let moved = movedItem(found, to: place)
    let result = performNow { state throws(Need) -> ChangeHint? in
      let dir = try state.item(place.folder)
      guard let folder = dir.folder, !dir.isGone else { return nil }
      guard folder.isLoaded else { throw .children(place.folder) }
      // An upload may have ended since it was looked at.
      if state.isTouched(place, since: since) { return ChangeHint(folder: path, name: place.name) }
      if dir.isDeleted {
        self.bringBack(dir, &state)
      }
      if let moved {
        let item = try state.item(moved)
        try self.movedElsewhere(item, to: place, as: found, &state)
        return nil
      }
      if let id = folder.children[place.name] {
        let item = try state.item(id)
        if item.isUploading || state.isTouched(place, since: since) {
          return ChangeHint(folder: path, name: place.name)
        }
        if item.record.kind == .folder, found.kind == .folder, item.record.remote == nil {
          // Made here and there: one folder.
          item.record.remote = RemoteState(place: place, version: found.version, identity: found.identity, size: 0)
          self.changedLocally(item, &state)
          return ChangeHint(folder: path.appending(place.name))
        }
        // Two files of one name: the upload's precondition fails, and both are kept.
        return nil
      }
      self.install(found, at: place, &state)
      return nil
    }
    if case .success(let hint?) = result { findings.again.append(hint) }
  }

  /// A folder that was deleted here, and that somebody has put something into.
  private func bringBack(_ item: Item, _ state: inout VolumeState) {
    guard item.isDeleted, !item.isGone, let dir = state.items[item.record.place.folder], let folder = dir.folder
    else { return }
    if dir.isDeleted { bringBack(dir, &state) }
    let before = item.record.remote
    if folder.children[item.record.place.name] != nil {
      item.record.place.name = Self.freeName(Self.conflictName(item.record.place.name, isFolder: true), in: folder)
    }
    item.record.flags.remove(.deleted)
    folder.insert(item.record.place.name, item.id)
    state.updateVacating(item, before: before)
    changedLocally(item, &state)
    tellKernel {
      $0.invalidateEntry(dir.node, item.record.place.name)
      $0.invalidateContent(dir.node)
    }
  }

  /// The known item that has the identity of `found` and is no longer where we know it to be.
  private func movedItem(_ found: RemoteItem, to place: Place) -> ItemID? {
    guard let identity = found.identity, let records = try? catalog.records(identity: identity) else { return nil }
    for record in records where record.kind == found.kind && record.remote?.place != place {
      guard let remote = record.remote else { continue }
      let path = performNow { state throws(Need) -> ContainerPath? in
        // Into memory, and the truth of it.
        let item = try state.item(record.id)
        if item.record.place.folder != .root || item.id != .root { _ = try state.item(item.record.place.folder) }
        guard item.record.remote == remote, !item.isUploading, !item.isGone else { return nil }
        if let dir = state.items[item.record.place.folder], let folder = dir.folder, !folder.isLoaded {
          throw .children(dir.id)
        }
        return try state.remotePath(remote.place)
      }
      guard case .success(let old?) = path else { continue }
      do throws(ContainerError) {
        // Still there: another name for the same file, not a move.
        if try containerItem(at: old)?.identity != identity { return record.id }
      } catch {
        continue
      }
    }
    return nil
  }

  private func containerItem(at path: ContainerPath) throws(ContainerError) -> RemoteItem? {
    try remote.withCall(self) { call throws(ContainerError) in try container.item(at: path, call) }
  }

  // MARK: Removals

  /// Too many at once are not believed.
  func removeMissing(_ ids: [ItemID]) {
    let ids = stillMissing(ids)
    guard !ids.isEmpty else { return }
    // Whether it is our container that says so.
    guard containerIsOurs() else {
      return remote.doubtLink("\(container.url): the container has gone while it was listed")
    }
    let count = ids.reduce(0) { $0 + ((try? catalog.subtreeCount($1)) ?? 1) }
    let isHeld = locked { state in
      guard count > 100, count * 2 > state.itemCount, !state.acceptsDeletes else {
        state.heldDeletes.removeAll { ids.contains($0) }
        state.heldCount = 0
        return false
      }
      state.heldDeletes = Array(Set(state.heldDeletes + ids))
      state.heldCount = max(state.heldCount, count)
      return true
    }
    if isHeld {
      return Log.warning(
        "many items are missing at the container; their removal is held: docsfs doctor --accept-deletes",
        ["items": count])
    }
    for id in ids {
      _ = performNow { state throws(Need) in
        // It may have left memory since it was looked at.
        let item = try state.item(id)
        guard !item.isGone, !item.isUploading, item.record.remote != nil else { return }
        try self.requireSubtree(item, state)
        if item.id != .root { _ = try state.item(item.record.place.folder) }
        self.removedElsewhere(item, &state)
      }
    }
    commitSoon()
  }

  private func containerIsOurs() -> Bool {
    do throws(ContainerError) {
      let id = try remote.withCall(self) { call throws(ContainerError) in
        try container.identify(create: false, call)
      }
      return containerID == nil || id == containerID
    } catch {
      return error.code == .identityMissing && containerID == nil
    }
  }

  /// Those of the items that are really gone: another look, since some may have come back or moved meanwhile. Of
  /// a folder and what is in it, the folder alone.
  private func stillMissing(_ ids: [ItemID]) -> [ItemID] {
    var gone: Set<ItemID> = []
    // Folders first: one that has moved is there, and what was removed from it is not.
    for id in ids.map({ (id: $0, depth: depth($0)) }).sorted(by: { $0.depth < $1.depth }).map(\.id) {
      let place = performNow { [gone] state throws(Need) in try self.missing(id, gone, state) }
      guard case .success(.at(let path, let kind)) = place else { continue }
      do throws(ContainerError) {
        if try containerItem(at: path)?.kind != kind { gone.insert(id) }
      } catch {
        continue
      }
    }
    return ids.filter(gone.contains)
  }

  /// How many folders are above it at the container.
  private func depth(_ id: ItemID) -> Int {
    let depth = performNow { state throws(Need) -> Int in
      guard let place = try state.item(id).record.remote?.place else { return 0 }
      return try state.remotePath(place).names.count
    }
    return (try? depth.get()) ?? 0
  }

  private enum Missing {
    case not
    case at(ContainerPath, ItemKind)
  }

  /// Where to look for it again; it is looked for later when an upload of ours is just changing that.
  private func missing(_ id: ItemID, _ gone: Set<ItemID>, _ state: VolumeState) throws(Need) -> Missing {
    let item = try state.item(id)
    guard let place = item.record.remote?.place, !item.isGone else { return .not }
    var folder = place.folder
    while folder != .root {
      if gone.contains(folder) { return .not }
      guard let above = try state.item(folder).record.remote?.place.folder else { return .not }
      folder = above
    }
    if item.isUploading || state.movingFolder(place.folder) != nil {
      remote.miss([id])
      return .not
    }
    return .at(try state.remotePath(place), item.record.kind)
  }

  /// All that is below a folder is in memory.
  private func requireSubtree(_ item: Item, _ state: VolumeState) throws(Need) {
    guard let folder = item.folder else { return }
    guard folder.isLoaded else { throw .children(item.id) }
    // It stays until the rest has come as well.
    folder.lastUse = state.tick
    for id in folder.children.values { try requireSubtree(try state.item(id), state) }
  }

  /// A person has seen the removals and means them.
  package func acceptHeldDeletes() {
    let ids = locked { state in
      state.acceptsDeletes = true
      return state.heldDeletes
    }
    removeMissing(ids)
    flush()
    locked { $0.acceptsDeletes = false }
  }
}
