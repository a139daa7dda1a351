import CLinux
import Glibc
import StorageErrors

extension DirectoryContainer {
  package func identify(create: Bool, _ call: CallContext) throws(ContainerError) -> ContainerID {
    try call.check("identify \(url)")
    let root = try openRootUnseen()
    let isReadOnly = Self.refusesWrites(rootPath)
    known.withLock { $0.isReadOnly = isReadOnly }
    let id: ContainerID
    var marker = try readMarker(root)
    if marker == nil, create, !isReadOnly { marker = try makeMarker(root) }
    if let marker {
      id = marker.id
    } else if isReadOnly {
      id = derivedID(root)
    } else {
      throw ContainerError(
        .identityMissing, "\(url) has no marker .docsfs-container/id: is it the right disk?")
    }
    let isTidy = adopt(root.mark, marker?.mark, id)
    if !isTidy, !isReadOnly, create || marker != nil { tidy(root, call) }
    return id
  }

  /// From now on calls work on this root. One that carries another id is adopted only when none was known:
  /// the caller compares, and items of one container are never taken for another's.
  private func adopt(_ root: RootMark, _ marker: MarkerMark?, _ id: ContainerID) -> Bool {
    known.withLock { known in
      guard known.id == nil || known.id == id else { return true }
      if known.root != root { known.isTidy = false }
      known.root = root
      known.marker = marker
      known.id = id
      return known.isTidy
    }
  }

  /// The id of a container that cannot hold a marker: from its URL and its root's inode number, which tells
  /// the disk's root from the folder it is mounted on. The device number may change from boot to boot.
  private func derivedID(_ root: borrowing Root) -> ContainerID {
    let text = hex(digest(Array(url.utf8) + bytes(root.mark.inode)))
    return ContainerID(text) ?? .random()
  }

  /// One stat tells that the marker is the file it was; if it is not, reading it tells whether the id is.
  func requireMarker(_ mark: MarkerMark, _ root: borrowing Root) throws(ContainerError) {
    var status = stat()
    let path = cName(hiddenName.bytes + Array("/id".utf8))
    if fstatat(root.descriptor.fd, path, &status, AT_SYMLINK_NOFOLLOW) == 0, MarkerMark(status) == mark {
      return
    }
    guard let marker = try readMarker(root) else {
      throw unreachable("its marker .docsfs-container/id is gone")
    }
    try known.withLock { known throws(ContainerError) in
      guard known.id == marker.id else { throw unreachable("it is another container now") }
      known.marker = marker.mark
    }
  }

  /// nil when there is none, or, in a folder that others own, none that may be read.
  private func readMarker(_ root: borrowing Root) throws(ContainerError) -> (
    id: ContainerID, mark: MarkerMark
  )? {
    do throws(Errno) {
      let path = cName(hiddenName.bytes + Array("/id".utf8))
      let file = try Descriptor(
        lx_open_beneath(root.descriptor.fd, path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0))
      var status = stat()
      try check(fstat(file.fd, &status))
      var room = [UInt8](repeating: 0, count: 64)
      let count = try check(pread(file.fd, &room, room.count, 0))
      let text = String(decoding: room.prefix(count).prefix { $0 != 0x0a }, as: UTF8.self)
      if let id = ContainerID(text) { return (id, MarkerMark(status)) }
    } catch {
      if [ENOENT, ENOTDIR, EACCES, EPERM].contains(error.rawValue) { return nil }
      throw ContainerError(error, "read the marker .docsfs-container/id of", .root)
    }
    throw ContainerError(
      .identityMissing, "the marker .docsfs-container/id of \(url) is damaged: put its 32 hex digits back")
  }

  /// Writes a marker that is either whole or not there; if another process is quicker, its marker counts.
  private func makeMarker(_ root: borrowing Root) throws(ContainerError) -> (
    id: ContainerID, mark: MarkerMark
  )? {
    let hidden = try openHidden(root)
    try on("write the marker of", .root) { () throws(Errno) in
      let name = cName(Array(freshName().utf8))
      let file = try Descriptor(
        lx_openat(hidden.staging.fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600))
      defer { unlinkat(hidden.staging.fd, name, 0) }
      let text = Array((ContainerID.random().text + "\n").utf8)
      guard try check(write(file.fd, text, text.count)) == text.count else { throw .ENOSPC }
      try check(fsync(file.fd))
      do throws(Errno) {
        try bring(from: hidden.staging, name, to: hidden.folder, cName(Array("id".utf8)))
      } catch  where error == .EEXIST {}
      try hidden.folder.syncNames()
      try root.descriptor.syncNames()
    }
    return try readMarker(root)
  }
}

extension MarkerMark {
  init(_ status: stat) {
    self.init(inode: UInt64(status.st_ino), modified: nanoseconds(status.st_mtim))
  }
}

/// The container's own folder, open for one call that changes something. While it lives, nobody tidies up.
struct Hidden: ~Copyable {
  let folder: Descriptor
  /// What is being written.
  let staging: Descriptor
  /// What has been taken from its place and is not yet proven to be what was meant.
  let displaced: Descriptor
  /// Held shared by every call in progress of every process; exclusively by who tidies.
  fileprivate let lock: Descriptor

  static func open(in root: borrowing Descriptor, tidying: Bool) throws(Errno) -> Hidden {
    let folder = try subfolder(".docsfs-container", in: root)
    let staging = try subfolder("staging", in: folder)
    let displaced = try subfolder("displaced", in: folder)
    let name = cName(Array("lock".utf8))
    let lock = try Descriptor(lx_openat(folder.fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600))
    let result = tidying ? lx_lock_file(lock.fd) : lx_lock_shared(lock.fd)
    // Where files cannot be locked, nobody tidies.
    if result != 0, tidying || ![ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL].contains(errno) { throw .current }
    return Hidden(folder: folder, staging: staging, displaced: displaced, lock: lock)
  }

  static func subfolder(_ name: String, in folder: borrowing Descriptor) throws(Errno) -> Descriptor {
    let name = cName(Array(name.utf8))
    let flags = folderPath | O_NOFOLLOW
    let fd = lx_openat(folder.fd, name, flags, 0)
    if fd >= 0 || errno != ENOENT { return try Descriptor(fd) }
    if mkdirat(folder.fd, name, 0o700) != 0, errno != EEXIST { throw .current }
    return try Descriptor(lx_openat(folder.fd, name, flags, 0))
  }
}

extension DirectoryContainer {
  func openHidden(_ root: borrowing Root, tidying: Bool = false) throws(ContainerError) -> Hidden {
    do throws(Errno) {
      return try Hidden.open(in: root.descriptor, tidying: tidying)
    } catch {
      throw ContainerError(error, "use the folder .docsfs-container of", .root)
    }
  }
}
