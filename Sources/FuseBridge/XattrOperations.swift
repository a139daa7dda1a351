import CFuse
import CLinux
import Containers
import DocsEngine
import StorageErrors

/// Who answers for an attribute.
private enum XattrSpace {
  /// `user.`: the volume.
  case user
  /// `security.` and `trusted.`: nobody has any. The kernel asks for `security.capability` before each write.
  case absent
  /// `system.`, ACLs above all, and whatever else: not here.
  case unsupported

  init(_ name: UnsafePointer<CChar>?) {
    guard let name else {
      self = .unsupported
      return
    }
    if strncmp(name, "user.", 5) == 0 {
      self = .user
    } else if strncmp(name, "security.", 9) == 0 || strncmp(name, "trusted.", 8) == 0 {
      self = .absent
    } else {
      self = .unsupported
    }
  }

  /// Of asking for it or removing it; nil: ask the volume.
  var errorOfReading: Errno? {
    switch self {
    case .user: nil
    case .absent: .ENODATA
    case .unsupported: .EOPNOTSUPP
    }
  }
}

func addXattrOperations(_ operations: inout fuse_lowlevel_ops) {
  operations.getxattr = { raw, node, name, size in
    serve(raw, .getxattr) { (request) throws(Errno) in
      if let error = XattrSpace(name).errorOfReading { throw error }
      request.value(request.volume.xattr(NodeID(node), byteString(name), request.caller), room: size)
    }
  }
  operations.listxattr = { raw, node, size in
    serve(raw, .listxattr) { request in
      let names = request.volume.xattrNames(NodeID(node))
      request.value(names.map { Array($0.map { $0 + [0] }.joined()) }, room: size)
    }
  }
  operations.setxattr = { raw, node, name, value, size, flags in
    serve(raw, .setxattr) { (request) throws(Errno) in
      guard case .user = XattrSpace(name) else { throw .EOPNOTSUPP }
      let value = Array(UnsafeRawBufferPointer(start: value, count: size))
      request.volume.setXattr(NodeID(node), byteString(name), value, flags: flags) { request.done($0) }
    }
  }
  operations.removexattr = { raw, node, name in
    serve(raw, .removexattr) { (request) throws(Errno) in
      if let error = XattrSpace(name).errorOfReading { throw error }
      request.volume.removeXattr(NodeID(node), byteString(name)) { request.done($0) }
    }
  }
}
