import CLinux
import Glibc
import StorageErrors

/// A file written whole, under a name in `staging/`.
struct Staged: ~Copyable {
  let file: Descriptor
  let name: [CChar]
  var state: FileState
  var xattrs: [[UInt8]: [UInt8]]?
}

extension DirectoryContainer {
  package func put(
    _ path: ContainerPath, from source: any UploadSource, attributes: RemoteAttributes,
    if condition: Precondition, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try perform("publish", path, call) { root throws(ContainerError) in
      let name = try requireName("publish", path)
      let base = try requireBase(condition, at: path, root)
      let hidden = try openHidden(root)
      let staged = try stage(source, attributes, over: base, at: path, hidden, root, call)
      defer { unlinkat(hidden.staging.fd, staged.name, 0) }
      guard source.isStillCurrent() else {
        throw ContainerError(.cancelled, "did not publish \(path): it has changed meanwhile")
      }
      try call.check("publish \(path)")
      try confirm(root)
      // Only now, as the folder may have been moved meanwhile.
      let folder = try root.folder(path.parent, "publish")
      let lock = try lock(name, in: folder, hidden, "publish")
      defer { withExtendedLifetime(lock) {} }
      switch condition {
      case .absent: try add(staged, at: path, folder, hidden)
      case .version(let version): try replace(version, by: staged, at: path, folder, hidden, root)
      }
      return RemoteItem(
        staged.state, name: name, xattrs: staged.xattrs, version: versionNow(of: staged, root))
    }
  }

  /// The version that others see from now on; if somebody has edited it already, one that nobody sees, so
  /// that the edit is not taken for what was published.
  private func versionNow(of staged: borrowing Staged, _ root: borrowing Root) -> Version {
    guard let state = try? FileState(of: staged.file, rootDevice: root.device),
      state.hasContent(of: staged.state.version)
    else { return staged.state.unknownVersion }
    return state.version
  }

  func requireName(_ what: String, _ path: ContainerPath) throws(ContainerError) -> ItemName {
    try refuseHidden(what, path, .notRepresentable)
    guard let name = path.last else {
      throw ContainerError(.notRepresentable, "cannot \(what) /: it is the root")
    }
    return name
  }

  /// Fails early, before any byte was sent for nothing. The proof comes with the publication.
  private func requireBase(_ condition: Precondition, at path: ContainerPath, _ root: borrowing Root)
    throws(ContainerError) -> RemoteItemBase?
  {
    let folder = try root.folder(path.parent, "publish")
    let found = try look(at: path, in: folder, root, "publish")
    switch condition {
    case .absent:
      if found != nil { throw changed("publish", path, "something is there") }
      return nil
    case .version(let version):
      guard let found, found.state.version == version else {
        throw changed("publish", path, "it has another version by now")
      }
      return RemoteItemBase(state: found.state, xattrs: found.item.attributes.xattrs)
    }
  }

  func changed(_ what: String, _ path: ContainerPath, _ why: String) -> ContainerError {
    ContainerError(.preconditionFailed, "cannot \(what) \(path): \(why)")
  }

  private func add(
    _ staged: borrowing Staged, at path: ContainerPath, _ folder: borrowing Descriptor,
    _ hidden: borrowing Hidden
  ) throws(ContainerError) {
    try on("publish", path) { () throws(Errno) in
      try bring(from: hidden.staging, staged.name, to: folder, cName(path.last?.bytes ?? []))
      try folder.syncNames()
    }
  }
}

/// What of the replaced file its successor inherits.
struct RemoteItemBase {
  var state: FileState
  var xattrs: [[UInt8]: [UInt8]]?
}

// MARK: - Staging

extension DirectoryContainer {
  private func stage(
    _ source: any UploadSource, _ attributes: RemoteAttributes, over base: RemoteItemBase?,
    at path: ContainerPath,
    _ hidden: borrowing Hidden, _ root: borrowing Root, _ call: CallContext
  ) throws(ContainerError) -> Staged {
    let name = cName(Array(freshName().utf8))
    let file = try on("write", path) { () throws(Errno) in
      try Descriptor(lx_openat(hidden.staging.fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o666))
    }
    do throws(ContainerError) {
      try fill(file, from: source, path, call)
      let state = try finish(file, attributes, over: base, path, root)
      // Not for writing any more: others must not take the published file for one that is being written.
      let quiet = try on("write", path) { () throws(Errno) in try file.reopened(Int32(LX_O_PATH)) }
      return Staged(
        file: quiet, name: name, state: state, xattrs: attributes.xattrs ?? base?.xattrs ?? [:])
    } catch {
      unlinkat(hidden.staging.fd, name, 0)
      throw error
    }
  }

  private func fill(
    _ file: borrowing Descriptor, from source: any UploadSource, _ path: ContainerPath, _ call: CallContext
  ) throws(ContainerError) {
    let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 4_096)
    defer { room.deallocate() }
    let size = source.size
    let digest = source.sha256.map { _ in Digest() }
    var offset: Int64 = 0
    while offset < size {
      try call.check("publish \(path)")
      let wanted = Int(min(Int64(room.count), size - offset))
      let count = try source.read(at: offset, into: UnsafeMutableRawBufferPointer(rebasing: room[..<wanted]))
      guard count > 0, count <= wanted else {
        throw ContainerError(.cancelled, "did not publish \(path): it became shorter meanwhile")
      }
      source.sent(count)
      let piece = UnsafeRawBufferPointer(rebasing: room[..<count])
      digest?.update(piece)
      if !isZero(piece) {
        try on("write", path) { () throws(Errno) in try writeAll(file, piece, at: offset) }
      }
      offset += Int64(count)
    }
    if let digest, digest.finish() != source.sha256 {
      guard source.isStillCurrent() else {
        throw ContainerError(.cancelled, "did not publish \(path): it has changed meanwhile")
      }
      throw ContainerError(.inconsistent, "did not publish \(path): its bytes were altered on their way")
    }
    // Zeros were left out: the file is as sparse as it can be.
    try on("write", path) { () throws(Errno) in try check(ftruncate(file.fd, off_t(size))) }
  }

  /// Gives the file its attributes and makes it safe; mtime comes last, as a write would move it.
  private func finish(
    _ file: borrowing Descriptor, _ attributes: RemoteAttributes, over base: RemoteItemBase?,
    _ path: ContainerPath,
    _ root: borrowing Root
  ) throws(ContainerError) -> FileState {
    try on("write", path) { () throws(Errno) in
      if let xattrs = attributes.xattrs ?? base?.xattrs { try writeXattrs(file, xattrs) }
      // A daemon of root's keeps the owner; for others that fails, and the file is theirs.
      if let base { fchown(file.fd, base.state.owner, base.state.group) }
      if let mode = attributes.mode ?? base?.state.mode, fchmod(file.fd, mode & 0o7777) != 0, errno != EPERM {
        throw .current
      }
      try writeModified(file, attributes.mtime)
      try check(fsync(file.fd))
      guard let state = try FileState(of: file, rootDevice: root.device) else { throw .EIO }
      return state
    }
  }
}

private func isZero(_ bytes: UnsafeRawBufferPointer) -> Bool {
  guard let start = bytes.baseAddress, bytes.count > 1 else { return false }
  return bytes[0] == 0 && memcmp(start, start + 1, bytes.count - 1) == 0
}

private func writeAll(_ file: borrowing Descriptor, _ bytes: UnsafeRawBufferPointer, at offset: Int64)
  throws(Errno)
{
  var done = 0
  while done < bytes.count {
    let count = pwrite(file.fd, bytes.baseAddress.map { $0 + done }, bytes.count - done, off_t(offset) + done)
    if count < 0, errno == EINTR { continue }
    done += try check(count)
  }
}
