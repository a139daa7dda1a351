import CLinux
import Glibc
import StorageErrors

/// An item that was looked at, still open: what is done to it is done to what was seen.
struct Found: ~Copyable {
  let descriptor: Descriptor
  let state: FileState
  let item: RemoteItem
}

/// The entry at `path` in its open `folder`; nil when nothing is there that docsfs shows.
func look(
  at path: ContainerPath, in folder: borrowing Descriptor, _ root: borrowing Root, _ what: String
) throws(ContainerError) -> Found? {
  do throws(Errno) {
    return try found(path.last, in: folder, root)
  } catch {
    throw ContainerError(error, what, path)
  }
}

private func found(_ name: ItemName?, in folder: borrowing Descriptor, _ root: borrowing Root) throws(Errno)
  -> Found?
{
  guard let descriptor = try folder.entry(name.map { cName($0.bytes) } ?? cName([0x2e])) else { return nil }
  guard let state = try FileState(of: descriptor, rootDevice: root.device) else { return nil }
  let xattrs = state.kind == .symlink ? nil : try readXattrs(descriptor)
  return Found(
    descriptor: descriptor, state: state, item: RemoteItem(state, name: name ?? .root, xattrs: xattrs))
}

extension RemoteItem {
  init(_ state: FileState, name: ItemName, xattrs: [[UInt8]: [UInt8]]?, version: Version? = nil) {
    self.init(
      name: name, kind: state.kind, size: state.size, version: version ?? state.version,
      identity: state.remoteIdentity,
      attributes: RemoteAttributes(
        mode: state.kind == .symlink ? nil : state.mode, mtime: Timestamp(nanoseconds: state.modified),
        xattrs: xattrs),
      target: state.target)
  }
}

/// All entries of a folder, read once.
struct Listing {
  var items: [RemoteItem] = []
  /// An entry came, went or was renamed while it was read.
  var hasMoved = false

  init(_ path: ContainerPath, _ root: borrowing Root, _ call: CallContext) throws(ContainerError) {
    let folder = try root.folder(path, "list", flags: O_RDONLY | O_DIRECTORY)
    let before = try Listing.stamp(folder, path)
    for name in try Listing.names(folder, path, call) {
      if path.isRoot, name == hiddenName { continue }
      if items.count % 128 == 0 { try call.check("list \(path)") }
      if let found = try look(at: path.appending(name), in: folder, root, "list") { items.append(found.item) }
    }
    hasMoved = try Listing.stamp(folder, path) != before
  }

  private static func stamp(_ folder: borrowing Descriptor, _ path: ContainerPath) throws(ContainerError)
    -> [Int64]
  {
    var status = stat()
    try on("list", path) { () throws(Errno) in try check(fstat(folder.fd, &status)) }
    return [nanoseconds(status.st_mtim), nanoseconds(status.st_ctim)]
  }

  /// The names of files, folders and symlinks, or of what does not tell; complete, or an error.
  static func names(_ folder: borrowing Descriptor, _ path: ContainerPath, _ call: CallContext)
    throws(ContainerError) -> [ItemName]
  {
    let copy = fcntl(folder.fd, F_DUPFD_CLOEXEC, 0)
    let stream = try on("list", path) { () throws(Errno) in
      try check(copy)
      guard let stream = fdopendir(copy) else {
        let failure = Errno.current
        close(copy)
        throw failure
      }
      return stream
    }
    defer { closedir(stream) }
    var names: [ItemName] = []
    while true {
      if names.count % 4_096 == 0 { try call.check("list \(path)") }
      errno = 0
      guard let entry = readdir(stream) else {
        let failure = Errno.current
        guard failure.rawValue == 0 else { throw ContainerError(failure, "list", path) }
        return names
      }
      let isShown = [DT_REG, DT_DIR, DT_LNK, DT_UNKNOWN].contains(Int(entry.pointee.d_type))
      let text = UnsafeRawPointer(lx_entry_name(entry)).assumingMemoryBound(to: UInt8.self)
      let bytes = UnsafeBufferPointer(start: text, count: strlen(lx_entry_name(entry)))
      if isShown, let name = try? ItemName(bytes) { names.append(name) }
    }
  }
}
