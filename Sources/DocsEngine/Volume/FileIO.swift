import CLinux
import Containers
import Glibc
import StorageErrors

// read, write and what else an open file does. Bytes lie in the content file; the catalog hears of the first
// write after an upload, before a byte is written, and of sizes and times when the file becomes quiet: until then
// the content file itself carries them.
extension Volume {
  // MARK: Reading

  package func read(
    _ handle: FileHandle, offset: Int64, count: Int, _ wait: @escaping Interruptible,
    _ reply: @escaping Reply<ReadResult>
  ) {
    if let stub = handle.stub {
      let end = min(stub.count, Int(offset) + count)
      return reply(.success(Int(offset) < end ? .bytes(Array(stub[Int(offset)..<end])) : .end))
    }
    let content = handle.content
    let wanted = offset..<max(offset, offset.addingReportingOverflow(Int64(count)).partialValue)
    if content.local.withLock({ $0.has(wanted) }) {
      let result = readPresent(content, wanted)
      guard case .failure(.ENOENT) = result else { return reply(result) }
      guard recoverLostFile(content) else { return reply(.failure(.EIO)) }
    }
    awaitBytes(content, wanted, wait) { errno in
      let result = errno.map { .failure($0) } ?? self.readPresent(content, wanted)
      if case .failure(.ENOENT) = result { reply(.failure(.EIO)) } else { reply(result) }
    }
  }

  /// A content file has vanished from the state directory: fetched again, unless it held edits.
  func recoverLostFile(_ content: Content) -> Bool {
    locked { state in
      let item = content.owner
      guard !item.record.isDirty, content.forgetLostFile() else { return false }
      Log.error("a content file is missing or too short; it is fetched again", ["item": item.id.rawValue])
      if content.isCurrent {
        item.record.flags.remove(.whole)
        item.record.extents = RangeSet()
        state.countBytes(item, 0)
        state.queue(item)
      }
      return true
    }
  }

  private func readPresent(_ content: Content, _ wanted: Range<Int64>) -> Result<ReadResult, Errno> {
    let (size, number) = content.local.withLock { ($0.size, $0.number) }
    let range = wanted.clamped(to: 0..<max(0, size))
    guard !range.isEmpty, number != 0 else { return .success(.end) }
    do throws(Errno) {
      let file = try content.openFile(store, create: false)
      return .success(.file(file, offset: range.lowerBound, count: range.count))
    } catch {
      return .failure(error)
    }
  }

  /// Answers when `range` is local; starts what is needed for that.
  func awaitBytes(
    _ content: Content, _ range: Range<Int64>, _ wait: @escaping Interruptible,
    _ done: @escaping @Sendable (Errno?) -> Void
  ) {
    let interruption = wait()
    guard let id = content.wait(for: range, done) else { return done(nil) }
    materializer.demand(content, everything: range.upperBound == .max)
    interruption.onCancel { content.cancelWait(id) }
  }

  // MARK: Writing

  package func write(
    _ handle: FileHandle, offset: Int64, _ bytes: UnsafeRawBufferPointer, _ wait: @escaping Interruptible,
    _ reply: @escaping Reply<Int>
  ) {
    let content = handle.content
    if locked({ $0.diskIsFull }) { makeRoom(for: Int64(bytes.count)) }
    let isMarked: Bool
    do throws(Need) {
      isMarked = try locked { state throws(Need) in
        try self.requireRoom(for: Int64(bytes.count), state)
        guard content.isWhole else { throw .whole(content) }
        try self.requireFolderOfConflict(content, &state)
        return !self.markDirty(content, &state)
      }
    } catch {
      if case .fail(let errno) = error { return reply(.failure(errno)) }
      return writeLater(handle, offset, bytes, wait, reply)
    }
    if isMarked { return reply(writeMarked(content, offset, bytes)) }
    let copy = [UInt8](bytes)
    commit { errno in
      if let errno {
        self.finishWrite(content, nil)
        return reply(.failure(errno))
      }
      reply(copy.withUnsafeBytes { self.writeMarked(content, offset, $0) })
    }
  }

  /// The first write to a placeholder waits until all of its base version is local.
  private func writeLater(
    _ handle: FileHandle, _ offset: Int64, _ bytes: UnsafeRawBufferPointer, _ wait: @escaping Interruptible,
    _ reply: @escaping Reply<Int>
  ) {
    let copy = [UInt8](bytes)
    change(handle.content, wait, reply) { file throws(Errno) in
      try writeAll(file.fd, copy, at: offset)
      return copy.count
    }
  }

  /// Nothing that is dirty can be dropped: when it alone fills the cache, a write has no room.
  private func requireRoom(for count: Int64, _ state: VolumeState) throws(Need) {
    if state.diskIsFull { throw .fail(.ENOSPC) }
    if let limit = configuration.cacheSize, state.dirtyBytes + count > limit { throw .fail(.ENOSPC) }
  }

  /// A content that its name no longer leads to is about to become a file of its own: in a folder that must be known.
  /// That of an item which was removed elsewhere has no name at all, and takes nothing more.
  func requireFolderOfConflict(_ content: Content, _ state: inout VolumeState) throws(Need) {
    if content.owner.wasRemovedElsewhere { throw .fail(.ESTALE) }
    guard !content.isCurrent, !content.owner.isGone, !content.owner.isDeleted else { return }
    let dir = try state.item(content.owner.record.place.folder)
    if let folder = dir.folder { try state.load(dir, folder) }
  }

  /// Announces a change of content: true when the catalog must record it before a byte is changed.
  /// Each call is followed by one of `finishWrite`.
  func markDirty(_ content: Content, _ state: inout VolumeState) -> Bool {
    content.writesInFlight += 1
    claim(content, &state)
    let item = content.owner
    item.revision += 1
    var mustCommit = item.isQueued || !item.dirtyIsRecorded
    let number = content.local.withLock { local in
      if local.number == 0 { local.number = state.newContentNumber() }
      return local.number
    }
    if item.record.content != number, content.isCurrent {
      item.record.content = number
      state.queue(item)
      mustCommit = true
    }
    if makeDirty(item, &state) { mustCommit = true }
    return mustCommit && !item.isGone
  }

  /// A content that its name no longer leads to and that is being changed becomes a file of its own.
  func claim(_ content: Content, _ state: inout VolumeState) {
    if !content.isCurrent, !content.owner.isGone, !content.owner.isDeleted { keepAsConflict(content, &state) }
  }

  /// Whether it was clean, and is dirty now.
  func makeDirty(_ item: Item, _ state: inout VolumeState) -> Bool {
    guard !item.record.isDirty, !item.isDeleted, !item.isGone else { return false }
    state.setDirty(item, true)
    item.dirtySince = Clock.now()
    item.dirtyIsRecorded = false
    changedLocally(item, &state)
    return true
  }

  private func writeMarked(_ content: Content, _ offset: Int64, _ bytes: UnsafeRawBufferPointer) -> Result<Int, Errno> {
    withMarkedFile(content) { file throws(Errno) in
      do throws(Errno) {
        try writeAll(file.fd, bytes, at: offset)
      } catch {
        // What can be fetched again gives way to what cannot.
        guard error == .ENOSPC, self.makeRoom(for: Int64(bytes.count)) else { throw error }
        try writeAll(file.fd, bytes, at: offset)
      }
      return bytes.count
    }
  }

  /// Runs `body` on the content file of a content that is marked dirty, and finishes the change.
  func withMarkedFile<T>(
    _ content: Content, keepsImage: Bool = true, _ body: (ContentFile) throws(Errno) -> T
  ) -> Result<T, Errno> {
    var opened: ContentFile?
    defer { finishWrite(content, opened) }
    do throws(Errno) {
      // A content file that is missing where there should be bytes must not come back as one of zeros.
      let file = try content.openFile(store, create: content.local.withLock { $0.size == 0 })
      opened = file
      if keepsImage { try keepSyncedImage(of: content, file) }
      return .success(try body(file))
    } catch {
      return .failure(error == .ENOENT ? .EIO : error)
    }
  }

  /// A change of content has ended: takes over the content file's size, time and blocks. nil: nothing was written.
  func finishWrite(_ content: Content, _ file: ContentFile?) {
    let info = file?.status
    locked { state in
      content.writesInFlight -= 1
      content.owner.revision += 1
      self.takeOver(info, of: content, &state)
      // A change by path, of a file that nobody has open.
      if content.opens == 0, content.writesInFlight == 0 { content.local.withLock { $0.file = nil } }
    }
  }

  /// The content file is as `info` says (nil: as it was), and to be uploaded.
  func takeOver(_ info: stat?, of content: Content, _ state: inout VolumeState) {
    let item = content.owner
    if let info {
      content.local.withLock { $0.size = Int64(info.st_size) }
      if content.isCurrent {
        item.record.size = Int64(info.st_size)
        item.record.modified = Timestamp(info.st_mtim)
        state.countBytes(item, Int64(info.st_blocks) * 512)
      }
      // File systems stamp by a clock that stands still for some ms: what was changed before is not changed later.
      item.record.changed = max(item.record.changed, Timestamp(info.st_mtim))
    }
    if !item.isDeleted, !item.isGone { uploader.schedule(item, self) }
  }

  // MARK: Syncing

  package func flush(_ handle: FileHandle, _ reply: @escaping Reply<Void>) {
    if handle.lent != nil { noticeWrites(handle.content) }
    reply(.success(()))
  }

  /// fsync(2): bytes, size, times and name are safe against power loss when it answers.
  package func sync(
    _ handle: FileHandle, dataOnly: Bool, _ wait: @escaping Interruptible, _ reply: @escaping Reply<Void>
  ) {
    let content = handle.content
    let number = locked { state -> Int64 in
      self.noticeWrites(content, &state)
      // The size and the time that are safe with this sync.
      if content.isCurrent, content.owner.record.isDirty { state.queue(content.owner) }
      return content.local.withLock { $0.whole ? $0.number : 0 }
    }
    var file: ContentFile?
    if number != 0 {
      do throws(Errno) {
        file = try content.openFile(store, create: content.local.withLock { $0.size == 0 })
      } catch {
        return reply(.failure(error == .ENOENT ? .EIO : error))
      }
    }
    durability.sync(file, name: number, self) { errno in
      if let errno { return reply(.failure(errno)) }
      self.dropSyncedImage(of: content)
      if self.configuration.fsync == .cloud { return self.uploader.whenUploaded(content, self, wait, reply) }
      reply(.success(()))
    }
  }

  package func syncFolder(_ handle: FolderHandle, _ reply: @escaping Reply<Void>) {
    durability.sync(nil, name: 0, self) { errno in reply(errno.map { .failure($0) } ?? .success(())) }
  }

  // MARK: Ranges

  package func allocate(
    _ handle: FileHandle, mode: Int32, offset: Int64, length: Int64, _ wait: @escaping Interruptible,
    _ reply: @escaping Reply<Void>
  ) {
    let known = Int32(LX_FALLOC_KEEP_SIZE | LX_FALLOC_PUNCH_HOLE | LX_FALLOC_ZERO_RANGE)
    guard mode & ~known == 0 else { return reply(.failure(.EOPNOTSUPP)) }
    change(handle.content, wait, reply) { file throws(Errno) in
      guard lx_fallocate(file.fd, mode, off_t(offset), off_t(length)) == 0 else { throw Errno.current }
    }
  }

  /// Marks, runs `body` on the content file, and finishes.
  private func change<T: Sendable>(
    _ content: Content, _ wait: @escaping Interruptible, _ reply: @escaping Reply<T>,
    _ body: @escaping @Sendable (ContentFile) throws(Errno) -> T
  ) {
    let marked: Reply<Content> = { result in
      if case .failure(let errno) = result { return reply(.failure(errno)) }
      reply(self.withMarkedFile(content, body))
    }
    performMarked(wait, marked) { state throws(Need) in
      try self.requireRoom(for: 0, state)
      guard content.isWhole else { throw .whole(content) }
      try self.requireFolderOfConflict(content, &state)
      return content
    }
  }

  /// Marks the content that `find` gives, and answers when the catalog has recorded that. A mark that could not be
  /// recorded is taken back, or its item would count as being written for ever.
  func performMarked(
    _ wait: @escaping Interruptible, _ reply: @escaping Reply<Content>,
    _ find: @escaping @Sendable (inout VolumeState) throws(Need) -> Content
  ) {
    let marked = Guarded<Content?>(nil)
    let answer: Reply<Content> = { result in
      if case .failure = result, let content = marked.withLock({ $0 }) { self.finishWrite(content, nil) }
      reply(result)
    }
    perform(wait, answer) { state throws(Need) in
      let content = try find(&state)
      let mustCommit = self.markDirty(content, &state)
      marked.withLock { $0 = content }
      return mustCommit ? .recorded(content) : .done(content)
    }
  }

  /// SEEK_DATA and SEEK_HOLE. What is not local counts as data.
  package func seek(_ handle: FileHandle, offset: Int64, whence: Int32) -> Result<Int64, Errno> {
    if let stub = handle.stub {
      guard offset >= 0, offset < stub.count else { return .failure(Errno(rawValue: Glibc.ENXIO)) }
      return .success(whence == Int32(LX_SEEK_HOLE) ? Int64(stub.count) : offset)
    }
    noticeWrites(handle.content)
    let (whole, size, number) = handle.content.local.withLock { ($0.whole, $0.size, $0.number) }
    guard offset >= 0, offset < size else { return .failure(Errno(rawValue: Glibc.ENXIO)) }
    guard whole, number != 0 else { return .success(whence == Int32(LX_SEEK_HOLE) ? size : offset) }
    do throws(Errno) {
      let file = try handle.content.openFile(store, create: false)
      let found = lseek(file.fd, off_t(offset), whence)
      return found < 0 ? .failure(Errno.current) : .success(Int64(found))
    } catch {
      return .failure(error)
    }
  }

  package func copyRange(
    from: FileHandle, offset source: Int64, to: FileHandle, offset destination: Int64, count: Int,
    _ wait: @escaping Interruptible, _ reply: @escaping Reply<Int>
  ) {
    // Short counts are allowed, and keep one request from holding a thread for long.
    let length = Int64(min(count, 64 << 20))
    guard from.stub == nil else { return reply(.failure(.EOPNOTSUPP)) }
    noticeWrites(from.content)
    awaitBytes(from.content, source..<source + length, wait) { errno in
      if let errno { return reply(.failure(errno)) }
      self.change(to.content, wait, reply) { file throws(Errno) in
        try self.copy(from.content, source, into: file, destination, Int(length))
      }
    }
  }

  private func copy(
    _ content: Content, _ source: Int64, into file: ContentFile, _ destination: Int64, _ count: Int
  ) throws(Errno) -> Int {
    let from: ContentFile
    let start: Int64
    let available: Int
    switch readPresent(content, source..<source + Int64(count)) {
    case .failure(let errno): throw errno
    case .success(.end), .success(.bytes): return 0
    case .success(.file(let file, offset: let offset, count: let count)):
      (from, start, available) = (file, offset, count)
    }
    var (a, b) = (off_t(start), off_t(destination))
    let n = lx_copy_file_range(from.fd, &a, file.fd, &b, min(count, available))
    guard n >= 0 else { throw Errno.current }
    return n
  }
}
