import CLinux
import Glibc
import StorageErrors

/// A small ext4 of its own, that can be filled, made read-only, taken away, and lose its power. Root only.
package final class LoopDisk: Sendable {
  package let path: String
  private let image: String
  private let options: String

  /// `options` are ext4's. `commit=300` keeps it from writing out on its own what nobody has synced.
  package init(_ name: String, in home: String, megabytes: Int, options: String = "commit=300") throws {
    path = home + "/" + name
    image = path + ".img"
    self.options = options
    try Sys.makeFolders(path)
    try Shell.must("truncate -s \(megabytes)M '\(image)' && mkfs.ext4 -q -F -m 0 '\(image)'")
    try attach()
  }

  package var isMounted: Bool { MountTable.mount(at: path) != nil }

  package func attach() throws { try Shell.must("mount -o loop,\(options) '\(image)' '\(path)'") }
  package func detach() throws { try Shell.must("umount '\(path)'") }
  package func setReadOnly(_ readOnly: Bool) throws {
    try Shell.must("mount -o remount,\(readOnly ? "ro" : "rw") '\(path)'")
  }

  /// Takes all room but `leaving` bytes.
  package func fill(leaving: Int64 = 0) throws {
    let room = try Sys.volumeInfo(path)
    let file = try OpenFile(path + "/.filler", O_WRONLY | O_CREAT)
    let wanted = Int64(room.f_bavail) * Int64(room.f_frsize) - leaving
    if wanted > 0 { try? file.allocate(mode: 0, offset: 0, length: wanted) }
    guard leaving == 0 else { return }
    var offset = try file.info().st_size
    let block = [UInt8](repeating: 0x2a, count: 4096)
    while let count = try? file.write(block, at: Int64(offset)), count > 0 { offset += count }
  }
  package func empty() throws { try Sys.remove(path + "/.filler") }

  /// From now on nothing reaches the disk, not even what the journal holds in memory.
  package func losePower() throws(Errno) {
    let folder = try OpenFile(path, O_RDONLY)
    var withoutLogFlush: UInt32 = 2
    let shutdown: UInt = 0x8004_587D  // EXT4_IOC_SHUTDOWN = _IOR('X', 125, __u32)
    try Sys.check(ioctl(folder.fd, shutdown, &withoutLogFlush))
  }
  /// As after a start of the machine.
  package func powerUp() throws {
    try detach()
    try attach()
  }

  /// Away with it, whatever is still open on it.
  package func discard() {
    for _ in 0..<4 where isMounted {
      if lx_umount(path, 0) != 0 { lx_umount(path, 1) }
    }
    try? Sys.remove(image)
  }
}
