extension WebDAVContainer {
  package func makeFolder(_ path: ContainerPath, attributes: RemoteAttributes, _ call: CallContext)
    throws(ContainerError) -> RemoteItem
  {
    let what = "cannot make the folder \(path)"
    let name = try requireName(what, path)
    _ = try rules(call)
    // Some servers take the name of a file for that of a folder.
    guard try resource(path, what, call) == nil else { throw changed(what, "something is there") }
    let response = try client.send(client.request("MKCOL", path, isFolder: true, what), call)
    guard response.isSuccess else {
      if [403, 404, 409, 500].contains(response.status), try isOrphan(path, what, call) {
        throw ContainerError(.notFound, "\(what): there is no folder \(path.parent)")
      }
      throw response.status == 405 ? changed(what, "something is there") : client.failure(response, what)
    }
    return try settleFolder(path, name, attributes, what, call)
  }

  private func settleFolder(
    _ path: ContainerPath, _ name: ItemName, _ attributes: RemoteAttributes, _ what: String, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    var folder = DAVResource()
    folder.isFolder = true
    try keep(attributes, of: folder.version, at: path, isFolder: true, what, call)
    guard let found = try resource(path, what, call) else { throw ContainerError(.notFound, "\(what): it is gone") }
    return item(name, found)
  }

  package func makeSymlink(
    _ path: ContainerPath, target: [UInt8], attributes: RemoteAttributes, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    throw ContainerError(
      .notRepresentable, "cannot make the symlink \(path): a WebDAV server holds none")
  }

  package func setAttributes(
    _ path: ContainerPath, _ attributes: RemoteAttributes, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    let what = "cannot set the attributes of \(path)"
    let name = try requireName(what, path)
    let found = try require(path, version, what, call)
    var merged = found.attributes
    merged.mode = attributes.mode ?? merged.mode
    merged.mtime = attributes.mtime ?? merged.mtime
    if found.isFolder { return try settleFolder(path, name, merged, what, call) }
    try keep(merged, of: found.version, at: path, isFolder: false, what, call)
    guard let now = try resource(path, what, call) else { throw ContainerError(.notFound, "\(what): it is gone") }
    return item(name, now)
  }

  /// What is at `path`; `.preconditionFailed` when it has another version.
  private func require(_ path: ContainerPath, _ version: Version?, _ what: String, _ call: CallContext)
    throws(ContainerError) -> DAVResource
  {
    guard let found = try resource(path, what, call) else {
      try confirm(call)
      throw ContainerError(.notFound, "\(what): not found")
    }
    guard version == nil || found.version == version else { throw changed(what, "it has another version by now") }
    return found
  }

  // MARK: - Removing

  package func remove(_ path: ContainerPath, kind: ItemKind, version: Version?, _ call: CallContext)
    throws(ContainerError)
  {
    let what = "cannot remove \(path)"
    _ = try requireName(what, path)
    let found = try require(path, kind == .folder ? nil : version, what, call)
    guard found.isFolder == (kind == .folder) else { throw changed(what, "it is something else by now") }
    if found.isFolder { return try removeFolder(path, what, call) }
    var request = client.request("DELETE", path, what)
    if try rules(call).keepsVersion, let etag = found.etag, !found.isWeak {
      request.headers = [("If-Match", "\"\(etag)\"")]
    }
    try delete(request, call)
  }

  /// A server removes a folder with all that is in it: so it is moved aside, looked at, and brought back unless empty.
  private func removeFolder(_ path: ContainerPath, _ what: String, _ call: CallContext) throws(ContainerError) {
    guard try list(path, call).isEmpty else { throw ContainerError(.notEmpty, "\(what): it is not empty") }
    _ = try rules(call)
    let aside = hidden.appending(freshName("gone"))
    try move(path, to: aside, isFolder: true, what, call)
    if try isEmpty(aside, what, call) {
      return try delete(client.request("DELETE", aside, isFolder: true, what), call)
    }
    try move(aside, to: path, isFolder: true, what, call)
    throw ContainerError(.notEmpty, "\(what): it is not empty")
  }

  private func isEmpty(_ folder: ContainerPath, _ what: String, _ call: CallContext) throws(ContainerError) -> Bool {
    let count = Guarded(0)
    let depth = address.names.count + folder.names.count
    _ = try find(folder, isFolder: true, depth: 1, what, call) { found in
      if found.names.count > depth { count.withLock { $0 += 1 } }
    }
    return count.withLock { $0 } == 0
  }

  /// Gone is gone, whoever did it.
  private func delete(_ request: HTTPRequest, _ call: CallContext) throws(ContainerError) {
    let response = try client.send(request, call)
    // 207 tells of parts that could not be removed.
    guard response.isSuccess && response.status != 207 || response.status == 404 else {
      throw client.failure(response, request.what)
    }
  }

  // MARK: - Renaming

  package func rename(
    _ path: ContainerPath, to target: ContainerPath, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    let what = "cannot rename \(path) to \(target)"
    _ = try requireName(what, path)
    let name = try requireName(what, target)
    let found = try require(path, version, what, call)
    try move(path, to: target, isFolder: found.isFolder, what, call)
    guard let moved = try resource(target, what, call) else {
      throw ContainerError(.inconsistent, "\(what): it is not where it was moved to")
    }
    guard !found.isFolder, moved.version != found.version || moved.kept != found.kept else { return item(name, moved) }
    // A server whose ETags do not outlive a move, or whose properties do not.
    var item = item(name, moved)
    item.attributes = try settle(found.attributes, of: moved.version, at: target, lock: nil, what, call)
    return item
  }

  func move(
    _ path: ContainerPath, to target: ContainerPath, isFolder: Bool, replaces: Bool = false, _ what: String,
    _ call: CallContext
  ) throws(ContainerError) {
    var request = client.request("MOVE", path, isFolder: isFolder, what)
    request.headers = [
      ("Destination", address.server + address.path(target, isFolder: isFolder)), ("Overwrite", replaces ? "T" : "F"),
    ]
    let response = try client.send(request, call)
    switch response.status {
    case 200..<207: return
    case 412: throw changed(what, "something is there")
    case 403, 404, 405, 409, 500:
      guard try resource(target, what, call) == nil else { throw changed(what, "something is there") }
      if try isOrphan(target, what, call) {
        throw ContainerError(.notFound, "\(what): there is no folder \(target.parent)")
      }
      if try resource(path, what, call) == nil { throw ContainerError(.notFound, "\(what): not found") }
      throw client.failure(response, what)
    case 423, 424:
      giveBackAgain(under: path, what)
      throw ContainerError(.busy, "\(what): something in it is locked (HTTP \(response.status))")
    case 207: throw ContainerError(.inconsistent, "\(what): the server has moved a part of it")
    default: throw client.failure(response, what)
    }
  }
}
