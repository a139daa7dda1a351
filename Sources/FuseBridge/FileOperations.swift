import CFuse
import CLinux
import Containers
import DocsEngine
import StorageErrors

func addFileOperations(_ operations: inout fuse_lowlevel_ops) {
  addOpening(&operations)
  addTransfers(&operations)
  addRangeOperations(&operations)
}

private func addOpening(_ operations: inout fuse_lowlevel_ops) {
  operations.create = { raw, parent, name, mode, info in
    serve(raw, .create) { (request) throws(Errno) in
      guard let info else { throw .EINVAL }
      let name = try ItemName(cString: name)
      let open = OpenMode(flags: info.pointee.flags)
      request.volume.create(NodeID(parent), name, mode: mode & 0o7777, open, request.caller, request.wait) {
        request.created($0)
      }
    }
  }
  operations.open = { raw, node, info in
    serve(raw, .open) { (request) throws(Errno) in
      guard let info else { throw .EINVAL }
      let open = OpenMode(flags: info.pointee.flags)
      request.volume.open(NodeID(node), open, request.caller, request.wait) { request.opened($0, NodeID(node)) }
    }
  }
  operations.flush = { raw, _, info in
    serve(raw, .flush) { (request) throws(Errno) in
      request.volume.flush(try fileHandle(info)) { request.done($0) }
    }
  }
  operations.release = { raw, _, info in
    serve(raw, nil) { (request) throws(Errno) in
      request.bridge.closed(try takeFile(info))
      request.done()
    }
  }
}

private func addTransfers(_ operations: inout fuse_lowlevel_ops) {
  operations.read = { raw, _, size, offset, info in
    serve(raw, .read) { (request) throws(Errno) in
      let handle = try fileHandle(info)
      request.volume.read(handle, offset: Int64(offset), count: size, request.wait) { request.read($0) }
    }
  }
  operations.write = { raw, _, data, size, offset, info in
    serve(raw, .write) { (request) throws(Errno) in
      let handle = try fileHandle(info)
      let bytes = UnsafeRawBufferPointer(start: data, count: size)
      request.volume.write(handle, offset: Int64(offset), bytes, request.wait) { request.wrote($0) }
    }
  }
  operations.fsync = { raw, _, dataOnly, info in
    serve(raw, .fsync) { (request) throws(Errno) in
      let handle = try fileHandle(info)
      request.volume.sync(handle, dataOnly: dataOnly != 0, request.wait) { request.done($0) }
    }
  }
}

/// The kernel holds both files' locks while one request copies: so it copies in pieces, and asks again.
private let largestCopy = 256 << 20

private func addRangeOperations(_ operations: inout fuse_lowlevel_ops) {
  operations.fallocate = { raw, _, mode, offset, length, info in
    serve(raw, .fallocate) { (request) throws(Errno) in
      let handle = try fileHandle(info)
      request.volume.allocate(
        handle, mode: mode, offset: Int64(offset), length: Int64(length), request.wait
      ) { request.done($0) }
    }
  }
  operations.lseek = { raw, _, offset, whence, info in
    serve(raw, .lseek) { (request) throws(Errno) in
      let handle = try fileHandle(info)
      request.found(request.volume.seek(handle, offset: Int64(offset), whence: whence))
    }
  }
  operations.copy_file_range = { raw, _, from, fromInfo, _, to, toInfo, count, flags in
    serve(raw, .copy_file_range) { (request) throws(Errno) in
      guard flags == 0 else { throw .EINVAL }
      let source = try fileHandle(fromInfo)
      let target = try fileHandle(toInfo)
      request.volume.copyRange(
        from: source, offset: Int64(from), to: target, offset: Int64(to), count: min(count, largestCopy),
        request.wait
      ) { request.wrote($0) }
    }
  }
}
