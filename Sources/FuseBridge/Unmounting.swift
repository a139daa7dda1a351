import CFuse
import CLinux
import Glibc
import StorageErrors

/// How to end a mount.
package enum UnmountManner: Sendable {
  /// Only if nobody uses it.
  case ifUnused
  /// It disappears at once, and ends when the last who uses it has gone.
  case lazy
  /// The connection is cut: who uses it gets ENOTCONN. A user other than root can do that only where the fusectl
  /// file system is mounted; elsewhere it is lazy, and the end of the process cuts the connection.
  case forced
}

extension FuseMount {
  /// Unmounts; `run` returns when the session has ended. Called from a thread that serves no request, while
  /// `run` runs: the kernel asks for answers meanwhile.
  package func stop(_ manner: UnmountManner = .ifUnused) throws(FuseMountError) {
    // Unmounted already by somebody else, or another file system lies on top, which is not ours to remove.
    guard let now = MountedFileSystem.at(mountpoint) else { return }
    guard now.device == mounted.device else {
      throw FuseMountError("\(mountpoint): another file system is mounted on top of it", isBusy: true)
    }
    if manner == .forced { tellKernel("/sys/fs/fuse/connections/\(mounted.minor)/abort", "1") }
    if geteuid() == 0 { try unmountAsRoot(manner) } else { try unmountAsUser(manner) }
  }

  private func unmountAsRoot(_ manner: UnmountManner) throws(FuseMountError) {
    let flags =
      switch manner {
      case .ifUnused: 0
      case .lazy: MNT_DETACH
      case .forced: MNT_DETACH | MNT_FORCE
      }
    guard umount2(mountpoint, Int32(flags)) != 0 else { return }
    let error = Errno.current
    // EINVAL: somebody else was faster.
    guard error != .EINVAL else { return }
    throw FuseMountError("\(mountpoint): \(error)", isBusy: error == .EBUSY)
  }

  /// Only `fusermount3` may unmount for a user.
  private func unmountAsUser(_ manner: UnmountManner) throws(FuseMountError) {
    let (status, printed) = runProgram("fusermount3", manner == .ifUnused ? "-u" : "-uz", "--", mountpoint)
    guard status != 0, MountedFileSystem.at(mountpoint)?.device == mounted.device else { return }
    let reason = printed.split(separator: "\n").joined(separator: "; ")
    throw FuseMountError(
      reason.isEmpty ? "\(mountpoint): fusermount3 failed" : reason, isBusy: reason.contains("busy"))
  }
}

/// Runs a program; its exit status (-1: not run) and what it wrote to standard error.
private func runProgram(_ arguments: String...) -> (status: Int32, printed: String) {
  var ends: [Int32] = [-1, -1]
  guard pipe(&ends) == 0 else { return (-1, "") }
  defer { close(ends[0]) }
  for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
  let pid = spawn(arguments, standardError: ends[1])
  close(ends[1])
  guard pid > 0 else { return (-1, "") }
  var printed: [UInt8] = []
  var room = [UInt8](repeating: 0, count: 1024)
  while case let count = read(ends[0], &room, room.count), count > 0 { printed += room.prefix(count) }
  var status: Int32 = -1
  while waitpid(pid, &status, 0) < 0, Errno.current == .EINTR {}
  return (status, String(decoding: printed, as: UTF8.self))
}

private func spawn(_ arguments: [String], standardError: Int32) -> pid_t {
  var pointers: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) }
  pointers.append(nil)
  defer { for pointer in pointers { free(pointer) } }
  var actions = posix_spawn_file_actions_t()
  posix_spawn_file_actions_init(&actions)
  defer { posix_spawn_file_actions_destroy(&actions) }
  posix_spawn_file_actions_adddup2(&actions, standardError, 2)
  var pid: pid_t = 0
  return posix_spawnp(&pid, arguments[0], &actions, nil, pointers, nil) == 0 ? pid : -1
}
