import Glibc
import StorageErrors

/// What a power loss would leave of a file: its bytes as the last good fsync found them.
enum SyncedImage {
  /// Somebody is just making the copy.
  case beingTaken
  /// nil: there were no bytes.
  case taken(ContentFile?)
}

// Losing what was not synced is a fault that is injected (`lose=dirty`, and link profiles whose unsynced bytes are
// gone). While such a fault may come, each file's first change after a sync keeps a copy of what was there before.
extension Volume {
  /// From now on, or no longer. What was written before counts as synced.
  package func trackLosses(_ tracks: Bool) { tracksLosses.store(tracks, ordering: .releasing) }

  /// Before a change of `file`, the content file of `content`, which is marked dirty.
  func keepSyncedImage(of content: Content, _ file: ContentFile) throws(Errno) {
    guard tracksLosses.load(ordering: .acquiring) else { return }
    let takes = content.local.next { local -> Bool? in
      switch local.synced {
      case nil:
        local.synced = .beingTaken
        return true
      case .beingTaken: return nil
      case .taken: return false
      }
    }
    guard takes == true else { return }
    do throws(Errno) {
      var info = stat()
      guard fstat(file.fd, &info) == 0 else { throw Errno.current }
      let image = info.st_size == 0 ? nil : try store.unnamedCopy(of: file)
      content.local.signal { $0.synced = .taken(image) }
    } catch {
      content.local.signal { $0.synced = nil }
      throw error
    }
  }

  func dropSyncedImage(of content: Content) {
    content.local.signal { local in
      if case .taken = local.synced { local.synced = nil }
    }
  }

  /// What was written to the file since its last good fsync is gone, as after a power loss. Nothing happens to one
  /// without such changes. The kernel has to hear of it from the caller.
  package func loseUnsynced(_ node: NodeID, _ reply: @escaping Reply<Void>) {
    let found = performNow { state throws(Need) -> Content? in
      let (item, known) = try state.resolve(node)
      return known ?? item.content
    }
    guard case .success(let content?) = found else { return reply(found.map { _ in () }) }
    let image = content.local.signal { local -> SyncedImage? in
      guard case .taken = local.synced else { return nil }
      defer { local.synced = nil }
      return local.synced
    }
    guard case .taken(let bytes)? = image else { return reply(.success(())) }
    let marked: Reply<Content> = { result in
      guard case .success = result else { return reply(result.map { _ in () }) }
      reply(
        self.withMarkedFile(content, keepsImage: false) { file throws(Errno) in
          // Shortened last: a process that dies here leaves some of what is being lost, and all that was synced.
          let size = if let bytes { try restore(bytes, into: file) } else { 0 }
          guard ftruncate(file.fd, size) == 0 else { throw Errno.current }
        })
    }
    performMarked({ Interruption() }, marked) { _ in content }
  }
}

/// Puts the bytes of `image` back; how many they are.
private func restore(_ image: ContentFile, into file: ContentFile) throws(Errno) -> Int {
  var info = stat()
  guard fstat(image.fd, &info) == 0 else { throw Errno.current }
  try copyBytes(from: image, to: file)
  return info.st_size
}
