import CLinux
import Glibc
import StorageErrors

/// What one look at an item told: kind, identity and what its version is made of.
///
/// **Version.** A file's is its handle, size, mtime and ctime. The handle tells a replaced file from the one
/// before; size and mtime tell edits in place; ctime those that set mtime back (`rsync -t`, `touch -r`), as
/// no program can set ctime. The price: chmod, link and rename make a new version of the same bytes. A
/// folder's version is its identity alone, as its entries have versions of their own; a symlink's is identity
/// and target.
struct FileState: Equatable {
  var kind: ItemKind
  var identity: [UInt8]
  var size: Int64
  var modified: Int64
  var changed: Int64
  var mode: UInt32
  var links: UInt64
  var owner: UInt32
  var group: UInt32
  /// A symlink's.
  var target: [UInt8]?

  /// Looks at an open item, O_PATH suffices; nil for what docsfs does not show.
  init?(of item: borrowing Descriptor, rootDevice: UInt64) throws(Errno) {
    var status = stat()
    guard fstat(item.fd, &status) == 0 else { throw .current }
    guard let kind = ItemKind(mode: status.st_mode) else { return nil }
    self.kind = kind
    identity = try FileState.identity(of: item, status, rootDevice: rootDevice)
    size = kind == .folder ? 0 : max(0, Int64(status.st_size))
    modified = nanoseconds(status.st_mtim)
    changed = nanoseconds(status.st_ctim)
    mode = status.st_mode & 0o7777
    links = UInt64(status.st_nlink)
    owner = status.st_uid
    group = status.st_gid
    if kind == .symlink { target = try readTarget(item) }
  }

  /// The file handle; where the file system has none, the inode number. A device other than the root's is
  /// part of it (a file system mounted inside the container); the root's is not, as it may be another after a
  /// reboot.
  private static func identity(of item: borrowing Descriptor, _ status: stat, rootDevice: UInt64)
    throws(Errno)
    -> [UInt8]
  {
    var handle = [UInt8](repeating: 0, count: 136)
    let count = lx_file_handle(item.fd, "", Int32(LX_AT_EMPTY_PATH), &handle)
    var identity: [UInt8]
    if count > 0 {
      identity = [0x68] + handle.prefix(Int(count))
    } else if [EOPNOTSUPP, EOVERFLOW, ENOSYS, EPERM].contains(errno) {
      identity = [0x69] + bytes(UInt64(status.st_ino))
    } else {
      throw .current
    }
    if status.st_dev != rootDevice { identity += bytes(UInt64(status.st_dev)) }
    return identity
  }

  var version: Version {
    switch kind {
    case .file:
      Version(
        [kind.rawValue] + bytes(UInt64(bitPattern: size)) + bytes(UInt64(bitPattern: modified))
          + bytes(UInt64(bitPattern: changed)) + identity)
    case .folder: Version([kind.rawValue] + identity)
    case .symlink: Version([kind.rawValue] + digest(target ?? []) + identity)
    }
  }

  /// Whether this is the item of `version`, with its content, although a rename may have given it another
  /// ctime.
  ///
  /// Together with a look at the full version just before the rename, and with nobody who has it open for
  /// writing afterwards, this proves that nothing but `version` is held.
  func hasContent(of version: Version) -> Bool {
    let mine = self.version.bytes
    guard kind == .file else { return mine == version.bytes }
    let theirs = version.bytes
    return theirs.count == mine.count && theirs.prefix(17) == mine.prefix(17)
      && theirs.dropFirst(25) == mine.dropFirst(25)
  }

  /// A version that no listing will ever tell: whoever holds it finds out that the item has changed.
  var unknownVersion: Version {
    var state = self
    state.changed = 0
    return state.version
  }

  /// What the engine knows it by. Not for a file with two names: these are two items, whose names are not
  /// renames.
  var remoteIdentity: RemoteIdentity? {
    kind == .file && links > 1 ? nil : RemoteIdentity(identity)
  }
}

extension ItemKind {
  init?(mode: UInt32) {
    if lx_is_reg(mode) != 0 {
      self = .file
    } else if lx_is_dir(mode) != 0 {
      self = .folder
    } else if lx_is_lnk(mode) != 0 {
      self = .symlink
    } else {
      return nil
    }
  }
}

private func readTarget(_ item: borrowing Descriptor) throws(Errno) -> [UInt8] {
  // A target has at most PATH_MAX - 1 bytes.
  var room = [CChar](repeating: 0, count: 4_096)
  let count = readlinkat(item.fd, "", &room, room.count)
  guard count >= 0 else { throw .current }
  return room.prefix(count).map { UInt8(bitPattern: $0) }
}

/// 16 bytes that differ where `bytes` do, unless somebody looks for ones that don't. (FNV-1a from two seeds.)
func digest(_ text: [UInt8]) -> [UInt8] {
  [UInt64(0xcbf2_9ce4_8422_2325), 0x9e37_79b9_7f4a_7c15].flatMap { seed in
    bytes(text.reduce(seed) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 })
  }
}

func hex(_ bytes: [UInt8]) -> String {
  bytes.reduce(into: "") { text, byte in
    text += byte < 16 ? "0" : ""
    text += String(byte, radix: 16)
  }
}

func bytes(_ value: UInt64) -> [UInt8] {
  withUnsafeBytes(of: value.bigEndian) { Array($0) }
}

/// Clamped to the years 1678 to 2262.
func nanoseconds(_ time: timespec) -> Int64 {
  let (seconds, tooFar) = Int64(time.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
  if tooFar { return time.tv_sec < 0 ? .min : .max }
  let (sum, over) = seconds.addingReportingOverflow(Int64(time.tv_nsec))
  return over ? .max : sum
}

extension timespec {
  init(nanoseconds: Int64) {
    let (seconds, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
    self.init(
      tv_sec: Int(rest < 0 ? seconds - 1 : seconds), tv_nsec: Int(rest < 0 ? rest + 1_000_000_000 : rest))
  }
}
