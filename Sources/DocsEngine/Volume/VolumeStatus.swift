import Containers
import Faults
import StorageErrors

/// How a volume is. Bytes and counts; ages and waits in seconds.
package struct VolumeStatus: Codable, Sendable {
  package var container: String
  package var containerID: String?
  package var stateDirectory: String
  /// `connected` or `disconnected(PROFILE)`.
  package var link: String
  package var linkReason: String?
  /// For how long it has been so.
  package var linkAge: Double
  /// What a person should know that the container cannot promise.
  package var containerNote: String?
  /// `passthrough`: the kernel reads and writes content files by itself; `cached`: the volume does.
  package var io: String
  /// Why it is not passthrough, where that was asked for.
  package var ioReason: String?
  package var epoch: Int
  package var items: Int
  package var itemsInMemory: Int
  package var cacheBytes: Int64
  package var cacheLimit: Int64?
  package var dirtyItems: Int
  package var dirtyBytes: Int64
  package var oldestEdit: OldestEdit?
  package var uploading: Int
  /// Requests for bytes of files.
  package var fetching: Int
  /// Files that are to become whole, and of which nothing is on its way.
  package var fetchQueue: Int
  /// Files whose bytes are on their way.
  package var transfers: [TransferStatus]
  package var failingItems: Int
  /// A hundred of them at most.
  package var failing: [ItemStatus]
  /// Why the last fetch, and the last look at a folder, failed; none once one has succeeded.
  package var troubles: [String]
  package var heldDeletes: Int
  package var paused: Bool
  package var diskFull: Bool
  /// Since the mount: what has been published, and what has come and was of use.
  package var uploadedBytes: Int64
  package var fetchedBytes: Int64
}

/// What has waited longest to be uploaded.
package struct OldestEdit: Codable, Sendable {
  package var path: String
  package var age: Double
}

/// A file on its way.
package struct TransferStatus: Codable, Sendable, Equatable {
  package enum Direction: String, Codable, Sendable {
    case up, down
  }
  /// From the mount's root.
  package var path: String
  package var direction: Direction
  /// Of an upload: what has left, less what left in vain; of a download: what is local.
  package var doneBytes: Int64
  package var size: Int64

  package init(path: String, direction: Direction, doneBytes: Int64, size: Int64) {
    self.path = path
    self.direction = direction
    self.doneBytes = doneBytes
    self.size = size
  }
}

/// How an item is.
package struct ItemStatus: Codable, Sendable {
  /// From the mount's root.
  package var path: String
  package var kind: String
  package var size: Int64
  package var state: String
  package var sync: String
  package var pinned: Bool
  /// 0 to 1.
  package var progress: Double
  package var error: String?
  /// Until its upload is tried again; 0: now. Only in `failing`.
  package var retryIn: Double?
}

extension Volume {
  /// Asks nobody; what it costs does not grow with the volume.
  package func status() -> VolumeStatus {
    noticeAllWrites()
    let fetched = materializer.underWay
    let sent = uploader.underWay
    return locked { state in
      var reason: String?
      var link = "connected"
      if case .disconnected(let profile, let why) = state.link {
        reason = why
        link = "disconnected(\(profile.name))"
      }
      return VolumeStatus(
        container: container.url, containerID: containerID?.text, stateDirectory: configuration.stateDirectory,
        link: link, linkReason: reason, linkAge: Self.seconds(since: state.linkSince),
        containerNote: container.traits.weakness, io: lends.load(ordering: .acquiring) ? "passthrough" : "cached",
        ioReason: refusalToLend.withLock { $0 }, epoch: state.epoch, items: state.itemCount,
        itemsInMemory: state.items.count, cacheBytes: state.cacheBytes, cacheLimit: configuration.cacheSize,
        dirtyItems: state.pending.count, dirtyBytes: state.dirtyBytes, oldestEdit: oldestEdit(&state),
        uploading: state.running.count, fetching: fetched.requests, fetchQueue: fetched.queued,
        transfers: sent.compactMap { upload($0, $1, state) } + fetched.contents.compactMap { download($0, state) },
        failingItems: state.failing.count, failing: failing(state), troubles: troubles.messages,
        heldDeletes: state.heldCount, paused: state.isPaused, diskFull: state.diskIsFull,
        uploadedBytes: state.uploadedBytes, fetchedBytes: state.fetchedBytes)
    }
  }

  private static func seconds(since moment: UInt64) -> Double {
    Double((Clock.now() &- moment) / 1_000_000) / 1000
  }

  private func oldestEdit(_ state: inout VolumeState) -> OldestEdit? {
    guard let (id, since) = state.oldestPending, let item = state.items[id] else { return nil }
    let age = Double((Timestamp.now().nanoseconds - since) / 1_000_000) / 1000
    return OldestEdit(path: shownPath(item, state), age: max(0, age))
  }

  private func shownPath(_ item: Item, _ state: VolumeState) -> String {
    ((try? state.localPath(item)) ?? ContainerPath([item.record.place.name])).description
  }

  private func upload(_ id: ItemID, _ progress: UploadProgress, _ state: VolumeState) -> TransferStatus? {
    guard let item = state.items[id] else { return nil }
    return TransferStatus(
      path: shownPath(item, state), direction: .up, doneBytes: progress.sent, size: progress.size)
  }

  private func download(_ content: Content, _ state: VolumeState) -> TransferStatus? {
    let (done, size) = content.local.withLock { ($0.whole ? $0.size : $0.extents.count, $0.size) }
    return TransferStatus(path: shownPath(content.owner, state), direction: .down, doneBytes: done, size: size)
  }

  private func failing(_ state: VolumeState) -> [ItemStatus] {
    let items = state.failing.lazy.compactMap { state.items[$0] }.prefix(100)
    let now = Clock.now()
    return zip(items, uploader.due(Array(items))).map { item, due in
      var status = status(of: item, state)
      status.retryIn = due > now ? Double((due - now) / 1_000_000) / 1000 : 0
      return status
    }
  }

  func status(of item: Item, _ state: VolumeState) -> ItemStatus {
    let kinds: [ItemKind: String] = [.file: "file", .folder: "folder", .symlink: "symlink"]
    return ItemStatus(
      path: shownPath(item, state), kind: kinds[item.record.kind] ?? "file", size: item.record.size,
      state: contentState(item).rawValue, sync: syncState(item, state).rawValue, pinned: state.isPinned(item),
      progress: progress(item), error: item.record.error)
  }

  package func itemStatus(_ path: ContainerPath) throws(VolumeError) -> ItemStatus {
    let id = try find(path)
    return try command(path) { state throws(Need) in
      let item = try state.item(id)
      _ = try state.localPath(item)
      return self.status(of: item, state)
    }
  }
}
