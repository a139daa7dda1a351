import Foundation
import StorageErrors

#if canImport(Darwin)
  import Darwin
#else
  import CLinux
  import Glibc
#endif

// What Apple's systems and Linux call by different names.

extension POSIX {
  /// Fails with EEXIST when `to` is there.
  static func rename(_ from: DocumentPath, toNew to: DocumentPath) throws(Errno) {
    #if canImport(Darwin)
      let result = from.call { from in to.call { renamex_np(from, $0, UInt32(RENAME_EXCL)) } }
    #else
      let result = from.call { from in
        to.call { lx_renameat2(AT_FDCWD, from, AT_FDCWD, $0, UInt32(LX_RENAME_NOREPLACE)) }
      }
    #endif
    if result == 0 { return }
    let problem = Errno.current
    // Some file systems know no flags: a second name fails on one that is there just as well.
    guard problem == .EINVAL || problem == .EOPNOTSUPP, try status(from).kind != .folder else { throw problem }
    do { try link(from, to) } catch {
      if error == .EEXIST { throw error }
      // Neither: what is left is to look first.
      guard try statusIfPresent(to) == nil else { throw .EEXIST }
      return try rename(from, over: to)
    }
    try remove(from)
  }

  /// A number for the kind of file system that a path lies on.
  static func fileSystemType(_ path: DocumentPath) throws(Errno) -> UInt64 {
    #if canImport(Darwin)
      var info = statfs()
      try check(path.call { statfs($0, &info) })
      return UInt64(info.f_type)
    #else
      let type = path.call { lx_file_system_type($0) }
      guard type != -1 else { throw .current }
      return UInt64(truncatingIfNeeded: type)
    #endif
  }

  // MARK: Extended attributes

  static func xattr(_ path: DocumentPath, _ name: String) throws(Errno) -> [UInt8] {
    func get(_ room: UnsafeMutableRawPointer?, _ size: Int) -> Int {
      #if canImport(Darwin)
        path.call { getxattr($0, name, room, size, 0, XATTR_NOFOLLOW) }
      #else
        path.call { lgetxattr($0, name, room, size) }
      #endif
    }
    while true {
      var value = [UInt8](repeating: 0, count: try check(get(nil, 0)))
      let count = value.withUnsafeMutableBytes { get($0.baseAddress, $0.count) }
      if count >= 0 { return Array(value.prefix(count)) }
      // It has grown meanwhile.
      if errno != ERANGE { throw .current }
    }
  }
  static func setXattr(_ path: DocumentPath, _ name: String, _ value: [UInt8]) throws(Errno) {
    #if canImport(Darwin)
      try check(path.call { setxattr($0, name, value, value.count, 0, XATTR_NOFOLLOW) })
    #else
      try check(path.call { lsetxattr($0, name, value, value.count, 0) })
    #endif
  }

  /// A user's own attributes: not docsfs's, and not those that belong to the system or to the place of the file.
  static func userXattrs(_ path: DocumentPath) throws(Errno) -> [(name: String, value: [UInt8])] {
    do {
      var result: [(name: String, value: [UInt8])] = []
      for name in try xattrNames(path) where isUsers(name) {
        result.append((name, try xattr(path, name)))
      }
      return result
    } catch {
      if error == .EOPNOTSUPP { return [] }
      throw error
    }
  }

  private static func xattrNames(_ path: DocumentPath) throws(Errno) -> [String] {
    var list = [CChar](repeating: 0, count: 1 << 16)
    #if canImport(Darwin)
      let count = try check(path.call { listxattr($0, &list, list.count, XATTR_NOFOLLOW) })
    #else
      let count = try check(path.call { llistxattr($0, &list, list.count) })
    #endif
    return list.prefix(count).split(separator: 0).map {
      String(decoding: $0.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
  }

  private static func isUsers(_ name: String) -> Bool {
    #if canImport(Darwin)
      return !name.hasPrefix("com.apple.fileprovider") && !name.hasPrefix("com.apple.icloud")
    #else
      return name.hasPrefix("user.") && !name.hasPrefix("user.docsfs.")
    #endif
  }
}

extension Descriptor {
  /// Down to the medium, name and size included.
  func sync() throws(Errno) {
    #if canImport(Darwin)
      if fcntl(fd, F_FULLFSYNC) == 0 { return }
    #endif
    try POSIX.check(fsync(fd))
  }

  /// What is read next comes from the file system, not from the page cache, where the system can do that.
  func dropCache() {
    #if canImport(Darwin)
      _ = fcntl(fd, F_NOCACHE, 1)
    #else
      _ = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)
    #endif
  }

  /// The next range with data at or after `offset`; nil when that cannot be told.
  ///
  /// "Only a hole is left" is not believed: its errno, ENXIO, is also that of a drive that has gone, and a document would
  /// end in zeros.
  func nextData(from offset: Int64, size: Int64) -> Range<Int64>? {
    let start = lseek(fd, off_t(offset), seekData)
    guard start >= offset, start < size else { return nil }
    let end = lseek(fd, start, seekHole)
    return Int64(start)..<min(size, end > start ? Int64(end) : size)
  }

  private var seekData: Int32 {
    #if canImport(Darwin)
      SEEK_DATA
    #else
      Int32(LX_SEEK_DATA)
    #endif
  }
  private var seekHole: Int32 {
    #if canImport(Darwin)
      SEEK_HOLE
    #else
      Int32(LX_SEEK_HOLE)
    #endif
  }

  /// Runs `body` while nobody can open the file for writing, where the file system has leases; nil, without running it,
  /// when somebody has it open for writing already.
  func withoutWriters<R>(_ body: () throws(Errno) -> R) throws(Errno) -> R? {
    #if canImport(Darwin)
      return try body()
    #else
      let isLeased = lx_lease(fd) == 0
      if !isLeased, errno == EAGAIN { return nil }
      defer { if isLeased { _ = lx_unlease(fd) } }
      return try body()
    #endif
  }
}
