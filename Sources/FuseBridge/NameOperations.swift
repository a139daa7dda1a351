import CFuse
import CLinux
import Containers
import DocsEngine
import StorageErrors

func addNameOperations(_ operations: inout fuse_lowlevel_ops) {
  operations.lookup = { raw, parent, name in
    serve(raw, .lookup) { (request) throws(Errno) in
      let name = try ItemName(cString: name)
      request.volume.lookup(NodeID(parent), name, request.wait) { request.lookedUp($0) }
    }
  }
  addMakers(&operations)
  addRemovers(&operations)
}

private func addMakers(_ operations: inout fuse_lowlevel_ops) {
  operations.mkdir = { raw, parent, name, mode in
    serve(raw, .mkdir) { (request) throws(Errno) in
      let name = try ItemName(cString: name)
      request.volume.makeFolder(NodeID(parent), name, mode: mode & 0o7777, request.caller, request.wait) {
        request.entry($0)
      }
    }
  }
  operations.mknod = { raw, parent, name, mode, _ in
    serve(raw, .mknod) { (request) throws(Errno) in
      // FIFOs, sockets and devices are not for a container.
      guard lx_is_reg(mode) != 0 else { throw .EPERM }
      let name = try ItemName(cString: name)
      request.volume.makeFile(NodeID(parent), name, mode: mode & 0o7777, request.caller, request.wait) {
        request.entry($0)
      }
    }
  }
  operations.symlink = { raw, target, parent, name in
    serve(raw, .symlink) { (request) throws(Errno) in
      let name = try ItemName(cString: name)
      request.volume.makeSymlink(
        NodeID(parent), name, target: byteString(target), request.caller, request.wait
      ) { request.entry($0) }
    }
  }
  operations.link = { raw, _, _, _ in serve(raw, .link) { (_) throws(Errno) in throw .EPERM } }
}

private func addRemovers(_ operations: inout fuse_lowlevel_ops) {
  operations.unlink = { raw, parent, name in
    serve(raw, .unlink) { (request) throws(Errno) in
      let name = try ItemName(cString: name)
      request.volume.unlink(NodeID(parent), name, request.wait) { request.done($0) }
    }
  }
  operations.rmdir = { raw, parent, name in
    serve(raw, .rmdir) { (request) throws(Errno) in
      let name = try ItemName(cString: name)
      request.volume.removeFolder(NodeID(parent), name, request.wait) { request.done($0) }
    }
  }
  operations.rename = { raw, parent, name, newParent, newName, flags in
    serve(raw, .rename) { (request) throws(Errno) in
      let name = try ItemName(cString: name)
      let newName = try ItemName(cString: newName)
      let flags = RenameFlags(rawValue: flags)
      guard flags.isSubset(of: [.noReplace, .exchange]) else { throw .EINVAL }
      request.volume.rename(
        NodeID(parent), name, to: NodeID(newParent), newName, flags, request.wait
      ) { request.done($0) }
    }
  }
}
