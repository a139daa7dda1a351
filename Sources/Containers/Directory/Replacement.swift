import CLinux
import Glibc
import StorageErrors

// How a file takes another's place, and nothing is lost.
//
// The new file is exchanged with whatever is at the name, in one step; then what came out is looked at. It is
// removed if it is proven to be the base: the same file (handle), size and mtime, seen with the same ctime
// just before, and nobody has it open for writing. (ctime itself cannot be compared afterwards: the exchange
// changes it.) Whatever else came out is exchanged back. If the name was taken anew meanwhile, what came out
// is kept beside it as a conflict. The folder is synced before the proof: whoever was just about to open the
// base for writing has by then.
//
// What this cannot see: an edit between look and exchange that keeps size and sets mtime back.

extension DirectoryContainer {
  func replace(
    _ version: Version, by staged: borrowing Staged, at path: ContainerPath, _ folder: borrowing Descriptor,
    _ hidden: borrowing Hidden, _ root: borrowing Root
  ) throws(ContainerError) {
    try requireQuiet(version, at: path, folder, root, "replace")
    let name = cName(path.last?.bytes ?? [])
    let aside = try makeAside(AsideNote(ours: staged.state.version, base: version, path: path), hidden)
    do throws(Errno) {
      try check(renameat(hidden.staging.fd, staged.name, hidden.displaced.fd, aside.name))
      try exchange(hidden.displaced, aside.name, folder, name)
    } catch {
      defer { discard(aside, hidden) }
      switch error {
      case .EINVAL: return try replaceWithGap(version, by: aside, path, folder, hidden, root)
      case .ENOENT: throw changed("replace", path, "it is gone")
      default: throw ContainerError(error, "replace", path)
      }
    }
    let syncing = Result { () throws(Errno) in try folder.syncNames() }
    guard try isProven(aside, version, hidden, root) else {
      try giveBack(aside, staged, path, folder, hidden, root)
      throw changed("replace", path, "somebody was changing it")
    }
    discard(aside, hidden)
    try on("replace", path) { () throws(Errno) in try syncing.get() }
  }

  /// `.preconditionFailed` unless `version` is at `path`; EBUSY, to be tried again, while somebody writes to
  /// it.
  func requireQuiet(
    _ version: Version?, at path: ContainerPath, _ folder: borrowing Descriptor, _ root: borrowing Root,
    _ what: String
  ) throws(ContainerError) {
    guard let found = try look(at: path, in: folder, root, what) else {
      throw changed(what, path, "it is gone")
    }
    guard let version else { return }
    guard found.state.version == version else { throw changed(what, path, "it has another version by now") }
    if isBeingWritten(found) {
      throw ContainerError(
        .system(.EBUSY), "cannot \(what) \(path): another program has it open for writing; trying again later"
      )
    }
  }

  /// Undoes an exchange: what lies aside returns to its name. If what was at the name is not ours any more,
  /// that goes back there, as the newest, and what lies aside is kept beside it.
  private func giveBack(
    _ aside: Aside, _ staged: borrowing Staged, _ path: ContainerPath, _ folder: borrowing Descriptor,
    _ hidden: borrowing Hidden, _ root: borrowing Root
  ) throws(ContainerError) {
    let name = cName(path.last?.bytes ?? [])
    do throws(Errno) {
      try exchange(hidden.displaced, aside.name, folder, name)
    } catch {
      // Ours has been removed from there.
      return try putBack(aside, to: folder, hidden, root)
    }
    if try isProven(aside, staged.state.version, hidden, root) {
      discard(aside, hidden)
    } else {
      try? exchange(hidden.displaced, aside.name, folder, name)
      try keepAsConflict(aside, folder, hidden, root)
    }
    try on("give back", path) { () throws(Errno) in try folder.syncNames() }
  }

  /// For file systems without an exchange: the base is moved aside and looked at, then the new file takes the
  /// name. For a moment nothing is there. `ours` holds the new file.
  private func replaceWithGap(
    _ version: Version, by ours: Aside, _ path: ContainerPath, _ folder: borrowing Descriptor,
    _ hidden: borrowing Hidden, _ root: borrowing Root
  ) throws(ContainerError) {
    let aside: Aside
    do throws(ContainerError) {
      aside = try takeProven(version, at: path, folder, hidden, root, "replace")
    } catch  where error.code == .notFound {
      throw changed("replace", path, "it is gone")
    }
    do throws(Errno) {
      try bring(from: hidden.displaced, ours.name, to: folder, cName(path.last?.bytes ?? []))
    } catch  where error == .EEXIST {
      // Whoever took the name has replaced the base.
      discard(aside, hidden)
      throw changed("replace", path, "somebody replaced it")
    } catch {
      try putBack(aside, to: folder, hidden, root)
      throw ContainerError(error, "replace", path)
    }
    discard(aside, hidden)
    try on("replace", path) { () throws(Errno) in try folder.syncNames() }
  }

  /// Moves the item at `path` aside, if it is `version` (nil: any); otherwise it is put back.
  func takeProven(
    _ version: Version?, at path: ContainerPath, _ folder: borrowing Descriptor, _ hidden: borrowing Hidden,
    _ root: borrowing Root, _ what: String
  ) throws(ContainerError) -> Aside {
    let aside = try makeAside(AsideNote(ours: nil, base: version, path: path), hidden)
    try take(aside, from: folder, hidden)
    guard try isProven(aside, version, hidden, root) else {
      try putBack(aside, to: folder, hidden, root)
      throw changed(what, path, "somebody was changing it")
    }
    return aside
  }
}
