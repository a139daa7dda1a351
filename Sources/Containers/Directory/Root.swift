import CLinux
import Glibc
import StorageErrors

/// At the root: the marker, and what is on its way in or out. Neither listed nor to be reached by a path.
let hiddenName = ItemName.hidden

extension ItemName {
  fileprivate static let hidden = (try? ItemName(".docsfs-container")) ?? .root
}

/// Which folder the root is.
struct RootMark: Equatable {
  var device: UInt64
  var inode: UInt64
}

/// Which file the marker is, so that a call can see with one stat that it is still there.
struct MarkerMark: Equatable {
  var inode: UInt64
  var modified: Int64
}

/// The root as one call has opened it.
struct Root: ~Copyable {
  let descriptor: Descriptor
  let mark: RootMark
  var device: UInt64 { mark.device }

  /// The folder at `path` below it. Opened for nothing but asking, unless `flags` say otherwise.
  borrowing func folder(
    _ path: ContainerPath, _ what: String,
    flags: Int32 = folderPath
  ) throws(ContainerError) -> Descriptor {
    do throws(Errno) {
      return try openFolder(path.names, below: descriptor, flags: flags)
    } catch {
      throw ContainerError(error, what, path)
    }
  }
}

extension DirectoryContainer {
  /// Runs `body` with the root open. Whatever it did not find is believed only if the root is still there.
  func perform<R: ~Copyable>(
    _ what: String, _ path: ContainerPath, _ call: CallContext,
    _ body: (borrowing Root) throws(ContainerError) -> R
  ) throws(ContainerError) -> R {
    try call.check("\(what) \(path)")
    let root = try openRoot()
    do throws(ContainerError) {
      return try body(root)
    } catch {
      if error.code == .notFound { try confirm(root) }
      throw error
    }
  }

  /// `.unreachable` unless the root's path leads to the folder that was identified, with its marker in it.
  func openRoot() throws(ContainerError) -> Root {
    let root = try openRootUnseen()
    let (mark, marker) = known.withLock { known in
      if known.root == nil { known.root = root.mark }
      return (known.root, known.marker)
    }
    guard mark == root.mark else { throw unreachable("another folder has taken its place") }
    if let marker { try requireMarker(marker, root) }
    return root
  }

  /// The root as its path leads to it now, whichever folder that is.
  func openRootUnseen() throws(ContainerError) -> Root {
    do throws(Errno) {
      let flags = folderPath
      let descriptor = try Descriptor(lx_open(cName(rootPath), flags, 0))
      var status = stat()
      try check(fstat(descriptor.fd, &status))
      return Root(
        descriptor: descriptor,
        mark: RootMark(device: UInt64(status.st_dev), inode: UInt64(status.st_ino)))
    } catch {
      throw unreachable("\(error)")
    }
  }

  /// Throws `.unreachable` if the path does not lead to `root` any more: it was removed, renamed or
  /// unmounted.
  func confirm(_ root: borrowing Root) throws(ContainerError) {
    var status = stat()
    guard stat(cName(rootPath), &status) == 0 else { throw unreachable("\(Errno.current)") }
    let mark = RootMark(device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
    guard mark == root.mark else { throw unreachable("another folder has taken its place") }
    if let marker = known.withLock({ $0.marker }) { try requireMarker(marker, root) }
  }

  func unreachable(_ why: String) -> ContainerError {
    ContainerError(.unreachable, "cannot reach the container \(url): \(why)")
  }

  /// A path of an item, or a refusal for what the container keeps to itself.
  func refuseHidden(_ what: String, _ path: ContainerPath, _ code: ContainerError.Code) throws(ContainerError) {
    guard path.names.first == hiddenName else { return }
    throw ContainerError(code, "cannot \(what) \(path): the name is the container's own")
  }

  /// Whether nothing may be written into the folder at `path`; false where that cannot be told.
  static func refusesWrites(_ path: [UInt8]) -> Bool {
    // AT_EACCESS: by the rights that calls have.
    faccessat(AT_FDCWD, cName(path), W_OK, AT_EACCESS) != 0 && [EROFS, EACCES, EPERM].contains(errno)
  }
}
