import CLinux
import Glibc
import StorageErrors

/// A container that is a folder: items are plain files at plain paths, and whoever else edits that folder is
/// another device. Where the file system tells, a change feed tells what they do.
///
/// Nothing is held open between calls, so that a disk can be unmounted; each call opens the root by its path
/// and makes sure that it is the one that was identified. No symlink below the root is ever followed, and
/// nothing but regular files is opened. `/proc` must be mounted.
///
/// A published change costs two fsyncs, of the file and of its folder: when the call returns, it is safe.
package final class DirectoryContainer: Container {
  package let url: String
  let rootPath: [UInt8]
  let abilities: Abilities
  let known = Guarded(Known())

  /// What the file system below may lack; tests take them away.
  struct Abilities {
    /// renameat2's flags: neither NFS nor FAT can exchange, NFS cannot refuse to replace either.
    var exchanges = true
    var refusesToReplace = true
  }

  /// What is known of the root since it was identified.
  struct Known {
    var root: RootMark?
    var marker: MarkerMark?
    var id: ContainerID?
    var isReadOnly = false
    /// What dead processes left in the hidden folder has been dealt with.
    var isTidy = false
  }

  /// `path` as bytes, absolute or relative to the working directory of now. It need not be there yet.
  package convenience init(path: [UInt8]) {
    self.init(path: path, abilities: Abilities())
  }

  init(path: [UInt8], abilities: Abilities) {
    rootPath = path
    url = ContainerURL(path: path).canonical
    self.abilities = abilities
    let isReadOnly = DirectoryContainer.refusesWrites(path)
    known.withLock { $0.isReadOnly = isReadOnly }
  }

  package var traits: ContainerTraits {
    ContainerTraits(
      isReadOnly: known.withLock { $0.isReadOnly }, hasIdentities: true, holdsMode: true, holdsXattrs: true,
      holdsSymlinks: true)
  }

  package func list(_ folder: ContainerPath, _ call: CallContext) throws(ContainerError) -> [RemoteItem] {
    try perform("list", folder, call) { root throws(ContainerError) in
      try refuseHidden("list", folder, .notFound)
      var listing = try Listing(folder, root, call)
      // An entry that is renamed meanwhile may be missed: look again, but not for ever.
      for _ in 0..<2 where listing.hasMoved { listing = try Listing(folder, root, call) }
      try confirm(root)
      return listing.items
    }
  }

  package func item(at path: ContainerPath, _ call: CallContext) throws(ContainerError) -> RemoteItem? {
    if path.names.first == hiddenName { return nil }
    return try perform("look at", path, call) { root throws(ContainerError) in
      do throws(ContainerError) {
        let folder = try root.folder(path.parent, "look at")
        if let found = try look(at: path, in: folder, root, "look at")?.item { return found }
      } catch  where error.code == .notFound {}
      try confirm(root)
      return nil
    }
  }

  package func read(
    _ path: ContainerPath, version: Version, range: Range<Int64>, _ call: CallContext,
    sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) {
    try perform("read", path, call) { root throws(ContainerError) in
      try refuseHidden("read", path, .notFound)
      let folder = try root.folder(path.parent, "read")
      guard let found = try look(at: path, in: folder, root, "read") else {
        throw ContainerError(.ENOENT, "read", path)
      }
      guard found.state.kind == .file, found.state.version == version else {
        throw ContainerError(.versionChanged, "cannot read \(path): it has changed")
      }
      try settle(found.state, call, path)
      let file = try on("read", path) { () throws(Errno) in
        try found.descriptor.reopened(O_RDONLY | O_NONBLOCK | O_NOCTTY)
      }
      try copy(file, range, path, call) { piece throws(ContainerError) in
        // Whoever gets a piece may hand it on at once: it is of this version, though others write in place.
        try requireVersion(version, of: file, root, path)
        try sink(piece)
      }
      try requireVersion(version, of: file, root, path)
    }
  }

  package func checksum(of version: Version) -> ContentDigest? { nil }

  package func tryOut(_ call: CallContext) throws(ContainerError) {}

  package func quota(_ call: CallContext) throws(ContainerError) -> Quota? {
    try perform("ask for the room of", .root, call) { root throws(ContainerError) in
      var status = statvfs()
      try on("ask for the room of", .root) { () throws(Errno) in
        try check(fstatvfs(root.descriptor.fd, &status))
      }
      let unit = UInt64(status.f_frsize)
      return Quota(
        total: Int64(clamping: UInt64(status.f_blocks) &* unit),
        free: Int64(clamping: UInt64(status.f_bavail) &* unit)
      )
    }
  }

  package func changeFeed(_ handler: @escaping @Sendable ([ChangeHint]) -> Void) -> (any ChangeFeed)? {
    InotifyFeed(self, handler)
  }
}

// MARK: - Reading

extension DirectoryContainer {
  private static let pieceSize = 256 << 10

  /// A version is told apart by times, which may be a clock tick coarse: a change within the tick of the one
  /// before may show the same version. So content is read only when its last change is a tick old: whatever
  /// shares its stamp has happened by then.
  private func settle(_ state: FileState, _ call: CallContext, _ path: ContainerPath) throws(ContainerError) {
    var time = timespec()
    clock_gettime(CLOCK_REALTIME, &time)
    let (age, isAbsurd) = nanoseconds(time).subtractingReportingOverflow(state.changed)
    let tick = DirectoryContainer.tick(of: state.changed)
    if !isAbsurd, (0..<tick).contains(age) { try call.sleep(Double(tick - age) / 1e9, "read \(path)") }
  }

  /// How long a change may bear the stamp `time`: as long as the kernel's coarse clock stands still; 2 s
  /// where whole seconds show a file system of that kind (FAT).
  private static func tick(of time: Int64) -> Int64 {
    if time % 1_000_000_000 == 0 { return 2_000_000_000 }
    var resolution = timespec()
    clock_getres(CLOCK_REALTIME_COARSE, &resolution)
    return nanoseconds(resolution) + 1_000_000
  }

  private func requireVersion(
    _ version: Version, of file: borrowing Descriptor, _ root: borrowing Root, _ path: ContainerPath
  ) throws(ContainerError) {
    let state = try on("read", path) { () throws(Errno) in try FileState(of: file, rootDevice: root.device) }
    guard let state, state.kind == .file, state.version == version else {
      throw ContainerError(.versionChanged, "cannot read \(path): it has changed")
    }
  }

  private func copy(
    _ file: borrowing Descriptor, _ range: Range<Int64>, _ path: ContainerPath, _ call: CallContext,
    _ sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) {
    let room = UnsafeMutableRawBufferPointer.allocate(
      byteCount: Int(clamping: min(Int64(Self.pieceSize), Int64(range.count))), alignment: 4_096)
    defer { room.deallocate() }
    var offset = range.lowerBound
    while offset < range.upperBound {
      try call.check("read \(path)")
      let wanted = Int(min(Int64(room.count), range.upperBound - offset))
      let got = pread(file.fd, room.baseAddress, wanted, off_t(offset))
      if got < 0, errno == EINTR { continue }
      let count = try on("read", path) { () throws(Errno) in try check(got) }
      guard count > 0 else { throw ContainerError(.versionChanged, "cannot read \(path): it became shorter") }
      try sink(UnsafeRawBufferPointer(rebasing: room[..<count]))
      offset += Int64(count)
    }
  }
}
