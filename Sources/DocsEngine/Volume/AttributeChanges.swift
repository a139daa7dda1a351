import CLinux
import Containers
import Glibc
import StorageErrors

extension Volume {
  package func attributes(_ node: NodeID, _ handle: FileHandle?) -> Result<Attributes, Errno> {
    performNow { state throws(Need) in
      if let handle, handle.stub == nil { return state.attributes(handle.content.owner, handle.content) }
      let (item, content) = try state.resolve(node)
      return node.stubbedItem == nil ? state.attributes(item, content) : state.stubAttributes(item)
    }
  }

  package func readlink(_ node: NodeID) -> Result<[UInt8], Errno> {
    performNow { state throws(Need) in
      guard let target = try state.resolve(node).item.record.target else { throw .fail(.EINVAL) }
      return target
    }
  }

  package func setAttributes(
    _ node: NodeID, _ handle: FileHandle?, _ change: AttributeChange, _ caller: Caller,
    _ wait: @escaping Interruptible, _ reply: @escaping Reply<Attributes>
  ) {
    guard let size = change.size else { return setMetadata(node, handle, change, caller, wait, reply) }
    resize(node, handle, to: size, wait) { result in
      switch result {
      case .failure(let errno): reply(.failure(errno))
      case .success:
        var rest = change
        rest.size = nil
        self.setMetadata(node, handle, rest, caller, wait, reply)
      }
    }
  }

  private func setMetadata(
    _ node: NodeID, _ handle: FileHandle?, _ change: AttributeChange, _ caller: Caller,
    _ wait: @escaping Interruptible, _ reply: @escaping Reply<Attributes>
  ) {
    let changesNothing =
      change.mode == nil && change.uid == nil && change.gid == nil && change.accessed == nil && change.modified == nil
    let recorded: Reply<(Attributes, Int64)> = { result in
      reply(
        result.map { attributes, number in
          if number != 0 { self.stampContentFile(number, attributes.modified) }
          return attributes
        })
    }
    perform(wait, recorded) { state throws(Need) in
      var (item, content) = try state.resolve(node)
      if let open = handle?.content {
        content = open
        item = open.owner
      }
      if changesNothing {
        return .done((node.stubbedItem == nil ? state.attributes(item, content) : state.stubAttributes(item), 0))
      }
      try self.requireWritable(state, needsRoom: false)
      if let content { self.noticeWrites(content, &state) }
      self.apply(change, to: item, &state)
      self.changedLocally(item, &state)
      let stamps = change.modified != nil && item.record.isDirty
      var shown = node.stubbedItem == nil ? state.attributes(item, content) : state.stubAttributes(item)
      // A lent file carries the new time only after this.
      if change.modified != nil { shown.modified = item.record.modified }
      return .recorded((shown, stamps ? item.record.content : 0))
    }
  }

  /// After a crash a dirty item has its time from the content file: it must carry one that was set by hand.
  private func stampContentFile(_ number: Int64, _ modified: Timestamp) {
    guard let file = try? store.open(number, create: false) else { return }
    let times = [modified.timespec, modified.timespec]
    futimens(file.fd, times)
  }

  private func apply(_ change: AttributeChange, to item: Item, _ state: inout VolumeState) {
    let now = Timestamp.now()
    func time(_ new: NewTime) -> Timestamp {
      switch new {
      case .now: now
      case .at(let time): time
      }
    }
    if let mode = change.mode { item.record.mode = mode & 0o7777 }
    if let uid = change.uid { item.record.uid = uid }
    if let gid = change.gid { item.record.gid = gid }
    if change.uid != nil || change.gid != nil, change.mode == nil, item.record.kind == .file {
      // As chown(2) does: setuid goes, and setgid where it does not mean mandatory locking.
      item.record.mode &= ~0o4000
      if item.record.mode & 0o010 != 0 { item.record.mode &= ~0o2000 }
    }
    if let accessed = change.accessed { item.record.accessed = time(accessed) }
    if let modified = change.modified { item.record.modified = time(modified) }
    item.record.changed = now
    item.attributesRevision += 1
    if change.mode != nil || change.modified != nil { item.record.flags.insert(.attributesDirty) }
  }

  // MARK: Size

  /// truncate(2): to nothing without fetching anything, to another size once all of the base is local.
  func resize(
    _ node: NodeID, _ handle: FileHandle?, to size: Int64, _ wait: @escaping Interruptible,
    _ reply: @escaping Reply<Void>
  ) {
    guard size >= 0 else { return reply(.failure(.EINVAL)) }
    let begun: Reply<Content> = { result in
      switch result {
      case .failure(let errno): reply(.failure(errno))
      case .success(let content): reply(self.truncateFile(content, size))
      }
    }
    performMarked(wait, begun) { state throws(Need) in
      try self.requireWritable(state, needsRoom: size > 0)
      guard node.stubbedItem == nil else { throw .fail(.EACCES) }
      var (item, known) = try state.resolve(node)
      if let open = handle?.content {
        known = open
        item = open.owner
      }
      guard item.record.kind == .file else { throw .fail(item.record.kind == .folder ? .EISDIR : .EINVAL) }
      let content = known ?? state.content(of: item)
      try self.requireFolderOfConflict(content, &state)
      if size == 0 {
        self.empty(content, &state)
      } else if !content.isWhole {
        throw .whole(content)
      }
      return content
    }
  }

  /// Truncation to nothing: what was fetched, or is being fetched, is no longer of interest.
  func empty(_ content: Content, _ state: inout VolumeState) {
    guard !content.isWhole else { return }
    let (old, waiters) = content.local.withLock { local in
      let old = local.number
      local.number = 0
      local.file = nil
      local.generation += 1
      local.whole = true
      local.extents = RangeSet()
      local.size = 0
      local.version = nil
      local.streaming = false
      return (old, local.takeWaiters())
    }
    state.removeContentFile(old)
    if content.isCurrent {
      let item = content.owner
      item.record.content = 0
      item.record.extents = RangeSet()
      item.record.flags.insert(.whole)
      item.record.size = 0
      state.countBytes(item, 0)
    }
    showAnew(content.owner, at: content.owner.record.place, state)
    state.afterCommit.append { for waiter in waiters { waiter.finish(nil) } }
  }

  /// Sets the length of a content file that is marked dirty.
  private func truncateFile(_ content: Content, _ size: Int64) -> Result<Void, Errno> {
    withMarkedFile(content) { file throws(Errno) in
      guard ftruncate(file.fd, off_t(size)) == 0 else { throw Errno.current }
    }
  }
}
