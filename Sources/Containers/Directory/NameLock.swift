import CLinux
import Glibc
import StorageErrors

/// Keeps all docsfs processes of a container from exchanging the same name at once, while this lives. Other
/// programs know nothing of it: against them stands the proof that comes after each exchange. But if one of
/// us undid an exchange while another is at it, each would take the other's file for a foreign one.
///
/// A name is one byte of the file `names` in the hidden folder, chosen by the folder's inode number and the
/// name: two names may share one, and then wait for each other.
struct NameLock: ~Copyable {
  private let file: Descriptor

  init(_ names: [(folder: UInt64, name: ItemName)], _ hidden: borrowing Hidden) throws(Errno) {
    let path = cName(Array("names".utf8))
    let flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK
    let open = try Descriptor(lx_openat(hidden.folder.fd, path, flags, 0o600))
    // In one order, so that two never wait for each other.
    let places = Set(names.map { place(of: $0.name, in: $0.folder) }).sorted()
    for place in places where lx_lock_byte(open.fd, place) != 0 {
      // Where nothing can be locked, the proof alone must do.
      guard [ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL].contains(errno) else { throw .current }
    }
    file = open
  }
}

private func place(of name: ItemName, in folder: UInt64) -> off_t {
  let hash = digest(bytes(folder) + name.bytes).prefix(4).reduce(0) { $0 << 8 | off_t($1) }
  return hash & 0x7fff_ffff
}

extension DirectoryContainer {
  /// Locks `name` in the open `folder`.
  func lock(_ name: ItemName, in folder: borrowing Descriptor, _ hidden: borrowing Hidden, _ what: String)
    throws(ContainerError) -> NameLock
  {
    let inode = try inodeNumber(folder, what)
    return try on(what, .root) { () throws(Errno) in try NameLock([(inode, name)], hidden) }
  }

  func inodeNumber(_ folder: borrowing Descriptor, _ what: String) throws(ContainerError) -> UInt64 {
    var status = stat()
    try on(what, .root) { () throws(Errno) in try check(fstat(folder.fd, &status)) }
    return UInt64(status.st_ino)
  }
}
