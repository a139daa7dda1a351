import CLinux
import Glibc
import StorageErrors

/// A descriptor, closed with its owner. Every member is one system call, but `write` goes on until all is
/// written.
package final class OpenFile {
  package private(set) var fd: Int32

  package init(_ path: String, _ flags: Int32, mode: mode_t = 0o644) throws(Errno) {
    fd = try Sys.check(lx_open(path, flags, mode))
  }
  /// For names that are no UTF-8.
  package init(bytes path: [UInt8], _ flags: Int32, mode: mode_t = 0o644) throws(Errno) {
    fd = try Sys.check(lx_open(path.map { CChar(bitPattern: $0) } + [0], flags, mode))
  }

  deinit { if fd >= 0 { CLinux.close(fd) } }

  package func close() throws(Errno) {
    defer { fd = -1 }
    try Sys.check(CLinux.close(fd))
  }

  package func read(_ count: Int) throws(Errno) -> [UInt8] {
    try collect(count) { CLinux.read(fd, $0, count) }
  }
  package func read(_ count: Int, at offset: Int64) throws(Errno) -> [UInt8] {
    try collect(count) { pread(fd, $0, count, off_t(offset)) }
  }
  package func text(_ count: Int, at offset: Int64) throws(Errno) -> String {
    String(decoding: try read(count, at: offset), as: UTF8.self)
  }

  package func write(_ bytes: [UInt8]) throws(Errno) {
    var done = 0
    while done < bytes.count {
      done += try Sys.check(
        bytes.withUnsafeBytes { CLinux.write(fd, $0.baseAddress! + done, $0.count - done) })
    }
  }
  package func write(_ text: String) throws(Errno) { try write(Array(text.utf8)) }

  /// One pwrite(2); how many bytes it took.
  @discardableResult
  package func write(_ bytes: [UInt8], at offset: Int64) throws(Errno) -> Int {
    try Sys.check(pwrite(fd, bytes, bytes.count, off_t(offset)))
  }
  @discardableResult
  package func write(_ text: String, at offset: Int64) throws(Errno) -> Int {
    try write(Array(text.utf8), at: offset)
  }

  package func info() throws(Errno) -> stat {
    var info = stat()
    try Sys.check(fstat(fd, &info))
    return info
  }
  package func truncate(_ size: Int64) throws(Errno) { try Sys.check(ftruncate(fd, off_t(size))) }
  /// readdir(3) from the start, which is one getdents64(2); `stream`: of this folder, opened before.
  package func list(_ stream: OpaquePointer? = nil) throws(Errno) {
    guard let open = stream ?? fdopendir(dup(fd)) else { throw .current }
    defer { if stream == nil { closedir(open) } }
    rewinddir(open)
    errno = 0
    if readdir(open) == nil, errno != 0 { throw Errno.current }
  }
  package func sync() throws(Errno) { try Sys.check(fsync(fd)) }
  package func syncData() throws(Errno) { try Sys.check(fdatasync(fd)) }
  package func syncVolume() throws(Errno) { try Sys.check(lx_syncfs(fd)) }
  package func seek(_ offset: Int64, _ whence: Int) throws(Errno) -> Int64 {
    Int64(try Sys.check(lseek(fd, off_t(offset), Int32(whence))))
  }
  package func allocate(mode: Int, offset: Int64, length: Int64) throws(Errno) {
    try Sys.check(lx_fallocate(fd, Int32(mode), off_t(offset), off_t(length)))
  }
  /// copy_file_range(2) from explicit offsets; how many bytes it took.
  package func copy(from source: OpenFile, at from: Int64, to: Int64, count: Int) throws(Errno) -> Int {
    var a = off_t(from)
    var b = off_t(to)
    return try Sys.check(lx_copy_file_range(source.fd, &a, fd, &b, count))
  }
  package func lock(_ operation: Int32) throws(Errno) { try Sys.check(flock(fd, operation)) }
  package func setXattr(_ name: String, _ value: [UInt8]) throws(Errno) {
    try Sys.check(fsetxattr(fd, name, value, value.count, 0))
  }
  package func setTimes(accessed: timespec, modified: timespec) throws(Errno) {
    try Sys.check(futimens(fd, [accessed, modified]))
  }

  /// Maps the first `count` bytes shared and writable for as long as `body` runs.
  package func withMapping<R>(_ count: Int, _ body: (UnsafeMutableRawBufferPointer) throws -> R) throws -> R {
    let start = mmap(nil, count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
    guard let start, start != UnsafeMutableRawPointer(bitPattern: -1) else { throw Errno.current }
    defer { munmap(start, count) }
    return try body(UnsafeMutableRawBufferPointer(start: start, count: count))
  }

  private func collect(_ room: Int, _ call: (UnsafeMutableRawPointer) -> Int) throws(Errno) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: max(room, 1))
    let count = try Sys.check(bytes.withUnsafeMutableBytes { call($0.baseAddress!) })
    return Array(bytes.prefix(count))
  }
}

/// A folder being read.
package final class OpenFolder {
  package struct Name {
    package let bytes: [UInt8]
    package let inode: UInt64
    package let type: UInt8
    /// As telldir(3) gave it after this entry.
    package let position: Int
    package var text: String { String(decoding: bytes, as: UTF8.self) }
  }

  private let stream: OpaquePointer

  package init(_ path: String) throws(Errno) {
    guard let stream = opendir(path) else { throw .current }
    self.stream = stream
  }
  deinit { closedir(stream) }

  package func next() throws(Errno) -> Name? {
    errno = 0
    guard let entry = readdir(stream) else {
      if errno != 0 { throw .current }
      return nil
    }
    let length = withUnsafePointer(to: &entry.pointee.d_name) {
      $0.withMemoryRebound(to: CChar.self, capacity: 256) { strlen($0) }
    }
    let bytes = withUnsafeBytes(of: &entry.pointee.d_name) { Array($0.prefix(length)) }
    return Name(
      bytes: bytes, inode: UInt64(entry.pointee.d_ino), type: entry.pointee.d_type, position: telldir(stream))
  }

  package func next(_ count: Int) throws(Errno) -> [Name] {
    var names: [Name] = []
    while names.count < count, let name = try next() { names.append(name) }
    return names
  }
  package func rest() throws(Errno) -> [Name] { try next(Int.max) }
  package func seek(_ position: Int) { seekdir(stream, position) }
  package func rewind() { rewinddir(stream) }
  package func sync() throws(Errno) { try Sys.check(fsync(dirfd(stream))) }
}
