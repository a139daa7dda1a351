import Containers
import Glibc
import StorageErrors

package struct CommandProgress: Sendable {
  package var doneBytes: Int64 = 0
  package var totalBytes: Int64 = 0
  package var doneItems = 0
  package var totalItems = 0
}

// What people ask for by name. These block, and run on threads of their caller's.
extension Volume {
  /// The item at a path of the mount; asks the container where nobody has looked yet.
  func find(_ path: ContainerPath) throws(VolumeError) -> ItemID {
    try command(path) { state throws(Need) in
      var item = try state.item(.root)
      for name in path.names {
        guard let folder = item.folder else { throw .fail(.ENOTDIR) }
        try state.load(item, folder)
        guard let next = try state.child(folder, name) else { throw .fail(.ENOENT) }
        item = next
      }
      return item.id
    }
  }

  /// Runs an operation to its end, on the calling thread.
  func command<T: Sendable>(
    _ path: ContainerPath, _ body: @escaping @Sendable (inout VolumeState) throws(Need) -> T
  ) throws(VolumeError) -> T {
    let answer = Guarded<Result<T, Errno>?>(nil)
    perform({ Interruption() }, { result in answer.signal { $0 = result } }) { state throws(Need) in
      .done(try body(&state))
    }
    switch answer.next({ $0 }) {
    case .success(let value)?: return value
    case .failure(let errno)?: throw VolumeError("\(path): \(errno.message)", errno: errno)
    case nil: throw VolumeError("\(path): no answer")
    }
  }

  /// Calls `body` for the item and, when `recursive`, all below it. `lists`: asks the container for folders that
  /// nobody has looked into; otherwise those are left out.
  private func walk(
    _ id: ItemID, _ path: ContainerPath, recursive: Bool, lists: Bool, _ body: (ItemID, ContainerPath) -> Bool
  ) throws(VolumeError) {
    guard body(id, path), recursive else { return }
    let children = try command(path) { state throws(Need) -> [(ItemName, ItemID)] in
      let item = try state.item(id)
      guard let folder = item.folder else { return [] }
      if !lists, !item.record.flags.contains(.listed) { return [] }
      try state.load(item, folder)
      return folder.children.map { ($0, $1) }.sorted { $0.0 < $1.0 }
    }
    for (name, child) in children {
      try walk(child, path.appending(name), recursive: true, lists: lists, body)
    }
  }

  /// Drops local bytes; calls `each` with every file, and why it was refused.
  package func evict(
    _ path: ContainerPath, recursive: Bool, each: (ItemStatus, Refusal?) -> Void
  ) throws(VolumeError) {
    let id = try find(path)
    try walk(id, path, recursive: recursive, lists: false) { id, _ in
      let result = performNow { state throws(Need) -> (ItemStatus, Refusal?)? in
        let item = try state.item(id)
        guard item.record.kind == .file else { return nil }
        let refusal = try self.refusalToEvict(item, state)
        if refusal == nil { self.evict(item, &state) }
        return (self.status(of: item, state), refusal)
      }
      if case .success(let (status, refusal)?) = result { each(status, refusal) }
      return true
    }
    flush()
  }

  /// Brings all bytes of files; `each` hears of every file when it is done, and why not.
  package func materialize(
    _ path: ContainerPath, recursive: Bool, cancelled: () -> Bool, progress: (CommandProgress) -> Void,
    each: (ItemStatus, Refusal?) -> Void
  ) throws(VolumeError) {
    let id = try find(path)
    var files: [(ItemID, Int64)] = []
    try walk(id, path, recursive: recursive, lists: true) { id, _ in
      let size = performNow { state throws(Need) -> Int64? in
        let item = try state.item(id)
        return item.record.kind == .file ? item.record.size : nil
      }
      if case .success(let size?) = size { files.append((id, size)) }
      return !cancelled()
    }
    var total = CommandProgress(totalBytes: files.reduce(0) { $0 + $1.1 }, totalItems: files.count)
    progress(total)
    let finished = Guarded<[(Int, Errno?)]>([])
    var next = 0
    var running = 0
    // Enough to keep the link busy, not so many that all content objects are in memory at once.
    while next < files.count || running > 0 {
      while next < files.count, running < 64, !cancelled() {
        begin(files[next].0, next, finished)
        next += 1
        running += 1
      }
      if cancelled() { next = files.count }
      let done = finished.next(until: Clock.now() + 200_000_000) { list -> [(Int, Errno?)]? in
        guard !list.isEmpty else { return nil }
        defer { list = [] }
        return list
      }
      for (index, errno) in done ?? [] {
        running -= 1
        total.doneItems += 1
        total.doneBytes += files[index].1
        if case .success(let status) = performNow({ state throws(Need) in
          let item = try state.item(files[index].0)
          _ = try state.localPath(item)
          return self.status(of: item, state)
        }) {
          each(status, errno.map { Refusal(errno: $0, reason: status.error ?? $0.message) })
        }
      }
      progress(total)
      if cancelled(), done == nil { return }
    }
    materializer.settleNow(self)
    flush()
  }

  private func begin(_ id: ItemID, _ index: Int, _ finished: Guarded<[(Int, Errno?)]>) {
    let finish: @Sendable (Errno?) -> Void = { errno in finished.signal { $0.append((index, errno)) } }
    let content = performNow { state throws(Need) -> Content? in
      let item = try state.item(id)
      if item.record.flags.contains(.whole), item.content == nil { return nil }
      let content = state.content(of: item)
      if !content.isWhole, !state.link.isConnected { throw .fail(.ENXIO) }
      return content
    }
    switch content {
    case .failure(let errno): finish(errno)
    case .success(nil): finish(nil)
    case .success(.some(let content)): awaitBytes(content, 0..<Int64.max, { Interruption() }, finish)
    }
  }

  package func setPin(_ path: ContainerPath, _ pinned: Bool) throws(VolumeError) {
    let id = try find(path)
    try command(path) { state throws(Need) in self.setPinned(try state.item(id), pinned, &state) }
    flush()
  }

  /// Compares a folder, or the place of a file, with the container now.
  package func refresh(_ path: ContainerPath) throws(VolumeError) {
    let id = try find(path)
    let hint = try command(path) { state throws(Need) -> ChangeHint? in
      let item = try state.item(id)
      if item.record.kind == .folder { return ChangeHint(folder: try state.remoteFolderPath(id)) }
      guard let remote = item.record.remote else { return nil }
      let path = try state.remotePath(remote.place)
      return ChangeHint(folder: path.parent, name: path.last)
    }
    if let hint { scan([hint]) }
  }

  package func pause() {
    locked { $0.isPaused = true }
    uploader.setPaused(true)
  }

  package func resume() {
    let (isConnected, pending) = locked { state in
      state.isPaused = false
      return (state.link.isConnected, state.pending.compactMap { state.items[$0] })
    }
    uploader.setPaused(!isConnected)
    uploader.retryAll(pending)
  }

  /// Waits until all is uploaded. Without a timeout it ends as well when nothing more can be done now: the link is
  /// cut, or all that is left has failed. Gives what is not uploaded.
  package func waitUntilIdle(
    timeout: Double?, cancelled: () -> Bool, progress: (CommandProgress) -> Void
  ) -> [ItemStatus] {
    noticeAllWrites()
    let end = timeout.map { Clock.now() + UInt64($0 * 1e9) }
    let (items, bytesBefore, failuresBefore) = locked { state in
      let items = state.pending.compactMap { state.items[$0] }
      return (items, state.dirtyBytes, Dictionary(uniqueKeysWithValues: items.map { ($0.id, $0.failures) }))
    }
    uploader.retryAll(items)
    while true {
      let (left, bytes, isStuck) = locked { state -> (Int, Int64, Bool) in
        let items = state.pending.compactMap { state.items[$0] }
        // What has failed before has not failed now.
        let stuck =
          !state.link.isConnected || state.isPaused
          || state.running.isEmpty && items.allSatisfy { $0.failures > 1 && $0.failures != failuresBefore[$0.id] }
        return (state.pending.count, state.dirtyBytes, stuck)
      }
      if left == 0 {
        flush()
        return []
      }
      let total = max(items.count, left)
      progress(
        CommandProgress(
          doneBytes: max(0, bytesBefore - bytes), totalBytes: max(bytesBefore, bytes), doneItems: total - left,
          totalItems: total))
      if cancelled() || end.map({ Clock.now() > $0 }) ?? isStuck { break }
      usleep(left < 20 ? 20_000 : 100_000)
    }
    return locked { state in
      state.pending.compactMap { state.items[$0] }.sorted { $0.id < $1.id }.map { status(of: $0, state) }
    }
  }

  package func statistics() -> Result<VolumeStatistics, Errno> {
    guard let disk = store.statistics() else { return .failure(.EIO) }
    let size = UInt64(disk.f_frsize)
    let files = locked { UInt64($0.itemCount) }
    if let quota = housekeeper.quota {
      return .success(
        VolumeStatistics(
          blockSize: size, blocks: UInt64(max(0, quota.total)) / size, free: UInt64(max(0, quota.free)) / size,
          files: files + (1 << 32), filesFree: 1 << 32))
    }
    return .success(
      VolumeStatistics(
        blockSize: size, blocks: UInt64(disk.f_blocks), free: UInt64(disk.f_bavail), files: files + (1 << 32),
        filesFree: 1 << 32))
  }
}
