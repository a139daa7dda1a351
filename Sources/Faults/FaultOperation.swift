/// What a rule can match: the calls of a mount that answer somebody. `release` and `forget` answer nobody.
package enum FaultOperation: String, CaseIterable, Sendable {
  case lookup, getattr, chmod, chown, truncate, utimens, readlink
  case mknod, mkdir, symlink, link, unlink, rmdir, rename
  case open, create, read, write, flush, fsync, fallocate, lseek, copy_file_range
  case opendir, readdir, fsyncdir, statfs
  case getxattr, setxattr, listxattr, removexattr

  /// Its place in `allCases`: a case without payload is one byte that counts from 0. Once for each request, so not a search.
  package var index: Int { Int(unsafeBitCast(self, to: UInt8.self)) }
}

/// A set of operations; a bit each, so that a call is compared with a rule in one step.
package struct FaultOperations: OptionSet, Hashable, Sendable {
  package let rawValue: UInt64
  package init(rawValue: UInt64) { self.rawValue = rawValue }
  package init(_ operation: FaultOperation) { rawValue = Self.bits[operation] ?? 0 }
  package init(_ operations: some Sequence<FaultOperation>) {
    self = operations.reduce(into: []) { $0.formUnion(Self($1)) }
  }

  package func contains(_ operation: FaultOperation) -> Bool { !isDisjoint(with: Self(operation)) }

  /// In the order of `FaultOperation`.
  package var list: [FaultOperation] { FaultOperation.allCases.filter(contains) }

  private static let bits = Dictionary(
    uniqueKeysWithValues: FaultOperation.allCases.enumerated().map { ($1, UInt64(1) << UInt64($0)) })

  package static let all = FaultOperations(FaultOperation.allCases)
  /// Whose `length` counts bytes.
  package static let moving: FaultOperations = FaultOperations([.read, .write, .copy_file_range])
  /// Which know an offset in the file.
  package static let placed = FaultOperations([.read, .write, .fallocate, .lseek, .copy_file_range, .truncate])
  /// Which may come with a handle.
  package static let handled = FaultOperations([
    .getattr, .chmod, .chown, .truncate, .utimens, .read, .write, .flush, .fsync, .fallocate, .lseek, .copy_file_range,
    .readdir, .fsyncdir,
  ])
}

/// A word of `op=` that stands for several operations.
package struct FaultOperationGroup: Sendable {
  package let name: String
  package let operations: FaultOperations
  package let help: String

  private static let data = FaultOperations([
    .open, .read, .write, .truncate, .flush, .fsync, .fallocate, .lseek, .copy_file_range,
  ])
  package static let all: [FaultOperationGroup] = [
    FaultOperationGroup(name: "*", operations: .all, help: "every operation"),
    FaultOperationGroup(
      name: "data", operations: data, help: "what opens, reads, changes and saves the bytes of a file"),
    FaultOperationGroup(
      name: "metadata", operations: FaultOperations.all.subtracting(data), help: "every operation that is not data"),
    FaultOperationGroup(
      name: "stat", operations: FaultOperations([.lookup, .getattr]), help: "what stat(2) and a path's names come to"),
    FaultOperationGroup(
      name: "namespace",
      operations: FaultOperations([.create, .mkdir, .mknod, .symlink, .link, .unlink, .rmdir, .rename]),
      help: "what makes, moves and removes names"),
  ]
}

extension FaultOperation {
  /// One line for `--help` and docs.
  package var help: String {
    switch self {
    case .lookup: "a name is looked for in a folder"
    case .getattr: "stat(2), fstat(2)"
    case .chmod: "mode bits are set"
    case .chown: "owner or group are set"
    case .truncate: "truncate(2), ftruncate(2), and O_TRUNC"
    case .utimens: "times are set"
    case .readlink: "a symlink's target is read"
    case .mknod: "mknod(2): FIFOs, devices, and files without O_CREAT"
    case .mkdir: "a folder is made"
    case .symlink: "a symlink is made"
    case .link: "a hard link is made"
    case .unlink: "a file or symlink is removed"
    case .rmdir: "a folder is removed"
    case .rename: "rename(2); path= matches either name"
    case .open: "a file that exists is opened"
    case .create: "a file is made and opened"
    case .read: "bytes are read"
    case .write: "bytes are written"
    case .flush: "close(2), once for each descriptor"
    case .fsync: "fsync(2), fdatasync(2) of a file"
    case .fallocate: "room is reserved, or a hole is made"
    case .lseek: "SEEK_DATA and SEEK_HOLE"
    case .copy_file_range: "copy_file_range(2) inside the mount"
    case .opendir: "a folder is opened"
    case .readdir: "a folder's entries are read"
    case .fsyncdir: "fsync(2) of a folder"
    case .statfs: "statfs(2): df"
    case .getxattr: "an extended attribute is read"
    case .setxattr: "an extended attribute is set"
    case .listxattr: "the names of extended attributes are listed"
    case .removexattr: "an extended attribute is removed"
    }
  }
}
