#if os(Linux)
  import CLinux
  import Foundation
  import StorageErrors

  /// A path as the kernel takes it: what lies below a folder need not have a name that is text.
  struct RawPath: Hashable, Sendable {
    var bytes: [UInt8]

    init(bytes: [UInt8]) { self.bytes = bytes }
    init(_ text: UnsafePointer<CChar>) {
      bytes = Array(UnsafeRawBufferPointer(start: text, count: strlen(text)))
    }

    /// Absolute, symlinks before the last name resolved. The last one stays: an operation is on the link itself.
    init(_ url: URL) throws(Errno) {
      guard url.isFileURL else { throw .EINVAL }
      guard let path = url.absoluteURL.withUnsafeFileSystemRepresentation({ $0.map { RawPath($0) } }) else {
        throw .EINVAL
      }
      let isPlain = !path.name.isEmpty && path.name != [0x2e] && path.name != [0x2e, 0x2e]
      self = isPlain ? try path.parent.resolved().appending(path.name) : try path.resolved()
    }

    var name: [UInt8] { bytes.split(separator: 0x2f).last.map(Array.init) ?? [] }

    var parent: RawPath {
      let names = bytes.split(separator: 0x2f).dropLast()
      return RawPath(bytes: [0x2f] + Array(names.joined(separator: [0x2f])))
    }

    func appending(_ name: [UInt8]) -> RawPath {
      RawPath(bytes: bytes.last == 0x2f ? bytes + name : bytes + [0x2f] + name)
    }

    /// Whether it is `folder` or lies below it.
    func isWithin(_ folder: RawPath) -> Bool {
      bytes == folder.bytes || bytes.starts(with: folder.bytes.last == 0x2f ? folder.bytes : folder.bytes + [0x2f])
    }

    /// What follows `folder`, without a slash in front.
    func below(_ folder: RawPath) -> [UInt8] { Array(bytes.dropFirst(folder.bytes.count).drop { $0 == 0x2f }) }

    func call<R>(_ body: (UnsafePointer<CChar>) -> R) -> R { body(bytes.map { CChar(bitPattern: $0) } + [0]) }

    func url(isDirectory: Bool) -> URL {
      URL(fileURLWithPath: String(decoding: bytes, as: UTF8.self), isDirectory: isDirectory)
    }
  }

  // System calls, each under its name's meaning; symlinks are never followed.
  extension RawPath {
    func resolved() throws(Errno) -> RawPath {
      guard let text = call({ realpath($0, nil) }) else { throw .current }
      defer { free(text) }
      return RawPath(text)
    }

    func status() throws(Errno) -> stat {
      var info = stat()
      try check(call { lstat($0, &info) })
      return info
    }

    func statusIfThere() throws(Errno) -> stat? {
      do { return try status() } catch {
        if error == .ENOENT { return nil }
        throw error
      }
    }

    func names() throws(Errno) -> [[UInt8]] {
      guard let folder = call({ opendir($0) }) else { throw .current }
      defer { closedir(folder) }
      var names: [[UInt8]] = []
      while true {
        errno = 0
        guard let entry = readdir(folder) else {
          if errno != 0 { throw .current }
          return names
        }
        let name = RawPath(lx_entry_name(entry)).bytes
        if name != [0x2e], name != [0x2e, 0x2e] { names.append(name) }
      }
    }

    func makeFolder(_ mode: mode_t) throws(Errno) { try check(call { mkdir($0, mode) }) }

    /// With those above it that are missing.
    func makeFolders() throws(Errno) {
      if call({ mkdir($0, 0o755) }) == 0 || errno == EEXIST { return }
      let problem = Errno.current
      guard problem == .ENOENT, bytes != [0x2f] else { throw problem }
      try parent.makeFolders()
      try makeFolder(0o755)
    }

    func remove() throws(Errno) { try check(call { unlink($0) }) }
    func removeFolder() throws(Errno) { try check(call { rmdir($0) }) }

    /// Never over something that is there: EEXIST.
    func move(to other: RawPath) throws(Errno) {
      let flags = UInt32(LX_RENAME_NOREPLACE)
      let result = call { from in other.call { lx_renameat2(AT_FDCWD, from, AT_FDCWD, $0, flags) } }
      if result == 0 { return }
      guard Errno.current == .EINVAL else { throw .current }
      // A file system without that flag.
      if try other.statusIfThere() != nil { throw .EEXIST }
      try check(call { from in other.call { rename(from, $0) } })
    }

    func linkTarget() throws(Errno) -> RawPath {
      var room = [UInt8](repeating: 0, count: Int(PATH_MAX))
      let count = call { path in room.withUnsafeMutableBytes { lx_readlink(path, $0.baseAddress, $0.count) } }
      guard count >= 0 else { throw .current }
      return RawPath(bytes: Array(room.prefix(count)))
    }

    func makeLink(to target: RawPath) throws(Errno) { try check(target.call { to in call { symlink(to, $0) } }) }

    /// nil when it has none of that name.
    func attribute(_ name: String) throws(Errno) -> [UInt8]? {
      var room = [UInt8](repeating: 0, count: 65_536)
      let count = call { lgetxattr($0, name, &room, room.count) }
      if count >= 0 { return Array(room.prefix(count)) }
      if [.ENODATA, .EOPNOTSUPP, .EPERM].contains(Errno.current) { return nil }
      throw .current
    }

    /// Those that belong to people and programs.
    func attributeNames() throws(Errno) -> [String] {
      var room = [CChar](repeating: 0, count: 65_536)
      let count = call { llistxattr($0, &room, room.count) }
      if count < 0, Errno.current == .EOPNOTSUPP { return [] }
      guard count >= 0 else { throw .current }
      let names = room.prefix(count).split(separator: 0).map { name in
        String(decoding: name.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      }
      return names.filter { $0.hasPrefix("user.") }
    }

    func setAttribute(_ name: String, _ value: [UInt8]) throws(Errno) {
      try check(call { lsetxattr($0, name, value, value.count, 0) })
    }

    /// The names in it, or its bytes, survive power loss.
    func sync() throws(Errno) { try OpenDescriptor(self, O_RDONLY).sync() }

    func setTimes(of info: stat) throws(Errno) {
      let times = [info.st_atim, info.st_mtim]
      try check(call { utimensat(AT_FDCWD, $0, times, AT_SYMLINK_NOFOLLOW) })
    }
  }

  /// A descriptor, closed with its owner.
  final class OpenDescriptor {
    let number: Int32

    init(_ path: RawPath, _ flags: Int32, mode: mode_t = 0o600) throws(Errno) {
      number = path.call { lx_open($0, flags | O_NOFOLLOW, mode) }
      guard number >= 0 else { throw .current }
    }

    deinit { close(number) }

    func status() throws(Errno) -> stat {
      var info = stat()
      try check(fstat(number, &info))
      return info
    }

    func write(_ bytes: [UInt8]) throws(Errno) {
      var rest = bytes[...]
      while !rest.isEmpty {
        let count = rest.withUnsafeBytes { CLinux.write(number, $0.baseAddress, $0.count) }
        if count < 0, Errno.current == .EINTR { continue }
        guard count > 0 else { throw count == 0 ? .EIO : .current }
        rest = rest.dropFirst(count)
      }
    }

    /// Fewer than `count` bytes only at the end.
    func read(upTo count: Int, at offset: Int64) throws(Errno) -> [UInt8] {
      var bytes = [UInt8](repeating: 0, count: count)
      var filled = 0
      while filled < count {
        let got = bytes.withUnsafeMutableBytes {
          pread(number, $0.baseAddress?.advanced(by: filled), count - filled, off_t(offset) + off_t(filled))
        }
        if got < 0, Errno.current == .EINTR { continue }
        guard got >= 0 else { throw .current }
        if got == 0 { break }
        filled += got
      }
      return Array(bytes.prefix(filled))
    }

    func sync() throws(Errno) { try check(fsync(number)) }
    func setMode(_ mode: mode_t) throws(Errno) { try check(fchmod(number, mode & 0o7777)) }
    func setTimes(of info: stat) throws(Errno) { try check(futimens(number, [info.st_atim, info.st_mtim])) }
  }

  private func check(_ result: Int32) throws(Errno) { if result < 0 { throw .current } }

  extension stat {
    var isFolder: Bool { lx_is_dir(st_mode) != 0 }
    var isFile: Bool { lx_is_reg(st_mode) != 0 }
    var isSymlink: Bool { lx_is_lnk(st_mode) != 0 }

    /// Whether it is the same file and nobody has changed it.
    func isUnchanged(since other: stat) -> Bool {
      func same(_ a: timespec, _ b: timespec) -> Bool { a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec }
      return st_ino == other.st_ino && st_dev == other.st_dev && st_size == other.st_size
        && same(st_mtim, other.st_mtim) && same(st_ctim, other.st_ctim)
    }
  }
#endif
