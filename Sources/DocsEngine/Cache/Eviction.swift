import Containers
import StorageErrors

/// Why something was not done to an item, for a person to act on.
package struct Refusal: Sendable {
  package var errno: Errno
  package var reason: String
}

extension Volume {
  /// nil when the local bytes may go: the container is known to have them, and nobody needs them here.
  func refusalToEvict(_ item: Item, _ state: VolumeState) throws(Need) -> Refusal? {
    guard item.record.kind == .file, !item.isDeleted, !item.isGone else { return nil }
    if item.record.isDirty || item.record.remote == nil {
      return Refusal(errno: .EBUSY, reason: "not uploaded yet; docsfs sync waits for that")
    }
    if item.isUploading || item.record.flags.contains(.remoteNewer) {
      return Refusal(errno: .EBUSY, reason: "being uploaded")
    }
    if try isPinned(item, state) {
      return Refusal(errno: .EPERM, reason: "pinned; docsfs unpin first")
    }
    if let content = item.content, content.opens > 0 {
      return Refusal(errno: .EBUSY, reason: "open")
    }
    guard item.record.remote?.size == item.record.size else {
      return Refusal(errno: .EBUSY, reason: "the container has not confirmed its size")
    }
    return nil
  }

  private func isPinned(_ item: Item, _ state: VolumeState) throws(Need) -> Bool {
    var current = item
    for _ in 0..<VolumeState.deepest {
      if current.record.flags.contains(.pinned) { return true }
      if current.id == .root { return false }
      current = try state.item(current.record.place.folder)
    }
    return false
  }

  /// Drops the local bytes. Only after `refusalToEvict` gave nil, under the same lock.
  func evict(_ item: Item, _ state: inout VolumeState) {
    guard item.record.kind == .file, item.record.size > 0 else { return }
    counters.evictions.add()
    counters.evictedBytes.add(Int(item.record.bytes))
    let version = item.record.remote?.version
    let number =
      item.content?.local.withLock { local in
        defer {
          local.number = 0
          local.file = nil
          local.whole = false
          local.extents = RangeSet()
          local.generation += 1
          local.streaming = false
          local.version = version
        }
        return local.number
      } ?? item.record.content
    state.removeContentFile(number)
    item.record.content = 0
    item.record.extents = RangeSet()
    item.record.flags.remove(.whole)
    state.countBytes(item, 0)
    state.queue(item)
    showAnew(item, at: item.record.place, state)
    tellKernel {
      $0.invalidateContent(item.node)
      $0.invalidateAttributes(item.node)
    }
  }

  func setPinned(_ item: Item, _ pinned: Bool, _ state: inout VolumeState) {
    guard item.record.flags.contains(.pinned) != pinned else { return }
    if pinned { item.record.flags.insert(.pinned) } else { item.record.flags.remove(.pinned) }
    state.queue(item)
    if pinned { housekeeper.materializePinned() }
  }

  /// Starts the materialization of all that is pinned.
  func streamPinned() {
    flush()
    guard let pinned = try? catalog.pinned() else { return }
    for record in pinned { streamTree(record.id) }
  }

  private func streamTree(_ id: ItemID) {
    let children = performNow { state throws(Need) -> [ItemID] in
      let item = try state.item(id)
      guard !item.isDeleted, !item.isGone else { return [] }
      guard let folder = item.folder else {
        if !item.record.flags.contains(.whole), state.link.isConnected {
          self.materializer.stream(state.content(of: item))
        }
        return []
      }
      guard item.record.flags.contains(.listed) else {
        if !folder.isListing {
          folder.isListing = true
          state.listing.insert(id)
          self.remote.want(id)
        }
        return []
      }
      guard folder.isLoaded else { throw .children(id) }
      return Array(folder.children.values)
    }
    for child in (try? children.get()) ?? [] { streamTree(child) }
  }
}
