extension S3Container {
  package func makeFolder(_ path: ContainerPath, attributes: RemoteAttributes, _ call: CallContext)
    throws(ContainerError) -> RemoteItem
  {
    let what = "cannot make the folder \(path)"
    let name = try requireName(what, path)
    let rules = try rules(call)
    try requireParent(path, what, call)
    guard try item(at: path, call) == nil else { throw changed(what, "something is there") }
    var attributes = attributes
    attributes.xattrs = nil
    attributes.mtime = attributes.mtime ?? .now()
    try putMarker(path, attributes, isNew: rules.keepsAbsent, what, call)
    noteFolder(path)
    return folderItem(name, attributes)
  }

  func putMarker(
    _ path: ContainerPath, _ attributes: RemoteAttributes, isNew: Bool, _ what: String, _ call: CallContext
  ) throws(ContainerError) {
    var request = S3Client.Request(method: "PUT", key: address.folderKey(path), what: what)
    request.headers = S3Metadata.headers(attributes, kind: .folder)
    if isNew { request.headers.append(("If-None-Match", "*")) }
    try client.require(request, call)
  }

  package func makeSymlink(
    _ path: ContainerPath, target: [UInt8], attributes: RemoteAttributes, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    throw ContainerError(
      .notRepresentable, "cannot make the symlink \(path): an S3 store holds none")
  }

  package func setAttributes(
    _ path: ContainerPath, _ attributes: RemoteAttributes, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    let what = "cannot set the attributes of \(path)"
    let name = try requireName(what, path)
    let key = address.key(path)
    guard let old = try head(key, what, call) else {
      guard let before = try item(at: path, call), before.kind == .folder else {
        throw ContainerError(.notFound, "\(what): not found")
      }
      if version != nil, version != before.version { throw changed(what, "it is a folder by now") }
      let now = RemoteAttributes(
        mode: attributes.mode ?? before.attributes.mode, mtime: attributes.mtime ?? before.attributes.mtime)
      try putMarker(path, now, isNew: false, what, call)
      return folderItem(name, now)
    }
    guard let current = etag(old), version == nil || version == current else {
      throw changed(what, "it has another version by now")
    }
    let headers = S3Metadata.headers(of: old, with: attributes)
    let before = try file(name, old, what)
    if let version = try rewrite(key, current, size: before.size, headers: headers, what, call) {
      // As it was put there, whatever is there by now.
      let set = RemoteAttributes(
        mode: attributes.mode ?? before.attributes.mode, mtime: attributes.mtime ?? before.attributes.mtime)
      return RemoteItem(name: name, kind: .file, size: before.size, version: version, attributes: set)
    }
    _ = try copy(try object(key, old, what), to: key, if: .version(current), changing: (old, attributes), what, call)
    guard let new = try head(key, what, call) else { throw ContainerError(.notFound, "\(what): it is gone") }
    return try file(name, new, what)
  }

  // MARK: - Renaming

  /// Copies, and then removes what was copied and is still the same: somebody's change in between stays where it is.
  package func rename(
    _ path: ContainerPath, to target: ContainerPath, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    let what = "cannot rename \(path) to \(target)"
    _ = try requireName(what, path)
    let name = try requireName(what, target)
    let source = try head(path, what, call)
    if source == nil {
      guard try isFolder(path, what, call) else {
        try confirm(call)
        throw ContainerError(.notFound, "\(what): not found")
      }
      if version != nil { throw changed(what, "it is a folder by now") }
    }
    try requireParent(target, what, call)
    guard let source else { return try renameFolder(path, to: target, name, what, call) }
    guard let current = etag(source), version == nil || version == current else {
      throw changed(what, "it has another version by now")
    }
    guard try item(at: target, call) == nil else { throw changed(what, "something is there") }
    let old = try object(address.key(path), source, what)
    let etag = try copy(old, to: address.key(target), if: .absent, what, call)
    // The source is the only other copy.
    guard let copied = try head(target, what, call) else {
      throw ContainerError(.inconsistent, "\(what): the copy is gone; the source is left")
    }
    let copy = S3Copy(source: old, target: address.key(target), etag: etag)
    guard try isWhole(copy, object(copy.target, copied, what), what, call) else {
      throw ContainerError(.inconsistent, "\(what): somebody has replaced the copy; the source is left")
    }
    try keepFolder(path.parent, besides: old.key, what, call)
    try deleteOne(S3Deletion(old), what, call)
    return try file(name, copied, what)
  }
}
