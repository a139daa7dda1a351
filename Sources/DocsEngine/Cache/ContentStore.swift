import CLinux
import Containers
import Glibc
import StorageErrors

/// The content files of a state directory: `content/XX/NUMBER`, sparse, 0600. A number is never used twice.
final class ContentStore: Sendable {
  private let directory: ContentFile
  let stateFile: ContentFile

  init(stateDirectory: String) throws(VolumeError) {
    let path = stateDirectory + "/content"
    guard mkdir(path, 0o700) == 0 || errno == EEXIST else { throw VolumeError("\(path): \(Errno.current)") }
    let fd = lx_open(path, O_RDONLY | O_DIRECTORY, 0)
    guard fd >= 0 else { throw VolumeError("\(path): \(Errno.current)") }
    directory = ContentFile(fd: fd)
    for shard in 0..<Self.shards {
      guard mkdirat(fd, Self.shardName(shard), 0o700) == 0 || errno == EEXIST else {
        throw VolumeError("\(path): \(Errno.current)")
      }
    }
    let state = lx_open(stateDirectory, O_RDONLY | O_DIRECTORY, 0)
    guard state >= 0 else { throw VolumeError("\(stateDirectory): \(Errno.current)") }
    stateFile = ContentFile(fd: state)
    fsync(fd)
    fsync(state)
  }

  private static let shards = 64
  private static func shardName(_ shard: Int) -> String { (shard < 16 ? "0" : "") + String(shard, radix: 16) }
  private static func name(_ number: Int64) -> String {
    "\(shardName(Int(number % Int64(shards))))/\(number)"
  }

  /// Opens a content file; `create` makes it if it is missing.
  func open(_ number: Int64, create: Bool) throws(Errno) -> ContentFile {
    let fd = lx_openat(directory.fd, Self.name(number), O_RDWR | O_NOFOLLOW | (create ? O_CREAT : 0), 0o600)
    guard fd >= 0 else { throw Errno.current }
    return ContentFile(fd: fd)
  }

  /// For those who only read; `create` makes it if it is missing.
  func openForReading(_ number: Int64, create: Bool = false) throws(Errno) -> ContentFile {
    let fd = lx_openat(directory.fd, Self.name(number), O_RDONLY | O_NOFOLLOW | (create ? O_CREAT : 0), 0o600)
    guard fd >= 0 else { throw Errno.current }
    return ContentFile(fd: fd)
  }

  /// A copy of a content file, a reflink where the disk can. It has no name, and goes with its descriptor, also when
  /// the process dies.
  func unnamedCopy(of file: ContentFile) throws(Errno) -> ContentFile {
    let fd = lx_openat(stateFile.fd, ".", Int32(LX_O_TMPFILE) | O_RDWR, 0o600)
    guard fd >= 0 else { throw Errno.current }
    let copy = ContentFile(fd: fd)
    if lx_clone(fd, file.fd) == 0 { return copy }
    try copyBytes(from: file, to: copy)
    return copy
  }

  func remove(_ number: Int64) {
    guard number != 0 else { return }
    if unlinkat(directory.fd, Self.name(number), 0) != 0, errno != ENOENT {
      Log.error("a content file could not be removed", ["number": number, "error": Errno.current])
    }
  }

  /// Moves a content file to `lost/` in the state directory.
  func moveAside(_ number: Int64) -> Bool {
    guard mkdirat(stateFile.fd, "lost", 0o700) == 0 || errno == EEXIST else { return false }
    return renameat(directory.fd, Self.name(number), stateFile.fd, "lost/\(number)") == 0
  }

  /// Size, modification time and blocks on disk of a content file; nil when there is none.
  func info(_ number: Int64) -> (size: Int64, modified: Timestamp, bytes: Int64)? {
    var info = stat()
    guard fstatat(directory.fd, Self.name(number), &info, AT_SYMLINK_NOFOLLOW) == 0 else { return nil }
    return (Int64(info.st_size), Timestamp(info.st_mtim), Int64(info.st_blocks) * 512)
  }

  /// Makes the name of a content file safe against power loss; its bytes are the caller's.
  func syncName(_ number: Int64) -> Errno? {
    let fd = lx_openat(directory.fd, Self.shardName(Int(number % Int64(Self.shards))), O_RDONLY | O_DIRECTORY, 0)
    guard fd >= 0 else { return Errno.current }
    defer { close(fd) }
    return fsync(fd) == 0 ? nil : Errno.current
  }

  /// Everything on the state's file system; the cheap way when many files wait.
  func syncAll() -> Errno? { lx_syncfs(stateFile.fd) == 0 ? nil : Errno.current }

  /// Free and total bytes of the state disk.
  func space() -> (free: Int64, total: Int64)? {
    var info = statvfs()
    guard fstatvfs(stateFile.fd, &info) == 0 else { return nil }
    return (Int64(info.f_bavail) * Int64(info.f_frsize), Int64(info.f_blocks) * Int64(info.f_frsize))
  }
  func statistics() -> statvfs? {
    var info = statvfs()
    return fstatvfs(stateFile.fd, &info) == 0 ? info : nil
  }

  /// The numbers of all content files there are.
  func numbers() -> [Int64] {
    var result: [Int64] = []
    for shard in 0..<Self.shards {
      let fd = lx_openat(directory.fd, Self.shardName(shard), O_RDONLY | O_DIRECTORY, 0)
      guard fd >= 0 else { continue }
      guard let stream = fdopendir(fd) else {
        close(fd)
        continue
      }
      defer { closedir(stream) }
      while let entry = readdir(stream) {
        let name = withUnsafeBytes(of: &entry.pointee.d_name) { raw in
          String(decoding: raw.prefix { $0 != 0 }, as: UTF8.self)
        }
        if let number = Int64(name) { result.append(number) }
      }
    }
    return result
  }
}

/// All bytes of `source` over those of `target`, in the kernel.
func copyBytes(from source: ContentFile, to target: ContentFile) throws(Errno) {
  var (from, to) = (off_t(0), off_t(0))
  while case let count = lx_copy_file_range(source.fd, &from, target.fd, &to, 64 << 20), count != 0 {
    guard count > 0 else { throw Errno.current }
  }
}

/// pwrite(2) until all of `bytes` is written.
func writeAll(_ fd: Int32, _ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(Errno) {
  var done = 0
  while done < bytes.count {
    let n = pwrite(fd, bytes.baseAddress?.advanced(by: done), bytes.count - done, off_t(offset) + off_t(done))
    if n < 0 {
      if errno == EINTR { continue }
      throw Errno.current
    }
    guard n > 0 else { throw .EIO }
    done += n
  }
}

func writeAll(_ fd: Int32, _ bytes: [UInt8], at offset: Int64) throws(Errno) {
  let result = bytes.withUnsafeBytes { raw -> Result<Void, Errno> in
    do throws(Errno) { return .success(try writeAll(fd, raw, at: offset)) } catch { return .failure(error) }
  }
  try result.get()
}
