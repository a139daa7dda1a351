import CLinux
import Glibc
import StorageErrors

/// An open descriptor, closed at the end of its owner's scope.
struct Descriptor: ~Copyable, Sendable {
  let fd: Int32

  /// Takes over what an open call returned; throws that call's errno if it failed.
  init(_ fd: Int32) throws(Errno) {
    guard fd >= 0 else { throw .current }
    self.fd = fd
  }

  deinit { close(fd) }

  /// The open object's name for calls that take no descriptor, or none that was opened with O_PATH.
  var link: [CChar] { cName(Array("/proc/self/fd/\(fd)".utf8)) }

  /// The same object opened anew, such as an O_PATH descriptor for reading: no other file can slip in.
  func reopened(_ flags: Int32) throws(Errno) -> Descriptor {
    try Descriptor(lx_open(link, flags, 0))
  }

  /// The entry `name` of this folder itself, opened for nothing but asking; nil when there is none.
  func entry(_ name: [CChar]) throws(Errno) -> Descriptor? {
    let fd = lx_openat(self.fd, name, Int32(LX_O_PATH) | O_NOFOLLOW, 0)
    if fd < 0, errno == ENOENT { return nil }
    return try Descriptor(fd)
  }

  /// Makes the names in this folder safe against power loss. A folder that may not be read cannot be asked
  /// to.
  func syncNames() throws(Errno) {
    let flags = O_RDONLY | O_DIRECTORY
    let open = lx_openat(fd, ".", flags, 0)
    if open < 0, errno == EACCES { return }
    let readable = try Descriptor(open)
    // EINVAL: a file system that has no such thing.
    if fsync(readable.fd) != 0, errno != EINVAL { throw .current }
  }
}

/// Opens a folder for nothing but asking, and for what lies in it; no permission to read it is needed.
let folderPath = Int32(LX_O_PATH) | O_DIRECTORY

/// The bytes of a name or path as C takes them.
func cName(_ bytes: [UInt8]) -> [CChar] {
  var name = bytes.map { CChar(bitPattern: $0) }
  name.append(0)
  return name
}

/// A name that nobody else has chosen: 16 hex digits.
func freshName() -> String {
  let text = String(UInt64.random(in: .min ... .max), radix: 16)
  return String(repeating: "0", count: 16 - text.count) + text
}

/// Opens the folder `names` below `folder`, following no symlink. Longer paths than the kernel takes go in
/// parts.
func openFolder(_ names: [ItemName], below folder: borrowing Descriptor, flags: Int32) throws(Errno)
  -> Descriptor
{
  var at = try Descriptor(lx_openat(folder.fd, ".", names.isEmpty ? flags : folderPath, 0))
  var rest = names[...]
  while !rest.isEmpty {
    var part: [UInt8] = []
    while let name = rest.first, part.count + name.bytes.count < 4_000 {
      if !part.isEmpty { part.append(0x2f) }
      part += name.bytes
      rest.removeFirst()
    }
    at = try Descriptor(lx_open_beneath(at.fd, cName(part), rest.isEmpty ? flags : folderPath, 0))
  }
  return at
}
