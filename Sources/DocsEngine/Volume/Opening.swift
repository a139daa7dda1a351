import CLinux
import Containers
import Glibc
import StorageErrors

// open and release: what is found of the content file, whether it is lent, and what the last one to close leaves.
extension Volume {
  package func open(
    _ node: NodeID, _ mode: OpenMode, _ caller: Caller, _ wait: @escaping Interruptible,
    _ reply: @escaping Reply<FileHandle>
  ) {
    if mode.truncates {
      return resize(node, nil, to: 0, wait) { result in
        switch result {
        case .failure(let errno): reply(.failure(errno))
        case .success: self.openWhole(node, mode, caller, wait, reply)
        }
      }
    }
    openWhole(node, mode, caller, wait, reply)
  }

  /// Looks at the content file of a content that nobody has open yet. What somebody has done to the one of an uploaded
  /// item behind our back is not taken for its bytes: they are fetched again.
  private func checkContentFile(_ node: NodeID, _ mode: OpenMode) -> LoanOffer? {
    let found = performNow { state throws(Need) -> (Content, number: Int64, size: Int64?, isLendable: Bool)? in
      let (item, known) = try state.resolve(node)
      guard item.record.kind == .file, node.stubbedItem == nil, !item.isDeleted else { return nil }
      let content = known ?? state.content(of: item)
      guard content.opens == 0 else { return nil }
      let (number, size) = content.local.withLock { local -> (Int64, Int64?) in
        if item.record.isDirty || local.version == nil { return (local.number, nil) }
        return (local.number, local.whole ? local.size : local.extents.ranges.last?.upperBound ?? 0)
      }
      return number == 0 ? nil : (content, number, size, self.isLendable(content, mode))
    }
    guard case .success(let (content, number, size, isLendable)?) = found else { return nil }
    let offer = isLendable ? self.offer(number, create: false) : nil
    guard let size, (offer?.stamp.size ?? store.info(number)?.size ?? 0) < size else { return offer }
    _ = recoverLostFile(content)
    return nil
  }

  private func openWhole(
    _ node: NodeID, _ mode: OpenMode, _ caller: Caller, _ wait: @escaping Interruptible,
    _ reply: @escaping Reply<FileHandle>
  ) {
    let offer = checkContentFile(node, mode)
    let opened: Reply<FileHandle> = { result in
      guard case .success(let handle) = result, handle.lent != nil else { return reply(result) }
      self.recordLoan(handle, reply)
    }
    perform(wait, opened) { state throws(Need) in
      if mode.writes { try self.requireWritable(state, needsRoom: false) }
      let (item, known) = try state.resolve(node)
      guard item.record.kind == .file else { throw .fail(item.record.kind == .folder ? .EISDIR : .ELOOP) }
      let content = known ?? state.content(of: item)
      // Its bytes are gone, and its name leads elsewhere, which the kernel has not heard yet: it looks the name up anew.
      if !content.isCurrent, content.opens == 0, !item.isDeleted, !item.isGone { throw .fail(.ESTALE) }
      if node.stubbedItem != nil {
        guard !mode.writes else { throw .fail(.EACCES) }
        return .done(FileHandle(content, mode, stub: state.stubBytes(item)))
      }
      if !content.isWhole {
        if self.mayNotMaterialize(caller) { throw .fail(.EDEADLK) }
        if !state.link.isConnected { throw .fail(.ENXIO) }
        // Opened for writing alone, as `touch` does: nothing is fetched before there is something to write.
        if self.configuration.materialize == .open, mode.reads { self.materializer.stream(content) }
      }
      content.opens += 1
      let now = Int64(time(nil))
      if now != item.record.used, !item.isGone {
        item.record.used = now
        state.queue(item)
        self.commitSoon()
      }
      let lent = self.lend(content, offer, mode, &state)
      return .done(FileHandle(content, mode, lent: lent, keepsPages: lent == nil && !content.hasStalePages))
    }
  }

  /// Whether the caller is one of the programs that only look at everything.
  package func mayNotMaterialize(_ caller: Caller) -> Bool {
    guard caller.pid > 0, !configuration.noMaterialize.isEmpty else { return false }
    let fd = lx_open("/proc/\(caller.pid)/comm", O_RDONLY, 0)
    guard fd >= 0 else { return false }
    defer { close(fd) }
    var room = [UInt8](repeating: 0, count: 64)
    let n = Glibc.read(fd, &room, room.count)
    guard n > 0 else { return false }
    let name = String(decoding: room[..<n].prefix { $0 != 0x0a }, as: UTF8.self)
    return configuration.noMaterialize.contains { $0 == name || $0.utf8.prefix(15).elementsEqual(name.utf8) }
  }

  package func release(_ handle: FileHandle) {
    guard handle.stub == nil else { return }
    let mustCommit = locked { state in
      let content = handle.content
      content.opens -= 1
      if content.loan?.isWritable == true { self.noticeWrites(content, &state) }
      self.closeIfLast(content, &state)
      return !state.unneededFiles.isEmpty || content.owner.isQueued
    }
    if mustCommit { commit { _ in } }
    housekeeper.wakeIfFull(self)
  }

  /// Closes the content file when no handle is left, and none of the programs that it was lent to.
  func closeIfLast(_ content: Content, _ state: inout VolumeState) {
    guard content.opens == (content.loan == nil ? 0 : 1) else { return }
    guard takeBack(content, &state) else { return housekeeper.takeBackSoon() }
    content.local.withLock { $0.file = nil }
    content.hasStalePages = false
    let item = content.owner
    if content.isCurrent {
      releaseBytesIfUnused(item, &state)
      state.dropIfUnused(item)
      if item.record.isDirty, !item.isGone { uploader.schedule(item, self) }
    } else {
      drop(content, &state)
    }
  }
}
