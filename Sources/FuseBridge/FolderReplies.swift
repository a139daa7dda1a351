import CFuse
import CLinux
import Containers
import DocsEngine
import StorageErrors

/// One answer of readdir or readdirplus, filled entry by entry.
private struct FolderListing: ~Copyable {
  private let room: UnsafeMutableBufferPointer<CChar>
  private let plus: Bool
  private let lifetimes: CacheLifetimes
  private var used = 0
  /// The nodes that count as looked up once the kernel has taken the answer.
  private(set) var lookedUp: [NodeID] = []

  init(size: Int, plus: Bool, _ lifetimes: CacheLifetimes) {
    room = .allocate(capacity: size)
    self.plus = plus
    self.lifetimes = lifetimes
  }

  deinit { room.deallocate() }

  var bytes: UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(room)[..<used])
  }

  /// False when it has no room left.
  mutating func add(_ entry: FolderEntry) -> Bool {
    let rest = UnsafeMutableBufferPointer(rebasing: room[used...])
    let size = withCString(entry.name) { name in
      plus ? fill(plus: rest, name, entry) : fill(rest, name, entry)
    }
    guard size <= rest.count else { return false }
    used += size
    if plus, let node = entry.countedNode { lookedUp.append(node) }
    return true
  }

  private func fill(
    _ rest: UnsafeMutableBufferPointer<CChar>, _ name: UnsafePointer<CChar>, _ entry: FolderEntry
  ) -> Int {
    var status = stat(entry)
    return fuse_add_direntry(nil, rest.baseAddress, rest.count, name, &status, Int(entry.cookie))
  }

  private func fill(
    plus rest: UnsafeMutableBufferPointer<CChar>, _ name: UnsafePointer<CChar>, _ entry: FolderEntry
  ) -> Int {
    var param = fuse_entry_param(entry, lifetimes)
    return fuse_add_direntry_plus(nil, rest.baseAddress, rest.count, name, &param, Int(entry.cookie))
  }
}

extension FolderEntry {
  fileprivate var isDot: Bool { name == [0x2e] || name == [0x2e, 0x2e] }
  /// The node whose lookup count this entry raises. `.` and `..` raise none.
  fileprivate var countedNode: NodeID? { isDot ? nil : entry?.node }
}

extension stat {
  fileprivate init(_ entry: FolderEntry) {
    self.init()
    st_ino = UInt(entry.id.rawValue)
    st_mode = entry.kind.modeBits
  }
}

extension fuse_entry_param {
  /// Node 0 where there is nothing to look up.
  fileprivate init(_ entry: FolderEntry, _ lifetimes: CacheLifetimes) {
    if !entry.isDot, let found = entry.entry {
      self.init(found, lifetimes)
    } else {
      self.init()
      attr = stat(entry)
    }
  }
}

/// A name as C text, on the stack.
private func withCString<R>(_ name: [UInt8], _ body: (UnsafePointer<CChar>) -> R) -> R {
  withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { room in
    let count = min(name.count, 255)
    for i in 0..<count { room[i] = CChar(bitPattern: name[i]) }
    room[count] = 0
    return body(UnsafePointer(room.baseAddress.unsafelyUnwrapped))
  }
}

extension Request {
  func listing(_ handle: FolderHandle, after cookie: UInt64, size: Int, plus: Bool) {
    var listing = FolderListing(size: size, plus: plus, bridge.lifetimes)
    let result = volume.readFolder(handle, after: cookie, plus: plus) { listing.add($0) }
    if case .failure(let error) = result { fail(error) } else if buffer(listing.bytes) { return }
    for node in listing.lookedUp { volume.forget(node, count: 1) }
  }
}
