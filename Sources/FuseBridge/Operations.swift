import CFuse
import CLinux
import Containers
import DocsEngine
import StorageErrors

// The table of operations. Those that stay unset: locks, flock (the kernel does them), access
// (default_permissions), ioctl, bmap, poll.
func fuseOperations() -> fuse_lowlevel_ops {
  var operations = fuse_lowlevel_ops()
  operations.`init` = { userdata, connection in
    if let userdata, let connection { negotiate(Bridge.of(userdata: userdata), &connection.pointee) }
  }
  addNodeOperations(&operations)
  addNameOperations(&operations)
  addFileOperations(&operations)
  addFolderOperations(&operations)
  addXattrOperations(&operations)
  return operations
}

private func addNodeOperations(_ operations: inout fuse_lowlevel_ops) {
  operations.forget = { raw, node, count in
    forget(raw, CollectionOfOne(fuse_forget_data(ino: node, nlookup: count)))
  }
  operations.forget_multi = { raw, count, list in
    forget(raw, UnsafeBufferPointer(start: list, count: count))
  }
  operations.getattr = { raw, node, info in
    serve(raw, .getattr) { (request) throws(Errno) in
      let handle = info == nil ? nil : try fileHandle(info)
      request.attributes(request.volume.attributes(NodeID(node), handle))
    }
  }
  operations.setattr = { raw, node, wanted, which, info in
    serve(raw, .changing(which)) { (request) throws(Errno) in
      guard let wanted else { throw .EINVAL }
      let handle = info == nil ? nil : try fileHandle(info)
      let change = request.change(wanted.pointee, which: which, of: NodeID(node))
      request.volume.setAttributes(NodeID(node), handle, change, request.caller, request.wait) {
        request.attributes($0)
      }
    }
  }
  operations.readlink = { raw, node in
    serve(raw, .readlink) { request in request.bytes(request.volume.readlink(NodeID(node))) }
  }
  operations.statfs = { raw, _ in
    serve(raw, .statfs) { request in request.statistics(request.volume.statistics()) }
  }
}

/// FORGET has no answer; the request is given back all the same.
private func forget(_ raw: fuse_req_t?, _ list: some Sequence<fuse_forget_data>) {
  serve(raw, nil) { request in
    for item in list { request.volume.forget(NodeID(item.ino), count: item.nlookup) }
    request.answer { raw in
      fuse_reply_none(raw)
      return 0
    }
  }
}
