import Containers
import Glibc
import StorageErrors

// What a refused step means. A mismatch is looked at, never overridden: it is our own earlier upload, somebody
// else's change, or a conflict. Everything else is tried again, and shows in the item's state.
extension Volume {
  /// Whether to go on with the item's next step at once.
  func uploadFailed(_ work: UploadWork, _ item: Item, _ error: ContainerError) -> Bool {
    switch error.code {
    case .cancelled:
      uploader.retry(item, in: 0.5)
      return false
    case .unreachable, .identityMissing:
      remote.doubtLink(error.message)
      uploader.retry(item, in: 1)
      return false
    case .preconditionFailed, .versionChanged, .notFound, .notEmpty:
      do throws(ContainerError) {
        return try uploader.withCall(configuration.timeo) { call throws(ContainerError) in
          try resolveMismatch(work, item, error, call)
        }
      } catch {
        return backOff(item, error)
      }
    case .permissionDenied, .outOfSpace, .readOnly, .busy, .timedOut, .inconsistent, .notRepresentable, .system:
      return backOff(item, error)
    }
  }

  private func backOff(_ item: Item, _ error: ContainerError) -> Bool {
    let seconds = locked { state in
      item.failures += 1
      state.setError(item, error.message)
      state.queue(item)
      let pause = min(300, pow(2, Double(min(item.failures, 9)) - 1)) * Double.random(in: 0.5...1.5)
      return max(pause, min(3_600, error.retryAfter ?? 0))
    }
    counters.failedUploads.add()
    Log.warning("upload failed", ["error": error.message, "retry_seconds": Int(seconds.rounded(.up))])
    commit { _ in }
    uploader.uploadEnded(item, error.isTransient ? .EIO : .EACCES, self)
    uploader.retry(item, in: seconds)
    return false
  }

  private func resolveMismatch(
    _ work: UploadWork, _ item: Item, _ error: ContainerError, _ call: CallContext
  ) throws(ContainerError) -> Bool {
    switch work.step {
    case .remove: return try resolveRemove(work, item, error, call)
    case .rename, .park: return try resolveRename(work, item, error, call)
    case .put, .makeFolder, .makeSymlink: return try resolveCreation(work, item, error, call)
    case .setAttributes:
      remote.look(at: [ChangeHint(folder: work.path.parent, name: work.path.last)])
      return backOff(item, error)
    case .settled, .discard, .blocked, .recallJob: return backOff(item, error)
    }
  }

  /// Something else is where the item was to be published.
  private func resolveCreation(
    _ work: UploadWork, _ item: Item, _ error: ContainerError, _ call: CallContext
  ) throws(ContainerError) -> Bool {
    guard let found = try container.item(at: work.path, call) else {
      guard try isFolder(work.path.parent, call) else { return try lostParent(work, item, error) }
      // It was removed there; the edits stay, as a new file.
      return locked { state in
        let before = item.record.remote
        item.record.remote = nil
        item.record.job = nil
        state.updateVacating(item, before: before)
        state.queue(item)
        return true
      }
    }
    if let job = locked({ _ in item.record.job }), try matches(found, job, work, path: work.path, call) {
      locked { state in
        // What the container has is what was sent, though its answer was lost.
        var sent = work
        if case .put = work.step, item.revision != work.revision { sent.revision = -1 }
        self.uploaded(item, found, sent, &state)
      }
      return true
    }
    let blocker = locked { state -> ItemID? in
      guard let id = state.vacating[work.place.folder]?[work.place.name], id != item.id else { return nil }
      return id
    }
    if let blocker {
      uploader.park(item, behind: blocker)
      return false
    }
    if let mine = work.remoteVersion, mine == found.version { return backOff(item, error) }
    return resolveConflict(item, found, work)
  }

  private func isFolder(_ path: ContainerPath, _ call: CallContext) throws(ContainerError) -> Bool {
    if path.isRoot { return true }
    return try container.item(at: path, call)?.kind == .folder
  }

  /// The folder that the item belongs to is gone at the container: a poll decides what that means.
  private func lostParent(_ work: UploadWork, _ item: Item, _ error: ContainerError) throws(ContainerError) -> Bool {
    let parent = work.path.parent
    remote.look(at: [ChangeHint(folder: parent.parent, name: parent.last)])
    return backOff(item, error)
  }

  private func resolveRename(
    _ work: UploadWork, _ item: Item, _ error: ContainerError, _ call: CallContext
  ) throws(ContainerError) -> Bool {
    guard let source = work.source else { return backOff(item, error) }
    let there = try container.item(at: source, call)
    let target = try container.item(at: work.path, call)
    if let target, let job = locked({ _ in item.record.job }), there == nil,
      try matches(target, job, work, path: work.path, call)
    {
      locked { self.uploaded(item, target, work, &$0) }
      return true
    }
    guard let there else {
      guard try isFolder(work.path.parent, call) else { return try lostParent(work, item, error) }
      return try lostSource(work, item, error)
    }
    if there.kind == work.record.kind, there.version != work.remoteVersion {
      // Moved and written here, and changed there.
      if there.kind == .file, locked({ _ in item.record.isDirty }) { return keepBoth(item, there, work) }
      remote.look(at: [ChangeHint(folder: source.parent, name: source.last)])
      uploader.retry(item, in: 1)
      return false
    }
    if let target, there.version == work.remoteVersion {
      let blocker = locked { $0.vacating[work.place.folder]?[work.place.name] }
      if let blocker, blocker != item.id {
        uploader.park(item, behind: blocker)
        return false
      }
      // Somebody else's item has the name: ours takes another.
      return yieldName(item, to: target, work)
    }
    guard try isFolder(work.path.parent, call) else { return try lostParent(work, item, error) }
    return backOff(item, error)
  }

  /// What was to be renamed is gone there: moved by somebody, which a look will tell, or deleted. What is local and
  /// was renamed here is kept.
  private func lostSource(_ work: UploadWork, _ item: Item, _ error: ContainerError) throws(ContainerError) -> Bool {
    guard let source = work.source else { return backOff(item, error) }
    guard item.record.kind == .file else {
      remote.look(at: [ChangeHint(folder: source.parent, name: source.last)])
      return backOff(item, error)
    }
    let isKept = locked { state -> Bool in
      guard item.record.flags.contains(.whole) else { return false }
      let before = item.record.remote
      item.record.remote = nil
      item.record.job = nil
      state.setDirty(item, true)
      state.updateVacating(item, before: before)
      state.queue(item)
      return true
    }
    if !isKept { remote.look(at: [ChangeHint(folder: source.parent, name: source.last)]) }
    return isKept ? true : backOff(item, error)
  }

  private func resolveRemove(
    _ work: UploadWork, _ item: Item, _ error: ContainerError, _ call: CallContext
  ) throws(ContainerError) -> Bool {
    guard let found = try container.item(at: work.path, call) else {
      locked { self.removedRemotely(item, &$0) }
      return true
    }
    if error.code == .notEmpty {
      let blocker = locked { $0.vacating[item.id]?.values.first }
      if let blocker {
        uploader.park(item, behind: blocker)
        return false
      }
    } else if found.version == work.remoteVersion, found.kind == work.record.kind {
      return backOff(item, error)
    }
    // Somebody has changed it, or put something into it: it stays, and comes back here.
    counters.conflicts.add()
    Log.warning("conflict: deleted here and changed by somebody else; it stays", ["path": work.path])
    locked { state in
      let before = item.record.remote
      let place = before?.place
      item.record.remote = nil
      state.updateVacating(item, before: before)
      state.discard(item)
      if let place { self.install(found, at: place, &state) }
    }
    return true
  }
}
