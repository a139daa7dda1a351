import CFuse
import CLinux
import Containers
import DocsEngine
import StorageErrors

/// Programs copy in pieces of st_blksize: 256 KiB makes cp and FileManager fast (4 KiB: 83 MB/s), and is one
/// readahead window, so that a copy of a placeholder still shows progress and stops soon.
private let preferredTransfer = 256 * 1024

extension ItemKind {
  var modeBits: UInt32 {
    switch self {
    case .file: UInt32(S_IFREG)
    case .folder: UInt32(S_IFDIR)
    case .symlink: UInt32(S_IFLNK)
    }
  }
}

extension timespec {
  init(_ time: Timestamp) {
    let (seconds, rest) = time.nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
    self.init(
      tv_sec: Int(rest < 0 ? seconds - 1 : seconds), tv_nsec: Int(rest < 0 ? rest + 1_000_000_000 : rest))
  }
}

extension Timestamp {
  /// Clamped to the years that it covers.
  init(_ time: timespec) {
    let (product, overflow) = Int64(time.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
    let (sum, carry) = product.addingReportingOverflow(Int64(time.tv_nsec))
    self.init(nanoseconds: overflow || carry ? (time.tv_sec < 0 ? .min : .max) : sum)
  }
}

extension stat {
  init(_ attributes: Attributes) {
    self.init()
    st_ino = UInt(attributes.id.rawValue)
    st_mode = attributes.kind.modeBits | (attributes.mode & 0o7777)
    st_nlink = UInt(attributes.links)
    st_uid = attributes.uid
    st_gid = attributes.gid
    st_size = Int(attributes.size)
    st_blocks = Int(attributes.blocks)
    st_blksize = preferredTransfer
    st_atim = timespec(attributes.accessed)
    st_mtim = timespec(attributes.modified)
    st_ctim = timespec(attributes.changed)
  }
}

extension fuse_entry_param {
  init(_ entry: Entry, _ lifetimes: CacheLifetimes) {
    self.init()
    ino = entry.node.rawValue
    attr = stat(entry.attributes)
    attr_timeout = lifetimes.attributes
    entry_timeout = lifetimes.entry
  }

  /// "No such name", for the kernel to remember.
  static func negative(_ lifetimes: CacheLifetimes) -> fuse_entry_param {
    var param = fuse_entry_param()
    param.entry_timeout = lifetimes.negative
    return param
  }
}

extension statvfs {
  init(_ statistics: VolumeStatistics) {
    self.init()
    f_bsize = UInt(statistics.blockSize)
    f_frsize = UInt(statistics.blockSize)
    f_blocks = UInt(statistics.blocks)
    f_bfree = UInt(statistics.free)
    f_bavail = UInt(statistics.free)
    f_files = UInt(statistics.files)
    f_ffree = UInt(statistics.filesFree)
    f_favail = UInt(statistics.filesFree)
    f_namemax = 255
  }
}

extension Errno {
  /// What may go to the kernel. It drops an answer of 512 and more, so that the caller hangs, and takes ENOSYS
  /// for "never ask again".
  var wireValue: Int32 {
    switch rawValue {
    case ENOSYS: CLinux.EOPNOTSUPP
    case 1...511: rawValue
    default: CLinux.EIO
    }
  }
}

// MARK: Decoding

extension ItemName {
  init(cString: UnsafePointer<CChar>?) throws(Errno) {
    try self.init(byteString(cString))
  }
}

func byteString(_ cString: UnsafePointer<CChar>?) -> [UInt8] {
  guard let cString else { return [] }
  return Array(UnsafeRawBufferPointer(start: cString, count: strlen(cString)))
}

extension OpenMode {
  init(flags: Int32) {
    let access = flags & O_ACCMODE
    self.init(reads: access != O_WRONLY, writes: access != O_RDONLY, truncates: flags & O_TRUNC != 0)
  }
}

extension AttributeChange {
  init(_ wanted: stat, which: Int32) {
    self.init()
    if which & FUSE_SET_ATTR_MODE != 0 { mode = wanted.st_mode & 0o7777 }
    if which & FUSE_SET_ATTR_UID != 0 { uid = wanted.st_uid }
    if which & FUSE_SET_ATTR_GID != 0 { gid = wanted.st_gid }
    if which & FUSE_SET_ATTR_SIZE != 0 { size = Int64(wanted.st_size) }
    if which & FUSE_SET_ATTR_ATIME != 0 { accessed = .at(Timestamp(wanted.st_atim)) }
    if which & FUSE_SET_ATTR_MTIME != 0 { modified = .at(Timestamp(wanted.st_mtim)) }
    if which & FUSE_SET_ATTR_ATIME_NOW != 0 { accessed = .now }
    if which & FUSE_SET_ATTR_MTIME_NOW != 0 { modified = .now }
  }
}
