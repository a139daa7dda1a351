import CLinux
import Glibc
import StorageErrors

// What a process that was killed in the middle of a change has left in the hidden folder.

extension DirectoryContainer {
  /// Removes what was never published, and gives back what was taken from its place unless it is proven to be
  /// what was meant to go. Does nothing while any process is in the middle of a change: then the next call to
  /// `identify` does.
  func tidy(_ root: borrowing Root, _ call: CallContext) {
    do throws(ContainerError) {
      let hidden = try openHidden(root, tidying: true)
      known.withLock { $0.isTidy = true }
      for name in try names(in: hidden.staging) { unlinkat(hidden.staging.fd, cName(name.bytes), 0) }
      let all = Set(try names(in: hidden.displaced).map(\.description))
      for text in all where !text.hasSuffix(".note") {
        try call.check("tidy")
        try settle(text, hidden, root)
      }
      for text in all where text.hasSuffix(".note") && !all.contains(String(text.dropLast(5))) {
        unlinkat(hidden.displaced.fd, cName(Array(text.utf8)), 0)
      }
    } catch {
      known.withLock { $0.isTidy = false }
    }
  }

  private func settle(_ text: String, _ hidden: borrowing Hidden, _ root: borrowing Root)
    throws(ContainerError)
  {
    let unknown = ContainerPath([try? ItemName("recovered " + text)].compactMap { $0 })
    let note =
      readNote(Aside(text: text, path: .root), hidden) ?? AsideNote(ours: nil, base: nil, path: unknown)
    let aside = Aside(text: text, path: note.path.isRoot ? unknown : note.path)
    let place = try nearestFolder(to: aside.path, root)
    if try isExpendable(aside, note, place.folder, place.path, hidden, root) {
      discard(aside, hidden)
    } else {
      try putBack(Aside(text: text, path: place.path), to: place.folder, hidden, root)
    }
  }

  /// Ours that was not published, or a base that something has replaced. A base whose name is free returns:
  /// the new content may not have got there, and a delete is asked for again by whoever wanted it.
  private func isExpendable(
    _ aside: Aside, _ note: AsideNote, _ folder: borrowing Descriptor, _ path: ContainerPath,
    _ hidden: borrowing Hidden, _ root: borrowing Root
  ) throws(ContainerError) -> Bool {
    if let ours = note.ours, try isProven(aside, ours, hidden, root) { return true }
    guard let base = note.base, path == aside.path, try isProven(aside, base, hidden, root) else {
      return false
    }
    return try look(at: path, in: folder, root, "tidy") != nil
  }

  /// The folder that an item came from, or the first one above that is still there; with the path it would
  /// have there.
  private func nearestFolder(to path: ContainerPath, _ root: borrowing Root) throws(ContainerError)
    -> NearestFolder
  {
    var parent = path.parent
    let name = [path.last].compactMap { $0 }
    while true {
      do throws(ContainerError) {
        return NearestFolder(
          folder: try root.folder(parent, "tidy"), path: ContainerPath(parent.names + name))
      } catch  where error.code == .notFound && !parent.isRoot {
        parent = parent.parent
      }
    }
  }

  private func readNote(_ aside: Aside, _ hidden: borrowing Hidden) -> AsideNote? {
    var room = [CChar](repeating: 0, count: 4_096)
    var count = readlinkat(hidden.displaced.fd, aside.noteName, &room, room.count)
    if count < 0, errno == EINVAL, let file = try? openNote(aside, hidden) {
      count = pread(file.fd, &room, room.count, 0)
    }
    return count > 0 ? AsideNote(room.prefix(count).map { UInt8(bitPattern: $0) }) : nil
  }

  private func openNote(_ aside: Aside, _ hidden: borrowing Hidden) throws(Errno) -> Descriptor {
    try Descriptor(lx_openat(hidden.displaced.fd, aside.noteName, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0))
  }

  private func names(in folder: borrowing Descriptor) throws(ContainerError) -> [ItemName] {
    let readable = try on("tidy", .root) { () throws(Errno) in
      try Descriptor(lx_openat(folder.fd, ".", O_RDONLY | O_DIRECTORY, 0))
    }
    return try Listing.names(readable, .root, CallContext())
  }
}

private struct NearestFolder: ~Copyable {
  let folder: Descriptor
  let path: ContainerPath
}
