import Foundation
import StorageErrors

#if canImport(Darwin)
  import Darwin
#else
  import CLinux
  import Glibc
#endif

/// System calls as they are: no symlink is followed in a last name, errno is thrown.
///
/// Not FileManager: on Linux its copies report a failed close as success, its enumerators take a failing readdir for the
/// folder's end, and both leave halves of files behind.
enum POSIX {
  @discardableResult
  static func check(_ result: Int32) throws(Errno) -> Int32 {
    guard result >= 0 else { throw .current }
    return result
  }
  @discardableResult
  static func check(_ result: Int) throws(Errno) -> Int {
    guard result >= 0 else { throw .current }
    return result
  }

  static func status(_ path: DocumentPath) throws(Errno) -> FileStatus {
    var info = stat()
    try check(path.call { lstat($0, &info) })
    return FileStatus(info)
  }
  /// nil when there is nothing; any other failure is thrown.
  static func statusIfPresent(_ path: DocumentPath) throws(Errno) -> FileStatus? {
    do { return try status(path) } catch { if error == .ENOENT { return nil } else { throw error } }
  }

  /// The names in a folder but `.` and `..`. A failing readdir is an error, not the end.
  static func names(_ path: DocumentPath) throws(Errno) -> [[UInt8]] {
    guard let folder = path.call({ opendir($0) }) else { throw .current }
    defer { closedir(folder) }
    var names: [[UInt8]] = []
    while true {
      errno = 0
      guard let entry = readdir(folder) else {
        if errno != 0 { throw .current }
        return names
      }
      // From the entry itself: its record may be shorter than the declared type.
      let start = UnsafeRawPointer(entry) + (MemoryLayout<dirent>.offset(of: \.d_name) ?? 0)
      let name = Array(UnsafeRawBufferPointer(start: start, count: strlen(start.assumingMemoryBound(to: CChar.self))))
      if name != [0x2e], name != [0x2e, 0x2e] { names.append(name) }
    }
  }

  static func makeFolder(_ path: DocumentPath, mode: mode_t = 0o700) throws(Errno) {
    try check(path.call { mkdir($0, mode) })
  }
  static func removeFolder(_ path: DocumentPath) throws(Errno) { try check(path.call { rmdir($0) }) }
  static func remove(_ path: DocumentPath) throws(Errno) { try check(path.call { unlink($0) }) }
  static func removeIfPresent(_ path: DocumentPath) throws(Errno) {
    do { try remove(path) } catch { if error != .ENOENT { throw error } }
  }
  static func link(_ from: DocumentPath, _ to: DocumentPath) throws(Errno) {
    try check(from.call { from in to.call { linkat(AT_FDCWD, from, AT_FDCWD, $0, 0) } })
  }
  static func rename(_ from: DocumentPath, over to: DocumentPath) throws(Errno) {
    try check(from.call { from in to.call { renameat(AT_FDCWD, from, AT_FDCWD, $0) } })
  }
  static func symlink(_ target: [UInt8], at path: DocumentPath) throws(Errno) {
    try check(DocumentPath(target).call { target in path.call { symlinkat(target, AT_FDCWD, $0) } })
  }
  static func readLink(_ path: DocumentPath) throws(Errno) -> [UInt8] {
    var room = [CChar](repeating: 0, count: 8192)
    let count = try check(path.call { readlinkat(AT_FDCWD, $0, &room, room.count) })
    return room.prefix(count).map { UInt8(bitPattern: $0) }
  }
  static func resolved(_ path: DocumentPath) throws(Errno) -> DocumentPath {
    guard let text = path.call({ realpath($0, nil) }) else { throw .current }
    defer { free(text) }
    return DocumentPath(UnsafeRawBufferPointer(start: text, count: strlen(text)))
  }
  /// Of a path whose last names need not be there yet.
  static func resolvedAsFarAsThere(_ path: DocumentPath) -> DocumentPath {
    if let resolved = try? resolved(path.isRoot ? DocumentPath(".") : path) { return resolved }
    return path.isRoot || path.parent == path ? path : resolvedAsFarAsThere(path.parent).appending(path.name)
  }

  static func setMode(_ path: DocumentPath, _ mode: mode_t) throws(Errno) { try check(path.call { chmod($0, mode) }) }
  static func setTimes(_ path: DocumentPath, of status: FileStatus) throws(Errno) {
    let times = [FileStatus.timespec(status.accessed), FileStatus.timespec(status.modified)]
    try check(path.call { utimensat(AT_FDCWD, $0, times, AT_SYMLINK_NOFOLLOW) })
  }
  /// Only root can give a file away; for everybody else the file stays their own.
  static func setOwner(_ path: DocumentPath, of status: FileStatus) {
    if geteuid() == 0 { _ = path.call { lchown($0, status.owner, status.group) } }
  }
  static func mayWrite(_ path: DocumentPath) -> Bool { path.call { access($0, W_OK | X_OK) } == 0 }

  /// Bytes that a process of this user may still write there.
  static func room(_ path: DocumentPath) throws(Errno) -> Int64 {
    var info = statvfs()
    try check(path.call { statvfs($0, &info) })
    return Int64(clamping: UInt64(info.f_bavail).multipliedReportingOverflow(by: UInt64(info.f_frsize)).partialValue)
  }
  /// The longest name there, in bytes.
  static func longestName(_ path: DocumentPath) -> Int {
    let limit = path.call { pathconf($0, Int32(_PC_NAME_MAX)) }
    return limit > 0 ? limit : 255
  }

  static func syncFolder(_ path: DocumentPath) throws(Errno) {
    let folder = try Descriptor(path, O_RDONLY | O_DIRECTORY)
    do { try folder.sync() } catch {
      // Some file systems sync no folders: fsync(2) calls that EINVAL.
      if error != .EINVAL, error != .EOPNOTSUPP { throw error }
    }
  }
}

/// An open file, closed with its owner.
final class Descriptor: Sendable {
  let fd: Int32

  init(_ path: DocumentPath, _ flags: Int32, mode: mode_t = 0o600) throws(Errno) {
    fd = try POSIX.check(path.call { open($0, flags | O_CLOEXEC | O_NOFOLLOW, mode) })
  }
  deinit { close(fd) }

  func status() throws(Errno) -> FileStatus {
    var info = stat()
    try POSIX.check(fstat(fd, &info))
    return FileStatus(info)
  }

  /// 0 at the end.
  func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(Errno) -> Int {
    while true {
      let count = pread(fd, buffer.baseAddress, buffer.count, off_t(offset))
      if count >= 0 { return count }
      if errno != EINTR { throw .current }
    }
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(Errno) {
    var done = 0
    while done < bytes.count {
      let count = pwrite(fd, bytes.baseAddress.map { $0 + done }, bytes.count - done, off_t(offset) + off_t(done))
      if count >= 0 { done += count } else if errno != EINTR { throw .current }
    }
  }

  func append(_ bytes: [UInt8]) throws(Errno) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes { Foundation.write(fd, $0.baseAddress, $0.count) }
      if count >= 0 { rest = rest.dropFirst(count) } else if errno != EINTR { throw .current }
    }
  }

  func truncate(_ size: Int64) throws(Errno) { try POSIX.check(ftruncate(fd, off_t(size))) }

  func setMode(_ mode: mode_t) throws(Errno) { try POSIX.check(fchmod(fd, mode)) }
  func setTimes(of status: FileStatus) throws(Errno) {
    let times = [FileStatus.timespec(status.accessed), FileStatus.timespec(status.modified)]
    try POSIX.check(futimens(fd, times))
  }
  func setOwner(of status: FileStatus) {
    if geteuid() == 0 { _ = fchown(fd, status.owner, status.group) }
  }

  /// All of a small file; EFBIG when it has more than `limit` bytes.
  func contents(limit: Int) throws(Errno) -> [UInt8] {
    var all: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 65_536)
    while true {
      let offset = Int64(all.count)
      var failure: Errno?
      let count = piece.withUnsafeMutableBytes { buffer in
        do throws(Errno) { return try read(into: buffer, at: offset) } catch {
          failure = error
          return 0
        }
      }
      if let failure { throw failure }
      if count == 0 { return all }
      all += piece.prefix(count)
      if all.count > limit { throw .EFBIG }
    }
  }
}
