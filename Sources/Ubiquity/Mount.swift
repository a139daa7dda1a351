#if os(Linux)
  import CLinux
  import Foundation
  import StorageErrors

  /// A docsfs mount, as the kernel's table shows it.
  struct Mount: Equatable, Sendable {
    var mountpoint: RawPath
    /// Its state directory, which there is one of for each container.
    var source: RawPath
    /// Who started its daemon.
    var owner: uid_t?

    /// All there are; of several on one mountpoint the topmost.
    static var all: [Mount] {
      guard let table = setmntent("/proc/self/mounts", "re") else { return [] }
      defer { endmntent(table) }
      var found: [RawPath: Mount?] = [:]
      var order: [RawPath] = []
      var entry = mntent()
      var room = [CChar](repeating: 0, count: 16_384)
      while getmntent_r(table, &entry, &room, Int32(room.count)) != nil {
        let mountpoint = RawPath(entry.mnt_dir)
        if found[mountpoint] == nil { order.append(mountpoint) }
        // Something else that covers it is none.
        found[mountpoint] = .some(Mount(entry, mountpoint))
      }
      return order.compactMap { found[$0] ?? nil }
    }

    private init?(_ entry: mntent, _ mountpoint: RawPath) {
      guard String(cString: entry.mnt_type) == "fuse.docsfs" else { return nil }
      self.mountpoint = mountpoint
      source = RawPath(entry.mnt_fsname)
      owner =
        String(cString: entry.mnt_opts).split(separator: ",").lazy.compactMap { option in
          option.hasPrefix("user_id=") ? uid_t(option.dropFirst("user_id=".count)) : nil
        }.first
    }

    /// The mount in which `path` lies: an absolute path without symlinks before its last name.
    static func holding(_ path: RawPath) -> Mount? {
      all.filter { path.isWithin($0.mountpoint) }.max { $0.mountpoint.bytes.count < $1.mountpoint.bytes.count }
    }

    /// Whether its daemon is there. Its socket tells, because a mount can be made to hang; the mount itself is asked only
    /// where the socket is not for us. The kernel answers for a dead one what it remembers, but no attribute of this kind.
    var isAlive: Bool {
      switch connectError {
      case nil: true
      case .EACCES?, .EPERM?: mountpoint.docsfs("state") != nil
      default: false
      }
    }

    /// Of its control socket, which is let go at once.
    private var connectError: Errno? {
      let folder: OpenDescriptor
      do throws(Errno) { folder = try OpenDescriptor(source, O_RDONLY | O_DIRECTORY) } catch { return error }
      let socket = lx_unix_socket()
      guard socket >= 0 else { return .current }
      defer { close(socket) }
      var address = sockaddr_un()
      guard lx_unix_address(&address, folder.number, "control.sock") == 0 else { return .ENAMETOOLONG }
      return lx_connect(socket, &address) == 0 ? nil : .current
    }

    /// Writes one command to the mount's control file. Throws what the command failed with.
    func command(_ verb: String, _ path: RawPath, isFolder: Bool) throws(Errno) {
      let line = "\(verb) \(Self.quoted(path.below(mountpoint)))" + (isFolder ? " recursive=1\n" : "\n")
      let control = mountpoint.appending(Array(".docsfs/control".utf8))
      let descriptor = try OpenDescriptor(control, O_WRONLY)
      try descriptor.write(Array(line.utf8))
    }

    /// Why the last command failed: one line.
    var lastError: String? {
      let path = mountpoint.appending(Array(".docsfs/error".utf8))
      guard let descriptor = try? OpenDescriptor(path, O_RDONLY),
        let bytes = try? descriptor.read(upTo: 4096, at: 0), !bytes.isEmpty
      else { return nil }
      let text = String(decoding: bytes, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
      // Where in the command, which is ours.
      return text.firstMatch(of: #/^[0-9]+:[0-9]+: /#).map { String(text[$0.range.upperBound...]) } ?? text
    }

    /// As the control grammar reads it back.
    private static func quoted(_ bytes: [UInt8]) -> String {
      let inner = bytes.map { byte -> String in
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): "\\" + String(UnicodeScalar(byte))
        case 0x20..<0x7f: String(UnicodeScalar(byte))
        default: "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
      }
      return "\"" + inner.joined() + "\""
    }
  }
#endif
