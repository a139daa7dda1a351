import CLinux
import Glibc
import StorageErrors

extension DirectoryContainer {
  /// Moves an entry to a name that must be free (EEXIST), in one step; false where the file system cannot.
  func moveAtOnce(
    from: borrowing Descriptor, _ name: [CChar], to: borrowing Descriptor, _ newName: [CChar]
  ) throws(Errno) -> Bool {
    guard abilities.refusesToReplace else { return false }
    if lx_renameat2(from.fd, name, to.fd, newName, UInt32(LX_RENAME_NOREPLACE)) == 0 { return true }
    guard errno == EINVAL || errno == ENOSYS else { throw .current }
    return false
  }

  /// Brings what lies in the hidden folder to a name that must be free: EEXIST otherwise. Nobody else knows
  /// its name there, so that where no single call does it, a link and an unlink do.
  func bring(
    from: borrowing Descriptor, _ name: [CChar], to: borrowing Descriptor, _ newName: [CChar]
  ) throws(Errno) {
    if try moveAtOnce(from: from, name, to: to, newName) { return }
    if linkat(from.fd, name, to.fd, newName, 0) == 0 {
      try check(unlinkat(from.fd, name, 0))
      return
    }
    // A folder, or no hard links here: between the look and the move somebody may take the name.
    guard ![EEXIST, ENOENT, EXDEV].contains(errno) else { throw .current }
    if try to.entry(newName) != nil { throw .EEXIST }
    try check(renameat(from.fd, name, to.fd, newName))
  }

  /// Exchanges two entries in one step. EINVAL where the file system cannot.
  func exchange(_ a: borrowing Descriptor, _ name: [CChar], _ b: borrowing Descriptor, _ other: [CChar])
    throws(Errno)
  {
    guard abilities.exchanges else { throw .EINVAL }
    if lx_renameat2(a.fd, name, b.fd, other, UInt32(LX_RENAME_EXCHANGE)) == 0 { return }
    throw errno == ENOSYS ? .EINVAL : .current
  }
}

/// Nobody can begin to write a file while this lives; nil if somebody is at it.
///
/// An open for writing waits meanwhile: only for short work on a file that stays at its name.
struct WriteBarrier: ~Copyable {
  private let file: Descriptor
  init?(_ item: borrowing Descriptor) throws(Errno) {
    file = try item.reopened(O_RDONLY | O_NONBLOCK | O_NOCTTY)
    // Other failures: the file is another user's, or the file system has no leases. Then nobody can tell.
    if lx_lease(file.fd) != 0, errno == EAGAIN { return nil }
  }
  deinit { lx_unlease(file.fd) }
}

/// Whether anybody has the file open for writing: their next write would go to what is about to be removed.
func isBeingWritten(_ item: borrowing Found) -> Bool {
  guard item.state.kind == .file else { return false }
  do throws(Errno) {
    return try WriteBarrier(item.descriptor) == nil
  } catch {
    return false
  }
}
