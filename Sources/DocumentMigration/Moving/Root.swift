import Foundation
import StorageErrors

/// One of the two trees. It is known again: when a mount goes away, its path leads to the empty folder below it, and what
/// is put there would not be where it was asked for.
struct Root: Sendable {
  let path: DocumentPath
  let device: UInt64
  let placeholders: Placeholders
  let eviction: Eviction
  private let inode: UInt64
  /// Its type.
  let fileSystem: UInt64

  init(_ path: DocumentPath) throws(Errno) {
    self.path = path
    let status = try POSIX.status(path)
    device = status.device
    inode = status.inode
    fileSystem = try POSIX.fileSystemType(path)
    placeholders = Placeholders(path)
    eviction = Eviction(path)
  }

  subscript(_ relative: DocumentPath) -> DocumentPath { path.appending(relative) }

  /// Throws when it is not what it was. Mounted anew it has another device number, but its own inode number.
  func check(_ side: StepFailure.Side) throws(StepFailure) {
    let now: FileStatus
    do throws(Errno) { now = try POSIX.status(path) } catch {
      if error == .ENOENT || error == .ENOTDIR { throw .gone(side, path) }
      throw .system(error, side, verb: "look at", path)
    }
    let type = try attempt(side, "look at", path) { () throws(Errno) in
      now.device == device ? fileSystem : try POSIX.fileSystemType(path)
    }
    guard now.inode == inode, type == fileSystem else { throw .gone(side, path) }
  }
}
