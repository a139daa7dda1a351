import CFuse
import CLinux
import DocsEngine
import Faults

/// What a request asks of the mount, as far as a fault can tell requests apart.
struct MountCall {
  var operation: FaultOperation
  var node: NodeID
  /// The entry of `node` that it is about; nil: `node` itself.
  var name: [UInt8]?
  /// Where rename and link lead.
  var target: (folder: NodeID, name: [UInt8])?
  /// The address of the open file or folder; 0: none.
  var handle: UInt64 = 0
  var offset: Int64?
  var length: Int64 = 0
  var opensForWriting = false
  var truncates = false
  /// A read past the page cache because its caller has opened the file with O_DIRECT.
  var isDirect = false

  /// Whether the system call behind it follows a path; nil: that depends, on stat(2) or fstat(2), say.
  var isByPath: Bool? {
    switch operation {
    case .lookup, .readlink, .mknod, .mkdir, .symlink, .link, .unlink, .rmdir, .rename, .open, .create, .opendir: true
    case .read, .write, .flush, .fsync, .fallocate, .lseek, .copy_file_range, .readdir, .fsyncdir: false
    case .getattr, .chmod, .chown, .truncate, .utimens, .statfs, .getxattr, .setxattr, .listxattr, .removexattr:
      handle == 0 ? nil : false
    }
  }

  /// Its answer tells the kernel a name.
  var bringsNames: Bool {
    switch operation {
    case .lookup, .create, .mkdir, .mknod, .symlink, .readdir: true
    default: false
    }
  }
  init(_ operation: FaultOperation, _ request: KernelRequest) {
    self.operation = operation
    node = request.node
  }
}

extension FaultOperation {
  /// Of a SETATTR by its FATTR_ bits. One may change several things; it counts as what people would name first.
  static func changing(_ which: Int32) -> FaultOperation {
    if which & FATTR_SIZE != 0 { return .truncate }
    if which & FATTR_MODE != 0 { return .chmod }
    return which & (FATTR_UID | FATTR_GID) != 0 ? .chown : .utimens
  }
}

extension KernelRequest {
  /// nil for what reaches no caller, or cannot fail: FORGET, RELEASE, INTERRUPT, INIT and their kin.
  var call: MountCall? {
    switch opcode {
    case FUSE_LOOKUP.rawValue: named(.lookup, after: 0)
    case FUSE_GETATTR.rawValue: attributes
    case FUSE_SETATTR.rawValue: changedAttributes
    case FUSE_READLINK.rawValue: MountCall(.readlink, self)
    case FUSE_SYMLINK.rawValue: named(.symlink, after: 0)
    case FUSE_MKNOD.rawValue: named(.mknod, after: MemoryLayout<fuse_mknod_in>.size)
    case FUSE_MKDIR.rawValue: named(.mkdir, after: MemoryLayout<fuse_mkdir_in>.size)
    case FUSE_UNLINK.rawValue: named(.unlink, after: 0)
    case FUSE_RMDIR.rawValue: named(.rmdir, after: 0)
    case FUSE_RENAME.rawValue: moved(after: MemoryLayout<fuse_rename_in>.size)
    case FUSE_RENAME2.rawValue: moved(after: MemoryLayout<fuse_rename2_in>.size)
    case FUSE_LINK.rawValue: linked
    case FUSE_STATFS.rawValue: MountCall(.statfs, self)
    case FUSE_OPENDIR.rawValue: MountCall(.opendir, self)
    // SETXATTR_EXT, with a longer argument, is never negotiated.
    case FUSE_SETXATTR.rawValue: xattr(.setxattr, after: 8)
    case FUSE_GETXATTR.rawValue: xattr(.getxattr, after: MemoryLayout<fuse_getxattr_in>.size)
    case FUSE_LISTXATTR.rawValue: MountCall(.listxattr, self)
    case FUSE_REMOVEXATTR.rawValue: xattr(.removexattr, after: 0)
    default: fileCall
    }
  }

  private var fileCall: MountCall? {
    switch opcode {
    case FUSE_OPEN.rawValue: opened(.open, argument(fuse_open_in.self)?.flags)
    case FUSE_CREATE.rawValue:
      named(.create, after: MemoryLayout<fuse_create_in>.size).map { call in
        var call = call
        call.opensForWriting = true
        return call
      }
    case FUSE_READ.rawValue: read
    case FUSE_WRITE.rawValue: transfer(.write, argument(fuse_write_in.self).map { ($0.fh, $0.offset, $0.size) })
    case FUSE_READDIR.rawValue, FUSE_READDIRPLUS.rawValue:
      transfer(.readdir, argument(fuse_read_in.self).map { ($0.fh, $0.offset, 0) })
    case FUSE_FSYNC.rawValue: onHandle(.fsync, argument(fuse_fsync_in.self)?.fh)
    case FUSE_FSYNCDIR.rawValue: onHandle(.fsyncdir, argument(fuse_fsync_in.self)?.fh)
    case FUSE_FLUSH.rawValue: onHandle(.flush, argument(fuse_flush_in.self)?.fh)
    case FUSE_FALLOCATE.rawValue:
      argument(fuse_fallocate_in.self).map { range(.fallocate, $0.fh, $0.offset, $0.length) }
    case FUSE_LSEEK.rawValue: argument(fuse_lseek_in.self).map { range(.lseek, $0.fh, $0.offset, 0) }
    case FUSE_COPY_FILE_RANGE.rawValue: copied
    default: nil
    }
  }

  private func named(_ operation: FaultOperation, after size: Int) -> MountCall? {
    guard let name = texts(after: size).first else { return nil }
    var call = MountCall(operation, self)
    call.name = name
    return call
  }

  /// Only users' own: the kernel asks for `security.capability` in passing, and hides how that went.
  private func xattr(_ operation: FaultOperation, after size: Int) -> MountCall? {
    guard let name = texts(after: size).first, name.starts(with: "user.".utf8) else { return nil }
    return MountCall(operation, self)
  }

  private var attributes: MountCall? {
    guard let wanted: fuse_getattr_in = argument() else { return nil }
    var call = MountCall(.getattr, self)
    if wanted.getattr_flags & UInt32(FUSE_GETATTR_FH) != 0 { call.handle = wanted.fh }
    return call
  }

  private var changedAttributes: MountCall? {
    guard let wanted: fuse_setattr_in = argument() else { return nil }
    let which = Int32(bitPattern: wanted.valid)
    let operation = FaultOperation.changing(which)
    var call = MountCall(operation, self)
    if which & FATTR_FH != 0 { call.handle = wanted.fh }
    if operation == .truncate { call.offset = Int64(bitPattern: wanted.size) }
    return call
  }

  private func moved(after size: Int) -> MountCall? {
    let names = texts(after: size)
    guard names.count > 1, let folder: fuse_rename_in = argument() else { return nil }
    var call = MountCall(.rename, self)
    call.name = names[0]
    call.target = (NodeID(folder.newdir), names[1])
    return call
  }

  private var linked: MountCall? {
    guard let source: fuse_link_in = argument(),
      let name = texts(after: MemoryLayout<fuse_link_in>.size).first
    else { return nil }
    var call = MountCall(.link, self)
    call.node = NodeID(source.oldnodeid)
    call.target = (node, name)
    return call
  }

  private func opened(_ operation: FaultOperation, _ flags: UInt32?) -> MountCall? {
    guard let flags = flags.map({ Int32(bitPattern: $0) }) else { return nil }
    var call = MountCall(operation, self)
    call.opensForWriting = flags & O_ACCMODE != O_RDONLY
    call.truncates = flags & O_TRUNC != 0
    return call
  }

  private func onHandle(_ operation: FaultOperation, _ handle: UInt64?) -> MountCall? {
    guard let handle else { return nil }
    var call = MountCall(operation, self)
    call.handle = handle
    return call
  }

  private func range(_ operation: FaultOperation, _ handle: UInt64, _ offset: UInt64, _ length: UInt64) -> MountCall {
    var call = MountCall(operation, self)
    call.handle = handle
    call.offset = Int64(bitPattern: offset)
    call.length = Int64(clamping: length)
    return call
  }

  private func transfer(_ operation: FaultOperation, _ what: (handle: UInt64, offset: UInt64, size: UInt32)?)
    -> MountCall?
  {
    what.map { range(operation, $0.handle, $0.offset, UInt64($0.size)) }
  }

  private var read: MountCall? {
    guard let read: fuse_read_in = argument() else { return nil }
    var call = range(.read, read.fh, read.offset, UInt64(read.size))
    call.isDirect = read.flags & UInt32(LX_O_DIRECT) != 0
    return call
  }

  /// It is the target that is written.
  private var copied: MountCall? {
    guard let copy: fuse_copy_file_range_in = argument() else { return nil }
    var call = range(.copy_file_range, copy.fh_out, copy.off_out, copy.len)
    call.node = NodeID(copy.nodeid_out)
    return call
  }
}
