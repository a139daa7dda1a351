import CLinux
import Glibc
import StorageErrors

/// A place in `displaced/` for what is taken from its name, with a note beside it that tells the next process
/// what it is, should this one die: "1:ours:base:path".
struct Aside: Sendable {
  let text: String
  let path: ContainerPath
  var name: [CChar] { cName(Array(text.utf8)) }
  var noteName: [CChar] { cName(Array((text + ".note").utf8)) }
}

/// What a note says.
struct AsideNote: Equatable {
  /// The version of what this container was about to publish: found here, it was not, or was taken back.
  var ours: Version?
  /// What was meant to be replaced or removed; nil: whatever it is.
  var base: Version?
  /// Where it was taken from.
  var path: ContainerPath

  init(ours: Version?, base: Version?, path: ContainerPath) {
    self.ours = ours
    self.base = base
    self.path = path
  }

  /// Fits a symlink's target; of a path that is too long only the name is kept.
  var bytes: [UInt8] {
    let head = "1:" + [ours, base].map { ($0.map { hex($0.bytes) } ?? "-") + ":" }.joined()
    let room = 4_000 - head.utf8.count
    return Array(head.utf8) + (path.bytes.count <= room ? path.bytes : path.last?.bytes ?? [])
  }

  init?(_ bytes: [UInt8]) {
    let parts = bytes.split(separator: 0x3a, maxSplits: 3, omittingEmptySubsequences: false)
    guard parts.count == 4, parts[0].elementsEqual("1".utf8) else { return nil }
    ours = AsideNote.version(parts[1])
    base = AsideNote.version(parts[2])
    path = ContainerPath(parts[3].split(separator: 0x2f).compactMap { try? ItemName($0) })
  }

  private static func version(_ text: ArraySlice<UInt8>) -> Version? {
    let digits = text.compactMap { Character(UnicodeScalar($0)).hexDigitValue }
    guard digits.count == text.count, digits.count > 2, digits.count % 2 == 0 else { return nil }
    return Version(stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) })
  }
}

extension DirectoryContainer {
  /// Reserves a place, with its note. A symlink holds the note where there are any: it is made whole in one
  /// step, and no later step of the same journal can outlive it.
  func makeAside(_ note: AsideNote, _ hidden: borrowing Hidden) throws(ContainerError) -> Aside {
    let aside = Aside(text: freshName(), path: note.path)
    try on("take aside", note.path) { () throws(Errno) in
      if symlinkat(cName(note.bytes), hidden.displaced.fd, aside.noteName) == 0 { return }
      guard errno == EPERM || errno == EOPNOTSUPP else { throw .current }
      let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW
      let file = try Descriptor(lx_openat(hidden.displaced.fd, aside.noteName, flags, 0o600))
      let text = note.bytes
      guard try check(write(file.fd, text, text.count)) == text.count else { throw .ENOSPC }
      try check(fsync(file.fd))
    }
    return aside
  }

  /// What was found aside is proven not to be needed, or nothing is there.
  func discard(_ aside: Aside, _ hidden: borrowing Hidden) {
    if unlinkat(hidden.displaced.fd, aside.name, 0) == 0 || errno == ENOENT {
      unlinkat(hidden.displaced.fd, aside.noteName, 0)
    } else {
      known.withLock { $0.isTidy = false }
    }
  }

  func lookAside(_ aside: Aside, _ hidden: borrowing Hidden, _ root: borrowing Root) throws(ContainerError)
    -> Found?
  {
    guard let name = try? ItemName(aside.text) else { return nil }
    return try look(at: ContainerPath([name]), in: hidden.displaced, root, "look aside for")
  }

  /// Whether what lies aside is `version` (nil: any), and nobody can change it any more.
  func isProven(
    _ aside: Aside, _ version: Version?, _ hidden: borrowing Hidden, _ root: borrowing Root
  ) throws(ContainerError) -> Bool {
    guard let found = try lookAside(aside, hidden, root) else { return false }
    guard let version else { return true }
    return found.state.hasContent(of: version) && !isBeingWritten(found)
  }

  /// Moves the entry at `aside.path` aside.
  func take(_ aside: Aside, from folder: borrowing Descriptor, _ hidden: borrowing Hidden)
    throws(ContainerError)
  {
    do throws(Errno) {
      try check(renameat(folder.fd, cName(aside.path.last?.bytes ?? []), hidden.displaced.fd, aside.name))
    } catch {
      unlinkat(hidden.displaced.fd, aside.noteName, 0)
      throw ContainerError(error, "take aside", aside.path)
    }
  }

  /// Brings what lies aside back to its name; if that is taken by now, beside it under a conflict's name.
  func putBack(
    _ aside: Aside, to folder: borrowing Descriptor, _ hidden: borrowing Hidden, _ root: borrowing Root
  )
    throws(ContainerError)
  {
    do throws(Errno) {
      try bring(from: hidden.displaced, aside.name, to: folder, cName(aside.path.last?.bytes ?? []))
      unlinkat(hidden.displaced.fd, aside.noteName, 0)
      try folder.syncNames()
    } catch {
      try keepAsConflict(aside, folder, hidden, root)
    }
  }

  /// Gives what lies aside a conflict's name in `folder`. If that is impossible it stays where it is, with
  /// its note, and is dealt with when the container is identified again.
  func keepAsConflict(
    _ aside: Aside, _ folder: borrowing Descriptor, _ hidden: borrowing Hidden, _ root: borrowing Root
  ) throws(ContainerError) {
    guard let name = aside.path.last, let found = try lookAside(aside, hidden, root) else { return }
    let time = ConflictName.now
    for attempt in 1...1_000 {
      let isFolder = found.state.kind == .folder
      let free = ConflictName.make(for: name, isFolder: isFolder, time: time, attempt: attempt)
      do throws(Errno) {
        try bring(from: hidden.displaced, aside.name, to: folder, cName(free.bytes))
        unlinkat(hidden.displaced.fd, aside.noteName, 0)
        try folder.syncNames()
        return
      } catch  where error == .EEXIST {
        continue
      } catch {
        known.withLock { $0.isTidy = false }
        throw ContainerError(error, "give a conflict's name to what was at", aside.path)
      }
    }
    known.withLock { $0.isTidy = false }
  }
}
