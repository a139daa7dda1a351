import CFuse
import CLinux
import Containers
import DocsEngine
import StorageErrors

// With FUSE_HANDLE_KILLPRIV_V2 the kernel leaves it to this server to clear setuid and setgid when a file is
// written, truncated or given away. libfuse 3.14 hands over only some of its flags: so requests are looked at
// before libfuse decodes them.

extension Attributes {
  /// The mode without setuid and setgid; nil when there are none to clear. Setgid without the group's execute
  /// permission means something else, and stays.
  fileprivate var modeWithoutSetID: UInt32? {
    guard kind == .file else { return nil }
    let cleared = mode & ~UInt32(S_ISUID) & ~(mode & 0o010 != 0 ? UInt32(S_ISGID) : 0)
    return cleared == mode ? nil : cleared
  }
}

extension Bridge {
  /// Clears the bits that a request must not leave. The volume applies it before the request itself.
  func clearSetID(before buffer: fuse_buf) {
    guard handshake.clearsSetID, let request = KernelRequest(buffer), let node = nodeToClear(request),
      case .success(let attributes) = volume.attributes(node, nil),
      let mode = attributes.modeWithoutSetID
    else { return }
    var change = AttributeChange()
    change.mode = mode
    let header = request.header
    let caller = Caller(uid: header.uid, gid: header.gid, pid: request.thread)
    volume.setAttributes(node, nil, change, caller, { Interruption() }) { [self] result in
      if case .failure(let error) = result { Log.error("setuid of a file was not cleared", ["error": error]) }
      notifier?.invalidateAttributes(node)
    }
  }

  private func nodeToClear(_ request: KernelRequest) -> NodeID? {
    switch request.opcode {
    case FUSE_WRITE.rawValue:
      guard let write: fuse_write_in = request.argument(),
        write.write_flags & UInt32(FUSE_WRITE_KILL_SUIDGID) != 0
      else { return nil }
      return request.node
    case FUSE_OPEN.rawValue:
      guard let open: fuse_open_in = request.argument(),
        open.open_flags & UInt32(FUSE_OPEN_KILL_SUIDGID) != 0
      else { return nil }
      return request.node
    case FUSE_FALLOCATE.rawValue: return request.node
    case FUSE_COPY_FILE_RANGE.rawValue:
      guard let copy: fuse_copy_file_range_in = request.argument() else { return nil }
      return NodeID(copy.nodeid_out)
    default: return nil
    }
  }
}

extension Request {
  /// The change that a SETATTR asks for: giving a file away clears the bits always, truncating it when the
  /// kernel says so.
  func change(_ wanted: stat, which: Int32, of node: NodeID) -> AttributeChange {
    var change = AttributeChange(wanted, which: which)
    let givesAway = change.uid != nil || change.gid != nil
    guard bridge.handshake.clearsSetID, change.mode == nil,
      givesAway || which & FUSE_SET_ATTR_KILL_SUID != 0,
      case .success(let attributes) = volume.attributes(node, nil)
    else { return change }
    change.mode = attributes.modeWithoutSetID
    return change
  }
}
