import CLinux
import Foundation

/// /proc/self/mountinfo.
package enum MountTable {
  package struct Mount: Sendable {
    /// `major:minor`; the minor number names a FUSE connection under /sys/fs/fuse/connections.
    package let device: String
    package let path: String
    package let type: String
    package var connection: String { String(device.drop { $0 != ":" }.dropFirst()) }
  }

  package static var all: [Mount] {
    let table = (try? Sys.text("/proc/self/mountinfo")) ?? ""
    return table.split(separator: "\n").compactMap { line in
      let fields = line.split(separator: " ")
      guard let dash = fields.firstIndex(of: "-"), fields.count > dash + 1, fields.count > 4 else {
        return nil
      }
      return Mount(
        device: String(fields[2]), path: unescaped(fields[4]), type: String(fields[dash + 1]))
    }
  }

  package static func mount(at path: String) -> Mount? { all.last { $0.path == path } }
  package static func mounts(below path: String) -> [Mount] {
    all.filter { $0.path == path || $0.path.hasPrefix(path + "/") }
  }

  /// Makes every request of a FUSE mount fail, so that whoever waits for one goes on. Root only.
  package static func abort(_ mount: Mount) {
    guard mount.type.hasPrefix("fuse") else { return }
    try? Sys.put("/sys/fs/fuse/connections/\(mount.connection)/abort", "1")
  }

  /// The kernel writes blanks, tabs, newlines and backslashes as octal.
  private static func unescaped(_ field: Substring) -> String {
    var bytes: [UInt8] = []
    var rest = Array(field.utf8)[...]
    while let first = rest.popFirst() {
      if first == 0x5c, rest.count >= 3,
        let value = UInt8(String(decoding: rest.prefix(3), as: UTF8.self), radix: 8)
      {
        bytes.append(value)
        rest = rest.dropFirst(3)
      } else {
        bytes.append(first)
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// /proc, as far as tests look at it.
package enum Processes {
  /// An environment variable that tells our children, and theirs, from everybody else's processes.
  static let mark = "DOCSFS_TESTED_BY"

  /// The processes below this one, daemons too, whose command line names `path`, with that line. Zombies have none.
  package static func mentioning(_ path: String) -> [(pid: pid_t, command: String)] {
    let pids = ((try? Sys.names("/proc")) ?? []).compactMap { pid_t($0) }.filter { $0 != getpid() }
    return pids.compactMap { pid in
      guard let line = try? Sys.text("/proc/\(pid)/cmdline"), line.contains(path), isOurs(pid) else {
        return nil
      }
      return (pid, line.replacingOccurrences(of: "\0", with: " "))
    }
  }

  private static func isOurs(_ pid: pid_t) -> Bool {
    let variables = ((try? Sys.contents("/proc/\(pid)/environ")) ?? []).split(separator: 0)
    return variables.contains(ArraySlice("\(mark)=\(getpid())".utf8))
  }

  /// The letter ps(1) shows: `D` is a wait that no signal ends.
  package static func state(_ pid: pid_t) -> Character? {
    guard let line = try? Sys.text("/proc/\(pid)/stat"), let end = line.lastIndex(of: ")") else { return nil }
    return line[end...].dropFirst(2).first
  }

  /// Peak resident memory, in bytes.
  package static func peakMemory(_ pid: pid_t) -> Int? {
    guard let table = try? Sys.text("/proc/\(pid)/status"),
      let line = table.split(separator: "\n").first(where: { $0.hasPrefix("VmHWM:") })
    else { return nil }
    return Int(line.filter(\.isNumber)).map { $0 * 1024 }
  }
}
