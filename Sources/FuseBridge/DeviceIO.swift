import CFuse
import Glibc
import Synchronization

/// What libfuse 3.14 does not negotiate by itself, and this server can: lookups in one folder side by side, and
/// clearing setuid and setgid itself, so that the kernel does not ask for `security.capability` before each write.
private let amendedFlags = UInt32(FUSE_PARALLEL_DIROPS) | UInt32(FUSE_HANDLE_KILLPRIV_V2) | UInt32(FUSE_INIT_EXT)
/// In `flags2`. FUSE_DIRECT_IO_ALLOW_MMAP (Linux 6.6): files that are opened past the page cache can be mapped all the
/// same.
private let amendedFlags2: UInt32 = 1 << (36 - 32)
/// In `flags2` too: the kernel reads and writes files by itself that are named to it (Linux 6.9).
private let passthroughFlag2: UInt32 = 1 << (37 - 32)
/// The protocol's minor version with FUSE_NOTIFY_INC_EPOCH.
private let minorWithEpochs: UInt32 = 44

/// The answer to INIT on its way to the kernel.
final class Handshake: Sendable {
  /// What the kernel offers, taken from its INIT.
  private let offered = Atomic<UInt32>(0)
  private let offered2 = Atomic<UInt32>(0)
  private let minor = Atomic<UInt32>(0)
  /// What was added to the answer.
  private let added = Atomic<UInt32>(0)
  private let isOver = Atomic<Bool>(false)
  private let asksPassthrough: Bool

  init(asksPassthrough: Bool) { self.asksPassthrough = asksPassthrough }

  /// Whether the kernel has been asked for passthrough, and offers it.
  var passesThrough: Bool { asksPassthrough && offered2.load(ordering: .relaxed) & passthroughFlag2 != 0 }

  /// Whether the kernel leaves it to this server to clear setuid and setgid.
  var clearsSetID: Bool { added.load(ordering: .relaxed) & UInt32(FUSE_HANDLE_KILLPRIV_V2) != 0 }

  /// Whether the kernel can be told to look up all names anew.
  var forgetsNames: Bool { minor.load(ordering: .relaxed) >= minorWithEpochs }

  func finish() { isOver.store(true, ordering: .releasing) }

  /// Looks at the kernel's first request before libfuse does.
  func note(_ request: fuse_buf) {
    let head = MemoryLayout<fuse_in_header>.size
    // The body was 16 bytes long at first, and ended with `flags`.
    guard let bytes = request.mem, request.size >= head + 16,
      bytes.load(as: fuse_in_header.self).opcode == FUSE_INIT.rawValue
    else { return }
    minor.store(bytes.load(fromByteOffset: head + 4, as: UInt32.self), ordering: .relaxed)
    offered.store(bytes.load(fromByteOffset: head + 12, as: UInt32.self), ordering: .relaxed)
    if request.size >= head + 20 {
      offered2.store(bytes.load(fromByteOffset: head + 16, as: UInt32.self), ordering: .relaxed)
    }
  }

  /// Amends what libfuse is about to send, if that is the answer to INIT.
  func amend(_ vectors: UnsafeMutablePointer<iovec>, _ count: Int32) {
    guard !isOver.load(ordering: .acquiring), count == 2,
      vectors[1].iov_len == MemoryLayout<fuse_init_out>.size,
      let body = vectors[1].iov_base?.assumingMemoryBound(to: fuse_init_out.self)
    else { return }
    let flags = amendedFlags & offered.load(ordering: .relaxed)
    body.pointee.flags |= flags
    if flags & UInt32(FUSE_INIT_EXT) != 0 {
      body.pointee.flags2 |= amendedFlags2 & offered2.load(ordering: .relaxed)
      if passesThrough {
        body.pointee.flags2 |= passthroughFlag2
        // `max_stack_depth`: the content files' file system is not itself stacked on another.
        body.pointee.unused.0 = 1
      }
    }
    added.store(flags, ordering: .relaxed)
  }
}

extension Bridge {
  /// From now on libfuse reads and writes the device through these functions. If it does not take them the mount
  /// works all the same.
  func watchDevice(_ session: OpaquePointer) {
    var io = fuse_custom_io()
    io.read = { device, room, size, _ in Glibc.read(device, room, size) }
    io.writev = { device, vectors, count, userdata in
      guard let vectors, let userdata else { return -1 }
      let bridge = Bridge.of(userdata: userdata)
      bridge.handshake.amend(vectors, count)
      if let count = bridge.amended(vectors, count) { return count }
      return Glibc.writev(device, vectors, count)
    }
    io.splice_send = { pipe, _, device, _, size, flags, _ in splice(pipe, nil, device, nil, size, flags) }
    fuse_session_custom_io(session, &io, fuse_session_fd(session))
  }
}
