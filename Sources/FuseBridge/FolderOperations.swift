import CFuse
import CLinux
import Containers
import DocsEngine
import StorageErrors

func addFolderOperations(_ operations: inout fuse_lowlevel_ops) {
  operations.opendir = { raw, node, _ in
    serve(raw, .opendir) { request in
      request.volume.openFolder(NodeID(node), request.wait) { request.openedFolder($0, NodeID(node)) }
    }
  }
  operations.readdir = { raw, _, size, offset, info in list(raw, size, offset, info, plus: false) }
  operations.readdirplus = { raw, _, size, offset, info in list(raw, size, offset, info, plus: true) }
  operations.releasedir = { raw, _, info in
    serve(raw, nil) { (request) throws(Errno) in
      request.bridge.closed(try takeFolder(info))
      request.done()
    }
  }
  operations.fsyncdir = { raw, _, _, info in
    serve(raw, .fsyncdir) { (request) throws(Errno) in
      request.volume.syncFolder(try folderHandle(info)) { request.done($0) }
    }
  }
}

private func list(
  _ raw: fuse_req_t?, _ size: Int, _ offset: off_t, _ info: UnsafeMutablePointer<fuse_file_info>?, plus: Bool
) {
  serve(raw, .readdir) { (request) throws(Errno) in
    request.listing(
      try folderHandle(info), after: UInt64(bitPattern: Int64(offset)), size: size, plus: plus)
  }
}
