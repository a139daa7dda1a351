import CLinux
import Containers
import Glibc
import StorageErrors

/// A content file that is lent to the kernel: programs read and write it as if the volume were not there.
///
/// A loan begins with the first open of a whole content and ends when nobody can write any more, which may be later
/// than the last close: a mapping outlives it. Until then it counts as one of the content's `opens`. An item whose file
/// is lent for writing says so in the catalog (`lent`), safe against power loss before the first byte can be written:
/// after a crash it is taken for dirty.
struct Loan {
  /// Open for reading, and nobody else's: the last writer is known to have gone when no descriptor can write.
  let file: ContentFile
  /// Somebody has it open for writing, or had.
  var isWritable = false
  /// The catalog's word about that is safe against power loss.
  var isRecorded = false
  /// The file when its changes were last taken over. nil: it had changed so shortly before that another change might
  /// not show in its times.
  var stamp: FileStamp?
}

/// What changes with each change of a file's bytes.
struct FileStamp: Equatable {
  let size: Int64
  let modified: Timestamp
  let changed: Timestamp

  init(_ info: stat) {
    size = Int64(info.st_size)
    modified = Timestamp(info.st_mtim)
    changed = Timestamp(info.st_ctim)
  }

  /// Whether the next change is sure to carry another time. Kernels before 6.13 have clocks that stand still for up to
  /// 10 ms.
  var isSettled: Bool {
    let age = Timestamp.now().nanoseconds - changed.nanoseconds
    return age > 20_000_000
  }
}

/// A content file that may be lent, opened before the volume's lock is taken.
struct LoanOffer: Sendable {
  let number: Int64
  let file: ContentFile
  let stamp: FileStamp
}

extension Volume {
  /// From now on content files are lent, if the state disk is fit for it, and `trial` has nothing against a file of it.
  /// nil, or why they are not.
  package func lendContentFiles(_ trial: (ContentFile) -> String?) -> String? {
    let refusal = store.refusalToLend(trial)
    refusalToLend.withLock { $0 = refusal }
    lends.store(refusal == nil, ordering: .releasing)
    return refusal
  }

  /// Whether a content that is just being opened, by the first, may be lent. Under the lock. Not with setuid or setgid:
  /// the kernel leaves it to us to clear them with a write, and we do not see it.
  func isLendable(_ content: Content, _ mode: OpenMode) -> Bool {
    guard lends.load(ordering: .acquiring), content.opens == 0, content.owner.record.mode & 0o6000 == 0 else {
      return false
    }
    return content.local.withLock { local in
      local.whole && local.number != 0 && (local.size >= configuration.smallestLoan || local.size == 0 && mode.writes)
    }
  }

  /// Opens a content file that may be lent; `create` makes it.
  func offer(_ number: Int64, create: Bool) -> LoanOffer? {
    guard let file = try? store.openForReading(number, create: create), let info = file.status else { return nil }
    return LoanOffer(number: number, file: file, stamp: FileStamp(info))
  }

  /// The file for one who has just been counted among `opens`; nil: everybody who has it open goes through the volume.
  /// Under the lock.
  func lend(_ content: Content, _ offer: LoanOffer?, _ mode: OpenMode, _ state: inout VolumeState) -> ContentFile? {
    let item = content.owner
    if content.loan == nil {
      guard let offer, content.opens == 1, item.record.isDirty || offer.stamp.isSettled,
        content.local.withLock({ $0.whole && $0.number == offer.number })
      else { return nil }
      content.loan = Loan(file: offer.file, stamp: offer.stamp)
      content.opens += 1
    }
    if mode.writes { expectWrites(content, item, &state) }
    return content.loan?.file
  }

  private func expectWrites(_ content: Content, _ item: Item, _ state: inout VolumeState) {
    content.loan?.isWritable = true
    content.hasStalePages = true
    state.lent[ObjectIdentifier(content)] = content
    guard content.isCurrent, !item.isGone, !item.record.flags.contains(.lent) else { return }
    item.record.flags.insert(.lent)
    item.record.pending = item.record.pending ?? Timestamp.now().nanoseconds
    state.queue(item)
  }

  /// Answers when a power loss can no longer hide that a clean file is lent for writing.
  func recordLoan(_ handle: FileHandle, _ reply: @escaping Reply<FileHandle>) {
    let content = handle.content
    let mustRecord = locked { _ in
      guard let loan = content.loan, loan.isWritable, handle.mode.writes else { return false }
      return !loan.isRecorded && !content.owner.record.isDirty
    }
    guard mustRecord else { return reply(.success(handle)) }
    durability.sync(nil, name: 0, self) { errno in
      if let errno {
        self.release(handle)
        return reply(.failure(errno))
      }
      self.locked { _ in content.loan?.isRecorded = true }
      reply(.success(handle))
    }
  }

  // MARK: What was written

  /// Takes over what programs did to a lent file since the last look. Under the lock: fstat(2) of an open file tells
  /// what the kernel has in memory, and waits for nothing.
  func noticeWrites(_ content: Content, _ state: inout VolumeState) {
    guard let info = content.loan?.changedStatus else { return }
    let stamp = FileStamp(info)
    content.loan?.stamp = stamp.isSettled ? stamp : nil
    claim(content, &state)
    let item = content.owner
    item.revision += 1
    _ = makeDirty(item, &state)
    takeOver(info, of: content, &state)
    state.queue(item)
  }

  /// The same, for those who come without the lock.
  func noticeWrites(_ content: Content) {
    locked { self.noticeWrites(content, &$0) }
  }

  /// Looks at all files that are lent for writing, and takes back those that nobody can write any more.
  func noticeAllWrites() {
    let mustCommit = locked { state in
      for content in Array(state.lent.values) {
        self.noticeWrites(content, &state)
        self.closeIfLast(content, &state)
      }
      return !state.changed.isEmpty || !state.unneededFiles.isEmpty
    }
    if mustCommit { commit { _ in } }
  }

  /// Bytes that were written through mappings are those of one moment from now on, until a change shows in the file's
  /// times: without this, pages that were written before can be written again unseen.
  func settleMappings(_ content: Content) throws(ContainerError) {
    let file = locked { _ in content.loan.flatMap { $0.isWritable ? $0.file : nil } }
    guard let file else { return }
    guard fdatasync(file.fd) == 0 else { throw ContainerError(.system(.current), "a content file cannot be synced") }
    noticeWrites(content)
  }

  // MARK: The end

  /// Ends the loan of a content that no handle has open. false: a mapping is left, and the housekeeper looks again.
  /// Under the lock.
  func takeBack(_ content: Content, _ state: inout VolumeState) -> Bool {
    guard let loan = content.loan else { return true }
    if loan.isWritable {
      content.local.withLock { $0.file = nil }
      guard loan.file.cannotBeWritten else { return false }
      noticeWrites(content, &state)
      state.lent[ObjectIdentifier(content)] = nil
      forgetLoan(content.owner, &state)
    }
    content.loan = nil
    content.opens -= 1
    return true
  }

  private func forgetLoan(_ item: Item, _ state: inout VolumeState) {
    guard item.record.flags.contains(.lent) else { return }
    item.record.flags.remove(.lent)
    if !state.pending.contains(item.id) { item.record.pending = nil }
    state.queue(item)
    // A newer version waited for the outcome: nothing was written.
    guard item.record.flags.contains(.remoteNewer), !item.record.isDirty, let place = item.record.remote?.place,
      let path = try? state.remotePath(place)
    else { return }
    item.record.flags.remove(.remoteNewer)
    remote.look(at: [ChangeHint(folder: path.parent, name: path.last)])
  }
}

extension Loan {
  /// The file as it is, if it is not as it was at the last look. nil as well when nobody can write it.
  var changedStatus: stat? {
    guard isWritable, let info = file.status, FileStamp(info) != stamp else { return nil }
    return info
  }
}

extension ContentFile {
  var status: stat? {
    var info = stat()
    return fstat(fd, &info) == 0 ? info : nil
  }

  /// Nobody has the file open for writing, or maps it so: the kernel gives a read lease only then.
  var cannotBeWritten: Bool {
    guard lx_lease(fd) == 0 else { return false }
    lx_unlease(fd)
    return true
  }
}

extension ContentStore {
  /// Whether the state disk tells all that a loan needs to know: nil, or what it does not. Some file systems do not
  /// show in a file's times what is written through a mapping, or give no leases.
  fileprivate func refusalToLend(_ trial: (ContentFile) -> String?) -> String? {
    let fd = lx_openat(stateFile.fd, ".", Int32(LX_O_TMPFILE) | O_RDWR, 0o600)
    guard fd >= 0 else { return "the state disk makes no files without a name" }
    let readerFD = lx_open("/proc/self/fd/\(fd)", O_RDONLY, 0)
    let reader = ContentFile(fd: readerFD)
    if let refusal = Self.refusalToTell(ofWritesBy: ContentFile(fd: fd), to: reader) { return refusal }
    guard reader.cannotBeWritten else { return "the state disk gives no leases" }
    return trial(reader)
  }

  private static func refusalToTell(ofWritesBy writer: ContentFile, to reader: ContentFile) -> String? {
    guard ftruncate(writer.fd, 4096) == 0,
      let page = mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, writer.fd, 0), page != MAP_FAILED
    else { return "the state disk maps no files" }
    defer { munmap(page, 4096) }
    for round in UInt8(1)...2 {
      // A second time, should the kernel's clock have stood still.
      guard showsWrite(round, to: page, writer, reader) || showsWrite(round, to: page, writer, reader) else {
        return "the state disk does not show when files are written through mappings"
      }
    }
    return reader.cannotBeWritten ? "the state disk does not know who maps a file" : nil
  }

  private static func showsWrite(
    _ value: UInt8, to page: UnsafeMutableRawPointer, _ writer: ContentFile, _ reader: ContentFile
  ) -> Bool {
    guard fdatasync(writer.fd) == 0, let before = reader.status else { return false }
    page.storeBytes(of: value, as: UInt8.self)
    if let after = reader.status, FileStamp(after) != FileStamp(before) { return true }
    usleep(25_000)
    return false
  }
}
