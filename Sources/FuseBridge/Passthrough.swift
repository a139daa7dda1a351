import CFuse
import CLinux
import Containers
import DocsEngine
import StorageErrors

/// Content files that the kernel reads and writes by itself (FUSE_PASSTHROUGH): which number stands for the file of
/// each open node. All who have a node open must use one number, or none.
final class Passthrough: Sendable {
  private struct Use {
    /// 0: the kernel did not take the file, and the node's reads and writes come to the volume.
    var number: UInt32
    var opens: Int
  }
  private let uses = Guarded<[NodeID: Use]>([:])

  /// After the handshake: has content files lent from now on, if the kernel and the state disk allow it; else says why not.
  func begin(_ bridge: Bridge) -> String? {
    bridge.volume.lendContentFiles { file in
      bridge.handshake.passesThrough
        ? Self.refusal(of: file, bridge.device) : "the kernel has no passthrough (it came with Linux 6.9)"
    }
  }

  private static func refusal(of file: ContentFile, _ device: Int32) -> String? {
    let number = docsfs_backing_open(device, file.fd)
    guard number <= 0 else {
      docsfs_backing_close(device, UInt32(number))
      return nil
    }
    return switch Errno.current {
    case .EPERM: "it needs the privilege CAP_SYS_ADMIN"
    case .ELOOP: "the state directory lies on a stacked file system, such as overlayfs"
    case let error: "the kernel does not take content files: \(error.message.lowercasedFirst)"
    }
  }

  /// One more open of `node`; the number for its answer.
  func use(_ file: ContentFile, for node: NodeID, _ device: Int32) -> UInt32 {
    if let known = uses.withLock({ Self.join(node, &$0) }) { return known }
    let opened = docsfs_backing_open(device, file.fd)
    let number = opened > 0 ? UInt32(opened) : 0
    let (used, isOurs) = uses.withLock { uses in
      if let known = Self.join(node, &uses) { return (known, false) }
      uses[node] = Use(number: number, opens: 1)
      return (number, true)
    }
    if !isOurs, number != 0 { docsfs_backing_close(device, number) }
    return used
  }

  private static func join(_ node: NodeID, _ uses: inout [NodeID: Use]) -> UInt32? {
    guard let known = uses[node] else { return nil }
    uses[node]?.opens += 1
    return known.number
  }

  /// One open less; with the last the kernel forgets the file.
  func end(_ node: NodeID, _ device: Int32) {
    let unused = uses.withLock { uses -> UInt32 in
      guard let use = uses[node] else { return 0 }
      if use.opens > 1 {
        uses[node]?.opens -= 1
        return 0
      }
      uses[node] = nil
      return use.number
    }
    if unused != 0 { docsfs_backing_close(device, unused) }
  }
}

// libfuse 3.14 cannot say "passthrough" in its answers: these are the kernel's own.

/// The answer to CREATE.
struct CreateReply: BitwiseCopyable {
  var entry: fuse_entry_out
  var open: fuse_open_out
}

extension fuse_open_out {
  init(_ open: OpenFile) {
    let flags = DOCSFS_FOPEN_PASSTHROUGH | UInt32(FOPEN_NOFLUSH)
    self.init(fh: open.retainedAddress(), open_flags: flags, padding: open.backing)
  }
}

extension fuse_entry_out {
  init(_ param: fuse_entry_param) {
    self.init()
    nodeid = param.ino
    generation = param.generation
    entry_valid = UInt64(param.entry_timeout)
    attr_valid = UInt64(param.attr_timeout)
    let status = param.attr
    attr.ino = UInt64(status.st_ino)
    attr.size = UInt64(status.st_size)
    attr.blocks = UInt64(status.st_blocks)
    attr.atime = UInt64(bitPattern: Int64(status.st_atim.tv_sec))
    attr.mtime = UInt64(bitPattern: Int64(status.st_mtim.tv_sec))
    attr.ctime = UInt64(bitPattern: Int64(status.st_ctim.tv_sec))
    attr.atimensec = UInt32(status.st_atim.tv_nsec)
    attr.mtimensec = UInt32(status.st_mtim.tv_nsec)
    attr.ctimensec = UInt32(status.st_ctim.tv_nsec)
    attr.mode = status.st_mode
    attr.nlink = UInt32(status.st_nlink)
    attr.uid = status.st_uid
    attr.gid = status.st_gid
    attr.blksize = UInt32(status.st_blksize)
  }
}

func replyBytes<T: BitwiseCopyable>(_ raw: OpaquePointer, _ value: T) -> Int32 {
  withUnsafeBytes(of: value) {
    fuse_reply_buf(raw, $0.baseAddress?.assumingMemoryBound(to: CChar.self), $0.count)
  }
}
