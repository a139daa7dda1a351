import CLinux
import Glibc
import StorageErrors

private let userPrefix = Array("user.".utf8)

/// The `user.` attributes of an open item; nil when they may not be read.
func readXattrs(_ item: borrowing Descriptor) throws(Errno) -> [[UInt8]: [UInt8]]? {
  let link = item.link
  guard let list = try wholeAttribute({ listxattr(link, $0, $1) }) else { return nil }
  if list.isEmpty { return [:] }
  var found: [[UInt8]: [UInt8]] = [:]
  for name in list.split(separator: 0) where name.starts(with: userPrefix) {
    let bytes = Array(name)
    let cName = cName(bytes)
    guard let value = try wholeAttribute({ getxattr(link, cName, $0, $1) }) else { return nil }
    found[bytes] = value
  }
  return found
}

/// Asks with growing room. Empty where there are none, or where one has gone meanwhile; nil when permission
/// lacks.
private func wholeAttribute(_ ask: (UnsafeMutableRawPointer?, Int) -> Int) throws(Errno) -> [UInt8]? {
  var size = 512
  while true {
    var failure: Int32 = 0
    let value = [UInt8](unsafeUninitializedCapacity: size) { room, count in
      let got = ask(UnsafeMutableRawPointer(room.baseAddress), size)
      failure = got < 0 ? errno : 0
      count = max(0, got)
    }
    switch failure {
    case 0: return value
    case ERANGE where size < 1 << 20: size *= 8
    case EOPNOTSUPP, ENODATA, ENOSYS: return []
    case EACCES, EPERM: return nil
    default: throw Errno(rawValue: failure)
    }
  }
}

/// Makes the `user.` attributes of an open item those of `wanted`. A file system without any is left as it
/// is.
func writeXattrs(_ item: borrowing Descriptor, _ wanted: [[UInt8]: [UInt8]]) throws(Errno) {
  let present = try readXattrs(item) ?? [:]
  if present == wanted { return }
  let link = item.link
  for name in present.keys where wanted[name] == nil {
    if removexattr(link, cName(name)) != 0, errno != ENODATA { throw .current }
  }
  for (name, value) in wanted where present[name] != value && name.starts(with: userPrefix) {
    if setxattr(link, cName(name), value, value.count, 0) != 0 {
      if errno == EOPNOTSUPP { return }
      throw .current
    }
  }
}

func writeMode(_ item: borrowing Descriptor, _ mode: UInt32) throws(Errno) {
  try check(chmod(item.link, mode & 0o7777))
}

/// Sets mtime, to now without one; atime stays.
func writeModified(_ item: borrowing Descriptor, _ time: Timestamp?) throws(Errno) {
  var now = timespec()
  clock_gettime(CLOCK_REALTIME, &now)
  let times = [
    timespec(tv_sec: 0, tv_nsec: (1 << 30) - 2),  // UTIME_OMIT
    time.map { timespec(nanoseconds: $0.nanoseconds) } ?? now,
  ]
  try check(utimensat(item.fd, "", times, Int32(LX_AT_EMPTY_PATH)))
}

/// Sets `attributes`, the present mode being `mode`. The owner of a write-protected file may set its mode but
/// not its attributes: it is made writable for that moment. mtime comes last, as nothing may move it on
/// again.
func write(_ attributes: RemoteAttributes, to item: borrowing Descriptor, kind: ItemKind, mode: UInt32)
  throws(Errno)
{
  if kind != .symlink {
    var present = mode
    if let xattrs = attributes.xattrs, try readXattrs(item) != xattrs {
      if mode & 0o200 == 0 {
        present = mode | 0o200
        try writeMode(item, present)
      }
      try writeXattrs(item, xattrs)
    }
    let wanted = attributes.mode.map { $0 & 0o7777 } ?? mode
    if wanted != present { try writeMode(item, wanted) }
  }
  if attributes.mtime != nil { try writeModified(item, attributes.mtime) }
}
