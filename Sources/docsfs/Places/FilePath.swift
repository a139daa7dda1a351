import CLinux
import StorageErrors

/// A path as the system knows it: bytes, not text.
struct FilePath: Hashable, Sendable {
  let bytes: [UInt8]

  init(_ bytes: some Sequence<UInt8>) { self.bytes = bytes.prefix { $0 != 0 } }
  init(_ text: String) { self.init(text.utf8) }

  var isAbsolute: Bool { bytes.first == 0x2f }

  /// Its names, without empty ones.
  var names: [[UInt8]] { bytes.split(separator: 0x2f).map(Array.init) }

  static func absolute(_ names: some Sequence<[UInt8]>) -> FilePath {
    let joined = Array(names.joined(separator: [0x2f]))
    return FilePath([0x2f] + joined)
  }

  var parent: FilePath { .absolute(names.dropLast()) }
  var lastName: [UInt8] { names.last ?? [] }

  func appending(_ name: some Sequence<UInt8>) -> FilePath {
    FilePath(bytes.last == 0x2f ? bytes + Array(name) : bytes + [0x2f] + Array(name))
  }
  func appending(_ name: String) -> FilePath { appending(Array(name.utf8)) }

  /// Whether it is `other` or lies below it; both absolute and resolved.
  func isWithin(_ other: FilePath) -> Bool { names.starts(with: other.names) }

  /// nil when the bytes are no UTF-8.
  var string: String? { String(validating: bytes, as: UTF8.self) }

  /// For what takes text only; the same bytes when they are UTF-8.
  var text: String { String(decoding: bytes, as: UTF8.self) }

  /// As a C string, valid while `body` runs.
  func call<R>(_ body: (UnsafePointer<CChar>) -> R) -> R { body(bytes.map { CChar(bitPattern: $0) } + [0]) }
}

extension FilePath: CustomStringConvertible {
  /// For people: one line, replacement characters for what is no UTF-8.
  var description: String { bytes.isEmpty ? "\"\"" : oneLine(String(decoding: bytes, as: UTF8.self)) }
}

extension FilePath {
  static var workingDirectory: FilePath {
    guard let text = getcwd(nil, 0) else { return FilePath("/") }
    defer { free(text) }
    return FilePath(bytes(of: text))
  }

  /// Made absolute from the working directory; `.`, `..` and symlinks stay as they are.
  var madeAbsolute: FilePath { isAbsolute ? self : FilePath.workingDirectory.appending(bytes) }

  /// realpath(3).
  func resolved() throws(Errno) -> FilePath {
    guard let text = call({ realpath($0, nil) }) else { throw .current }
    defer { free(text) }
    return FilePath(Self.bytes(of: text))
  }

  func status(followingLink: Bool = true) throws(Errno) -> stat {
    var result = stat()
    guard call({ followingLink ? stat($0, &result) : lstat($0, &result) }) == 0 else { throw .current }
    return result
  }

  var exists: Bool { (try? status(followingLink: false)) != nil }

  /// nil when it is no symlink.
  var linkTarget: FilePath? {
    var room = [UInt8](repeating: 0, count: Int(PATH_MAX))
    let count = call { path in
      room.withUnsafeMutableBytes { lx_readlink(path, $0.baseAddress, $0.count) }
    }
    return count < 0 ? nil : FilePath(room.prefix(count))
  }

  /// The names in the folder, `.` and `..` left out.
  func entries() throws(Errno) -> [[UInt8]] {
    guard let folder = call({ opendir($0) }) else { throw .current }
    defer { closedir(folder) }
    var names: [[UInt8]] = []
    while let entry = readdir(folder) {
      let name = withUnsafeBytes(of: &entry.pointee.d_name) { Array($0.prefix { $0 != 0 }) }
      if name != [0x2e], name != [0x2e, 0x2e] { names.append(name) }
    }
    return names
  }

  /// All bytes of a small file, /proc included.
  func contents() throws(Errno) -> [UInt8] {
    let descriptor = call { lx_open($0, O_RDONLY, 0) }
    guard descriptor >= 0 else { throw .current }
    defer { close(descriptor) }
    var all: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = piece.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
      if count < 0 { throw .current }
      if count == 0 { return all }
      all += piece.prefix(count)
    }
  }

  private static func bytes(of text: UnsafeMutablePointer<CChar>) -> [UInt8] {
    Array(UnsafeRawBufferPointer(start: text, count: strlen(text)))
  }
}
