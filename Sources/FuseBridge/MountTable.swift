import CLinux

/// One line of /proc/self/mountinfo, as far as it matters here.
struct MountedFileSystem: Equatable {
  /// Major and minor number, `0:45`.
  var device: String
  var mountpoint: String
  var type: String

  /// The minor number: FUSE connections are known by it under /sys/fs/fuse/connections.
  var minor: String { String(device.drop { $0 != ":" }.dropFirst()) }

  init?(line: Substring) {
    let fields = line.split(separator: " ")
    guard fields.count > 6, let dash = fields.firstIndex(of: "-"), dash + 1 < fields.count else { return nil }
    device = String(fields[2])
    mountpoint = unescaped(fields[4])
    type = String(fields[dash + 1])
  }

  /// What is mounted on top at `mountpoint`.
  static func at(_ mountpoint: String) -> MountedFileSystem? {
    contents(of: "/proc/self/mountinfo").split(separator: "\n")
      .compactMap(MountedFileSystem.init(line:)).last { $0.mountpoint == mountpoint }
  }
}

/// The kernel writes blanks, newlines and backslashes as three octal digits.
private func unescaped(_ field: Substring) -> String {
  var bytes: [UInt8] = []
  var rest = Array(field.utf8)[...]
  while let byte = rest.popFirst() {
    let digits = String(decoding: rest.prefix(3), as: UTF8.self)
    if byte == UInt8(ascii: "\\"), digits.count == 3, let value = UInt8(digits, radix: 8) {
      bytes.append(value)
      rest = rest.dropFirst(3)
    } else {
      bytes.append(byte)
    }
  }
  return String(decoding: bytes, as: UTF8.self)
}

private func contents(of path: String) -> String {
  let fd = lx_open(path, O_RDONLY, 0)
  guard fd >= 0 else { return "" }
  defer { close(fd) }
  var bytes: [UInt8] = []
  var room = [UInt8](repeating: 0, count: 1 << 16)
  while true {
    let count = read(fd, &room, room.count)
    if count <= 0 { break }
    bytes += room.prefix(count)
  }
  return String(decoding: bytes, as: UTF8.self)
}

/// Writes `text` to one of the kernel's files; whether that worked.
@discardableResult
func tellKernel(_ path: String, _ text: String) -> Bool {
  let fd = lx_open(path, O_WRONLY, 0)
  guard fd >= 0 else { return false }
  defer { close(fd) }
  return text.withCString { write(fd, $0, strlen($0)) } > 0
}
