import Containers
import Glibc
import StorageErrors

// What the materializer asks of the volume, and tells it.
extension Volume {
  /// Where and which version to fetch, and the file for it.
  func prepareFetch(
    _ content: Content
  ) -> Result<(ContainerPath, Version, generation: Int, ContentFile), Errno> {
    let plan = performNow { state throws(Need) in
      guard state.link.isConnected else { throw .fail(.EIO) }
      let item = content.owner
      guard let remote = item.record.remote else { throw .fail(.ESTALE) }
      let path = try state.remotePath(remote.place)
      let (version, generation, size, number) = content.local.withLock { local in
        if local.number == 0 { local.number = state.newContentNumber() }
        return (local.version, local.generation, local.size, local.number)
      }
      guard let version else { throw .fail(.ESTALE) }
      if content.isCurrent, item.record.content != number {
        item.record.content = number
        state.queue(item)
      }
      return (path, version, generation, size, number)
    }
    return plan.flatMap { path, version, generation, size, number in
      do throws(Errno) {
        let file = try content.openFile(store, number: number, of: generation)
        var info = stat()
        guard fstat(file.fd, &info) == 0 else { throw Errno.current }
        if Int64(info.st_size) < size, ftruncate(file.fd, off_t(size)) != 0 { throw Errno.current }
        return .success((path, version, generation, file))
      } catch {
        if error != .ECANCELED { Log.error("a content file cannot be used", ["path": path, "error": error]) }
        return .failure(error)
      }
    }
  }

  func countFetched(_ count: Int64, _ content: Content) {
    locked { state in
      state.fetchedBytes += count
      if content.isCurrent, !content.owner.isGone {
        state.countBytes(content.owner, content.owner.record.bytes + count)
      }
    }
  }

  /// What had come counts no longer.
  func countNothing(_ content: Content) {
    locked { state in
      if content.isCurrent, !content.owner.isGone { state.countBytes(content.owner, 0) }
    }
  }

  /// All bytes have come: blocks have changed.
  func becameWhole(_ content: Content) {
    let node = locked { state in
      if content.isCurrent { showAnew(content.owner, at: content.owner.record.place, state) }
      return content.node
    }
    tellKernel { $0.invalidateAttributes(node) }
    housekeeper.wakeIfFull(self)
  }

  /// The bytes of these contents are safe on disk.
  func recordExtents(_ settled: [(Content, generation: Int, extents: RangeSet, whole: Bool)]) {
    locked { state in
      for (content, generation, extents, whole) in settled {
        let item = content.owner
        guard content.isCurrent, !item.isGone, !item.record.isDirty else { continue }
        let (now, number) = content.local.withLock { ($0.generation, $0.number) }
        guard now == generation else { continue }
        item.record.content = number
        if whole {
          item.record.flags.insert(.whole)
          item.record.extents = RangeSet()
        } else {
          item.record.extents = extents
        }
        state.queue(item)
      }
    }
    commit { _ in }
  }

  /// Closes the content file of a content that nobody has open.
  func closeIfUnused(_ content: Content) {
    locked { _ in
      guard content.opens == 0, content.isIdle else { return }
      content.local.withLock { $0.file = nil }
    }
  }

  /// Whether an upload of ours is just changing the path of the content, or has: the fetch is tried again.
  func hasMoved(_ content: Content, from path: ContainerPath) -> Bool {
    locked { state in
      guard let place = content.owner.record.remote?.place else { return false }
      if content.owner.isUploading || state.movingFolder(place.folder) != nil { return true }
      return (try? state.remotePath(place)) != path
    }
  }

  /// What a failed fetch means for those who wait and for the link.
  func fetchFailed(_ content: Content, _ error: ContainerError) {
    switch error.code {
    case .cancelled: return
    case .versionChanged, .notFound:
      // Somebody has changed or removed it: look, and let those who hold the old version know.
      let (path, isCurrent) = locked { state -> (ContainerPath?, Bool) in
        guard let place = content.owner.record.remote?.place else { return (nil, false) }
        return (try? state.remotePath(place), content.isCurrent)
      }
      if let path, isCurrent { remote.look(at: [ChangeHint(folder: path.parent, name: path.last)]) }
      content.local.withLock { $0.streaming = false }
      content.failWaiters(.ESTALE)
    case .unreachable, .identityMissing:
      content.local.withLock { $0.streaming = false }
      content.failWaiters(.EIO)
      remote.doubtLink(error.message)
    case .outOfSpace, .system(.ENOSPC), .system(.EDQUOT):
      content.local.withLock { $0.streaming = false }
      content.failWaiters(.EIO)
      housekeeper.wake()
    case .permissionDenied, .readOnly, .preconditionFailed, .notEmpty, .notRepresentable:
      troubles.note(.fetching, error.message)
      content.local.withLock { $0.streaming = false }
      content.failWaiters(error.code == .permissionDenied ? .EACCES : .EIO)
    case .busy, .timedOut, .inconsistent, .system:
      Log.warning("fetch failed", ["error": error.message])
      troubles.note(.fetching, error.message)
    }
  }
}
