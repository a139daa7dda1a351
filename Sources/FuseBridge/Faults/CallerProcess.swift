import CLinux
import Glibc

/// A process and its program.
struct CallerIdentity: Sendable {
  /// 0: unknown.
  var pid: Int32
  /// The absolute path, a script's interpreter; empty: unknown.
  var executable: [UInt8]
}

/// What /proc tells of the thread that made a request. It may have gone: then there is nothing.
///
/// Not for FLUSH: execve(2) closes files while it holds the lock that reading `exe` and `syscall` waits for (Linux 6.18:
/// `exec_update_lock`), and both would wait for ever. Who opened the file stands for its caller.
struct CallerProcess {
  /// The kernel names a thread; 0: none of this pid namespace.
  let thread: Int32

  var identity: CallerIdentity { CallerIdentity(pid: pid, executable: executable) }

  /// The process that the thread belongs to; 0: unknown.
  var pid: Int32 {
    guard thread > 0 else { return 0 }
    let line = text("status").split(separator: "\n").first { $0.hasPrefix("Tgid:") }
    return line.flatMap { Int32($0.dropFirst(5).trimmingPrefix { $0 == "\t" || $0 == " " }) } ?? 0
  }

  private var executable: [UInt8] {
    guard thread > 0 else { return [] }
    var room = [UInt8](repeating: 0, count: 4096)
    let count = lx_readlink("/proc/\(thread)/exe", &room, room.count)
    return count > 0 ? Array(room[..<count]) : []
  }

  /// The system call that it is in; nil when that cannot be known, as for a thread that may not be traced.
  var systemCall: SystemCall? {
    guard thread > 0 else { return nil }
    let words = text("syscall").split(separator: " ")
    guard words.count > 6, let number = Int(words[0]) else { return nil }
    return SystemCall(number: number, arguments: words[1...6].map { UInt($0.dropFirst(2), radix: 16) ?? 0 })
  }

  private func text(_ file: String) -> String {
    let fd = lx_open("/proc/\(thread)/\(file)", O_RDONLY, 0)
    guard fd >= 0 else { return "" }
    defer { close(fd) }
    var room = [UInt8](repeating: 0, count: 2048)
    let count = read(fd, &room, room.count)
    return count > 0 ? String(decoding: room[..<count], as: UTF8.self) : ""
  }
}

struct SystemCall {
  let number: Int
  /// Six.
  let arguments: [UInt]

  /// stat(2) and its kin. Others ask for attributes in passing, and hide how that went.
  var asksAttributes: Bool { lx_call_asks_attributes(number) != 0 }
  /// The kernel tries a call that follows a path again when it gets ESTALE; one on an open file it does not.
  var isByDescriptor: Bool { lx_call_is_by_descriptor(number, arguments) != 0 }
}
