import CLinux
import StorageErrors

/// System calls as they are: paths as given, no call repeated, errno thrown.
package enum Sys {
  @discardableResult
  package static func check(_ result: Int32) throws(Errno) -> Int32 {
    guard result >= 0 else { throw .current }
    return result
  }

  @discardableResult
  package static func check(_ result: Int) throws(Errno) -> Int {
    guard result >= 0 else { throw .current }
    return result
  }

  // MARK: Names

  package static func makeFolder(_ path: String, mode: mode_t = 0o755) throws(Errno) {
    try check(mkdir(path, mode))
  }
  package static func removeFolder(_ path: String) throws(Errno) { try check(rmdir(path)) }
  package static func remove(_ path: String) throws(Errno) { try check(unlink(path)) }
  package static func rename(_ from: String, _ to: String) throws(Errno) {
    try check(CLinux.rename(from, to))
  }
  /// renameat2(2) with LX_RENAME_… flags.
  package static func rename(_ from: String, _ to: String, flags: Int) throws(Errno) {
    try check(lx_renameat2(AT_FDCWD, from, AT_FDCWD, to, UInt32(flags)))
  }
  package static func symlink(_ target: String, at path: String) throws(Errno) {
    try check(CLinux.symlink(target, path))
  }
  package static func link(_ from: String, _ to: String) throws(Errno) { try check(CLinux.link(from, to)) }
  package static func makeNode(_ path: String, mode: mode_t, device: dev_t = 0) throws(Errno) {
    try check(mknod(path, mode, device))
  }
  package static func readlink(_ path: String) throws(Errno) -> String {
    var room = [UInt8](repeating: 0, count: 4097)
    let count = try check(room.withUnsafeMutableBytes { CLinux.readlink(path, $0.baseAddress!, 4096) })
    return String(decoding: room.prefix(count), as: UTF8.self)
  }

  // MARK: Attributes

  /// lstat(2): a symlink answers for itself.
  package static func info(_ path: String) throws(Errno) -> stat {
    var info = stat()
    try check(lstat(path, &info))
    return info
  }
  package static func exists(_ path: String) -> Bool { (try? info(path)) != nil }
  package static func size(_ path: String) throws(Errno) -> Int64 { Int64(try info(path).st_size) }
  package static func setMode(_ path: String, _ mode: mode_t) throws(Errno) { try check(chmod(path, mode)) }
  /// lchown(2); nil leaves the one as it is.
  package static func setOwner(_ path: String, user: uid_t?, group: gid_t?) throws(Errno) {
    try check(lchown(path, user ?? uid_t.max, group ?? gid_t.max))
  }
  package static func truncate(_ path: String, _ size: Int64) throws(Errno) {
    try check(CLinux.truncate(path, off_t(size)))
  }
  /// utimensat(2) without following symlinks. Nanoseconds may be `timeNow` or `timeOmit`.
  package static func setTimes(_ path: String, accessed: timespec, modified: timespec) throws(Errno) {
    let times = [accessed, modified]
    try check(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW))
  }
  package static let timeNow = timespec(tv_sec: 0, tv_nsec: (1 << 30) - 1)
  package static let timeOmit = timespec(tv_sec: 0, tv_nsec: (1 << 30) - 2)

  package static func volumeInfo(_ path: String) throws(Errno) -> statvfs {
    var info = statvfs()
    try check(statvfs(path, &info))
    return info
  }
  package static func mayAccess(_ path: String, _ mode: Int32) -> Bool { access(path, mode) == 0 }

  // MARK: Extended attributes

  package static func xattr(_ path: String, _ name: String, room: Int = 65_536) throws(Errno) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: max(room, 1))
    let count = try check(lgetxattr(path, name, &bytes, room))
    return room == 0 ? [UInt8](repeating: 0, count: count) : Array(bytes.prefix(count))
  }
  package static func xattrText(_ path: String, _ name: String) throws(Errno) -> String {
    String(decoding: try xattr(path, name), as: UTF8.self)
  }
  package static func setXattr(_ path: String, _ name: String, _ value: [UInt8], flags: Int32 = 0)
    throws(Errno)
  {
    try check(lsetxattr(path, name, value, value.count, flags))
  }
  package static func removeXattr(_ path: String, _ name: String) throws(Errno) {
    try check(lremovexattr(path, name))
  }
  package static func xattrNames(_ path: String) throws(Errno) -> [String] {
    var bytes = [CChar](repeating: 0, count: 65_536)
    let count = try check(llistxattr(path, &bytes, bytes.count))
    return bytes.prefix(count).split(separator: 0).map {
      String(decoding: $0.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
  }

  // MARK: Whole files and folders

  /// Makes or replaces a file, with a plain open, write and close.
  package static func put(_ path: String, _ bytes: [UInt8], mode: mode_t = 0o644) throws(Errno) {
    let file = try OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, mode: mode)
    try file.write(bytes)
    try file.close()
  }
  package static func put(_ path: String, _ text: String) throws(Errno) { try put(path, Array(text.utf8)) }

  package static func contents(_ path: String) throws(Errno) -> [UInt8] {
    let file = try OpenFile(path, O_RDONLY)
    var all: [UInt8] = []
    while true {
      let part = try file.read(1 << 20)
      if part.isEmpty { return all }
      all += part
    }
  }
  package static func text(_ path: String) throws(Errno) -> String {
    String(decoding: try contents(path), as: UTF8.self)
  }

  /// The names in a folder but `.` and `..`, sorted.
  package static func names(_ path: String) throws(Errno) -> [String] {
    try OpenFolder(path).rest().map(\.text).filter { $0 != "." && $0 != ".." }.sorted()
  }

  /// Makes a folder and those above it that are missing.
  package static func makeFolders(_ path: String) throws(Errno) {
    if exists(path) { return }
    if let slash = path.lastIndex(of: "/"), slash != path.startIndex {
      try makeFolders(String(path[..<slash]))
    }
    try makeFolder(path)
  }
}

/// Bytes that a seed determines, so that a test need not keep them.
package func patterned(_ count: Int, seed: UInt64) -> [UInt8] {
  var state = seed &* 0x9E37_79B9_7F4A_7C15 | 1
  let words = [UInt64](unsafeUninitializedCapacity: (count + 7) / 8) { buffer, filled in
    for index in buffer.indices {
      state ^= state << 13
      state ^= state >> 7
      state ^= state << 17
      buffer[index] = state
    }
    filled = buffer.count
  }
  return words.withUnsafeBytes { Array($0.prefix(count)) }
}

extension timespec {
  package init(_ seconds: Int, _ nanoseconds: Int) { self.init(tv_sec: seconds, tv_nsec: nanoseconds) }
  package var nanoseconds: Int { tv_sec * 1_000_000_000 + tv_nsec }
}

extension stat {
  package var permissions: mode_t { st_mode & 0o7777 }
  package var isFolder: Bool { lx_is_dir(st_mode) != 0 }
  package var isSymlink: Bool { lx_is_lnk(st_mode) != 0 }
}
