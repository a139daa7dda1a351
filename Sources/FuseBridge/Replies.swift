import CFuse
import CLinux
import DocsEngine
import StorageErrors

// Each turns one result of the volume into the answer of one request.
extension Request {
  func fail(_ error: Errno) { answer(error: error) { fuse_reply_err($0, error.wireValue) } }

  func done() { answer { fuse_reply_err($0, 0) } }

  func done(_ result: Result<Void, Errno>) { settle(result) { self.done() } }

  /// A lookup that the kernel did not take is given back.
  func entry(_ result: Result<Entry, Errno>) {
    settle(result) { entry in
      var param = fuse_entry_param(entry, bridge.lifetimes)
      if !answer({ fuse_reply_entry($0, &param) }) { volume.forget(entry.node, count: 1) }
    }
  }

  func lookedUp(_ result: Result<Entry?, Errno>) {
    settle(result) { found in
      if let found { return entry(.success(found)) }
      var param = fuse_entry_param.negative(bridge.lifetimes)
      answer(error: .ENOENT) { fuse_reply_entry($0, &param) }
    }
  }

  func attributes(_ result: Result<Attributes, Errno>) {
    settle(result) { attributes in
      var status = stat(attributes)
      answer { fuse_reply_attr($0, &status, bridge.lifetimes.attributes) }
    }
  }

  func opened(_ result: Result<FileHandle, Errno>, _ node: NodeID) {
    settle(result) { handle in
      let open = bridge.open(handle, node, by: caller.pid)
      if answer({ bridge.reply($0, open) }) { return }
      open.giveBack()
      bridge.closed(open)
    }
  }

  func created(_ result: Result<(Entry, FileHandle), Errno>) {
    settle(result) { (entry, handle) in
      let open = bridge.open(handle, entry.node, by: caller.pid)
      let param = fuse_entry_param(entry, bridge.lifetimes)
      if answer({ bridge.reply($0, param, open) }) { return }
      open.giveBack()
      bridge.closed(open)
      volume.forget(entry.node, count: 1)
    }
  }

  func openedFolder(_ result: Result<FolderHandle, Errno>, _ node: NodeID) {
    settle(result) { handle in
      let open = bridge.open(handle, node, by: caller.pid)
      var info = fuse_file_info()
      info.fh = open.retainedAddress()
      if bridge.faults?.forbidsCaching != true {
        info.keep_cache = 1
        info.cache_readdir = 1
      }
      if answer({ fuse_reply_open($0, &info) }) { return }
      open.giveBack()
      bridge.closed(open)
    }
  }

  func wrote(_ result: Result<Int, Errno>) {
    settle(result) { count in
      moved(count)
      answer { fuse_reply_write($0, count) }
    }
  }

  func found(_ result: Result<Int64, Errno>) {
    settle(result) { offset in answer { fuse_reply_lseek($0, Int(offset)) } }
  }

  func statistics(_ result: Result<VolumeStatistics, Errno>) {
    settle(result) { statistics in
      var status = statvfs(statistics)
      answer { fuse_reply_statfs($0, &status) }
    }
  }

  func bytes(_ result: Result<[UInt8], Errno>) {
    settle(result) { bytes in _ = bytes.withUnsafeBytes { self.buffer($0) } }
  }

  @discardableResult
  func buffer(_ bytes: UnsafeRawBufferPointer) -> Bool {
    let start = bytes.baseAddress?.assumingMemoryBound(to: CChar.self)
    return answer { fuse_reply_buf($0, start, bytes.count) }
  }

  /// The value of getxattr or listxattr, or only its size when the caller gave no room.
  func value(_ result: Result<[UInt8], Errno>, room: Int) {
    settle(result) { value in
      if room == 0 {
        answer { fuse_reply_xattr($0, value.count) }
      } else if value.count > room {
        fail(.ERANGE)
      } else {
        bytes(.success(value))
      }
    }
  }

  private func settle<T>(_ result: Result<T, Errno>, _ body: (T) -> Void) {
    switch result {
    case .success(let value): body(value)
    case .failure(let error): fail(error)
    }
  }
}

// What the kernel caches of a file stays valid from open to open, where it was not written past the cache: other
// content comes as another node. FLUSH is asked for only where a fault may be armed that fails close(2): the volume has
// nothing to say to it.
extension Bridge {
  private var flushes: Bool { faults?.isAllowed == true }

  fileprivate func reply(_ raw: OpaquePointer, _ open: OpenFile) -> Int32 {
    guard open.backing == 0 else { return replyBytes(raw, fuse_open_out(open)) }
    var info = fileInfo(open)
    return fuse_reply_open(raw, &info)
  }

  fileprivate func reply(_ raw: OpaquePointer, _ entry: fuse_entry_param, _ open: OpenFile) -> Int32 {
    guard open.backing == 0 else {
      return replyBytes(raw, CreateReply(entry: fuse_entry_out(entry), open: fuse_open_out(open)))
    }
    var (entry, info) = (entry, fileInfo(open))
    return fuse_reply_create(raw, &entry, &info)
  }

  private func fileInfo(_ open: OpenFile) -> fuse_file_info {
    var info = fuse_file_info()
    info.fh = open.retainedAddress()
    if open.handle.keepsPages { info.keep_cache = 1 }
    if open.isDirect { info.direct_io = 1 }
    if !flushes { info.noflush = 1 }
    return info
  }
}
