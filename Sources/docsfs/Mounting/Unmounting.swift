import CLinux
import Containers
import StorageErrors

/// umount(2) for root, fusermount3 for others.
enum Unmounting {
  /// EBUSY while something is open. `lazily`: it vanishes at once, and ends with the last user.
  static func unmount(_ mountpoint: FilePath, lazily: Bool) throws(Failure) {
    if mountpoint.call({ lx_umount($0, lazily ? 1 : 0) }) == 0 { return }
    let problem = Errno.current
    if problem == .EBUSY { throw busy(mountpoint) }
    guard problem == .EPERM else { throw Failure("cannot unmount", mountpoint, problem) }
    try unmountAsUser(mountpoint, lazily)
  }

  /// Cuts the connection to the daemon: who uses the mount, or hangs in it, gets ENOTCONN.
  static func abort(_ mount: MountEntry) {
    let number = mount.device.drop { $0 != ":" }.dropFirst()
    let control = FilePath("/sys/fs/fuse/connections/\(number)/abort")
    let descriptor = control.call { lx_open($0, O_WRONLY, 0) }
    guard descriptor >= 0 else { return }
    _ = writeAll([UInt8(ascii: "1")], to: descriptor)
    close(descriptor)
  }

  private static func unmountAsUser(_ mountpoint: FilePath, _ lazily: Bool) throws(Failure) {
    let arguments = ["fusermount3", lazily ? "-uz" : "-u", "--"].map { Array($0.utf8) } + [mountpoint.bytes]
    let (status, text) = try Spawn.capturingErrors(arguments)
    if status == 0 { return }
    if text.contains("busy") { throw busy(mountpoint) }
    throw Failure(
      "cannot unmount \(mountpoint): " + (text.isEmpty ? "fusermount3 failed with \(status)" : oneLine(text)))
  }

  private static func busy(_ mountpoint: FilePath) -> Failure {
    let holders = MountHolders.find(mountpoint)
    let who =
      holders.isEmpty
      ? "something holds it open"
      : "in use by " + holders.prefix(5).map(\.description).joined(separator: ", ")
    let more = holders.count > 5 ? " and \(holders.count - 5) more" : ""
    return Failure(
      "\(mountpoint) is busy: \(who)\(more); close that, or unmount with --force", ExitCode.tryAgain)
  }

  /// Takes the remains of a daemon that died away. What users had open answers ENOTCONN already.
  static func clearStale(_ mount: MountEntry) throws(Failure) {
    try unmount(mount.mountpoint, lazily: true)
  }
}

/// A process that holds something below a mountpoint.
struct MountHolder: Equatable, CustomStringConvertible {
  var pid: Int32
  var command: String
  var what: String

  var description: String { "\(command) (process \(pid), \(what))" }
}

/// Found in /proc, without a call that the mount would have to answer.
enum MountHolders {
  private struct Search {
    var found: [MountHolder] = []
    var isDone = false
  }

  /// Those found within three seconds: the maps of a process that hangs in a page fault cannot be read until that ends.
  static func find(_ mountpoint: FilePath) -> [MountHolder] {
    let search = Guarded(Search())
    let isRunning = startDetached("holders") {
      let names = (try? FilePath("/proc").entries()) ?? []
      var pids = names.compactMap { Int32(String(decoding: $0, as: UTF8.self)) }.sorted()
      // What never hangs first, for all of them.
      for look in [use, map] {
        pids.removeAll { pid in
          let folder = FilePath("/proc/\(pid)")
          guard let what = look(folder, mountpoint) else { return false }
          search.withLock { $0.found.append(holder(pid, folder, what)) }
          return true
        }
      }
      search.signal { $0.isDone = true }
    }
    if isRunning { search.wait(until: Clock.now() + 3_000_000_000) { $0.isDone } }
    return search.withLock { $0.found }.sorted { $0.pid < $1.pid }
  }

  private static func holder(_ pid: Int32, _ folder: FilePath, _ what: String) -> MountHolder {
    let command = (try? folder.appending("comm").contents()) ?? []
    return MountHolder(
      pid: pid, command: oneLine(String(decoding: command.dropLast(), as: UTF8.self)), what: what)
  }

  private static func use(_ process: FilePath, _ mountpoint: FilePath) -> String? {
    func isInside(_ link: FilePath) -> Bool { link.linkTarget?.isWithin(mountpoint) == true }
    if isInside(process.appending("cwd")) { return "working directory" }
    let files = process.appending("fd")
    for name in (try? files.entries()) ?? [] {
      if let target = files.appending(name).linkTarget, target.isWithin(mountpoint) {
        return "has \(FilePath(target.lastName)) open"
      }
    }
    if isInside(process.appending("root")) { return "root directory" }
    return nil
  }

  private static func map(_ process: FilePath, _ mountpoint: FilePath) -> String? {
    if process.appending("exe").linkTarget?.isWithin(mountpoint) == true { return "runs from it" }
    return isMapped(process, mountpoint) ? "maps a file of it" : nil
  }

  private static func isMapped(_ process: FilePath, _ mountpoint: FilePath) -> Bool {
    let lines = ((try? process.appending("maps").contents()) ?? []).split(separator: 0x0a)
    return lines.contains { line in
      guard let start = line.firstIndex(of: 0x2f) else { return false }
      return FilePath(line[start...]).isWithin(mountpoint)
    }
  }
}
