import Foundation

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// What lstat(2) tells of a file, as far as a migration needs it.
struct FileStatus: Hashable, Sendable {
  enum Kind: String, Codable, Sendable { case file, folder, symlink, special }

  var kind: Kind
  /// Bytes.
  var size: Int64
  var mode: mode_t
  var device: UInt64
  var inode: UInt64
  var links: Int
  var owner: uid_t
  var group: gid_t
  /// Bytes that are allocated.
  var allocated: Int64
  /// Nanoseconds since 1970.
  var accessed: Int64
  var modified: Int64
  var changed: Int64

  init(_ info: stat) {
    switch info.st_mode & S_IFMT {
    case S_IFREG: kind = .file
    case S_IFDIR: kind = .folder
    case S_IFLNK: kind = .symlink
    default: kind = .special
    }
    size = Int64(info.st_size)
    mode = info.st_mode & 0o7777
    device = UInt64(truncatingIfNeeded: info.st_dev)
    inode = UInt64(info.st_ino)
    links = Int(info.st_nlink)
    owner = info.st_uid
    group = info.st_gid
    allocated = Int64(info.st_blocks) * 512
    #if canImport(Darwin)
      let times = (info.st_atimespec, info.st_mtimespec, info.st_ctimespec)
    #else
      let times = (info.st_atim, info.st_mtim, info.st_ctim)
    #endif
    accessed = Self.nanoseconds(times.0)
    modified = Self.nanoseconds(times.1)
    changed = Self.nanoseconds(times.2)
  }

  func isSameFile(as other: FileStatus) -> Bool { inode == other.inode && device == other.device }

  var stamp: Stamp { Stamp(inode: inode, size: size, modified: modified, changed: changed) }

  private static func nanoseconds(_ time: timespec) -> Int64 {
    Int64(time.tv_sec).multipliedReportingOverflow(by: 1_000_000_000).partialValue &+ Int64(time.tv_nsec)
  }

  static func timespec(_ nanoseconds: Int64) -> timespec {
    let (quotient, remainder) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
    let seconds = remainder < 0 ? quotient - 1 : quotient
    return Foundation.timespec(
      tv_sec: Int(seconds), tv_nsec: Int(remainder < 0 ? remainder + 1_000_000_000 : remainder))
  }
}

/// Tells whether a file is still what it was. Without the device number, which another mount changes.
struct Stamp: Hashable, Codable, Sendable {
  var inode: UInt64
  var size: Int64
  var modified: Int64
  var changed: Int64
}
