extension WebDAVContainer {
  package func put(
    _ path: ContainerPath, from source: any UploadSource, attributes: RemoteAttributes,
    if condition: Precondition, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    let what = "cannot upload \(path)"
    let name = try requireName(what, path)
    let rules = try rules(call)
    let attributes = try complete(attributes, path, condition, what, call)
    let digest = try prove(source, what, call)
    let upload = DAVUpload(
      path: path, what: what, source: source, digest: digest, attributes: attributes, condition: condition)
    let isKept = condition == .absent ? rules.keepsAbsent : rules.keepsVersion
    let version: Version
    if !rules.publishesWhole {
      version = try sendAside(upload, rules, call)
    } else if rules.tellsVersion, isKept {
      version = try send(upload, conditions: upload.conditions, call)
    } else if rules.hasLocks {
      version = try sendLocked(upload, rules, call)
    } else {
      try check(upload, call)
      version = try send(upload, conditions: isKept && condition == .absent ? upload.conditions : [], call)
    }
    return RemoteItem(
      name: name, kind: .file, size: source.size, version: version,
      attributes: try settle(attributes, of: version, at: path, lock: nil, what, call))
  }

  /// What is not given comes from what is replaced.
  private func complete(
    _ given: RemoteAttributes, _ path: ContainerPath, _ condition: Precondition, _ what: String, _ call: CallContext
  ) throws(ContainerError) -> RemoteAttributes {
    var attributes = given
    attributes.xattrs = nil
    attributes.mtime = attributes.mtime ?? .now()
    if case .version = condition, attributes.mode == nil {
      attributes.mode = try resource(path, what, call)?.attributes.mode
    }
    return attributes
  }

  /// Before anything is sent: the bytes are those that they should be, and still wanted.
  private func prove(_ source: any UploadSource, _ what: String, _ call: CallContext) throws(ContainerError)
    -> ContentDigest
  {
    let found = try digest(of: source, 0..<source.size, call)
    let isWhole = source.sha256.map { $0 == found.sha256 } ?? true
    guard source.isStillCurrent() else { throw ContainerError(.cancelled, "\(what): it has changed meanwhile") }
    guard isWhole else { throw ContainerError(.inconsistent, "\(what): its bytes were altered on their way") }
    return ContentDigest(.md5, found.md5)
  }

  /// A resource of docsfs's own that stands for a path.
  private func lockName(_ path: ContainerPath) -> ContainerPath {
    hidden.appending((try? ItemName("lock-" + hex(Digest.of(path.bytes)).prefix(32))) ?? .root)
  }

  /// A new name is locked by a resource of docsfs's own: others would see a lock of the name itself as an empty file.
  private func sendLocked(_ upload: DAVUpload, _ rules: DAVRules, _ call: CallContext) throws(ContainerError) -> Version
  {
    switch upload.condition {
    case .absent:
      return try withLock(lockName(upload.path), upload.what, call) { _ throws(ContainerError) in
        try check(upload, call)
        return try send(upload, conditions: rules.keepsAbsent ? upload.conditions : [], call)
      }
    case .version:
      try check(upload, call)
      return try withLock(upload.path, upload.what, call) { token throws(ContainerError) in
        try check(upload, call)
        return try send(upload, conditions: [("If", "(<\(token)>)")], call)
      }
    }
  }

  /// Where a PUT that breaks off would leave a part of the file: into docsfs's own folder, and from there to its place.
  private func sendAside(_ upload: DAVUpload, _ rules: DAVRules, _ call: CallContext) throws(ContainerError) -> Version
  {
    let aside = hidden.appending(freshName("upload"))
    var sent = upload
    sent.path = aside
    do throws(ContainerError) {
      _ = try send(sent, conditions: [], call)
      try publish(aside, upload, rules, call)
    } catch {
      // Also for a call that was cancelled.
      _ = try? client.send(client.request("DELETE", aside, upload.what), CallContext(timeout: 10))
      throw error
    }
    guard let found = try resource(upload.path, upload.what, call), found.size == upload.source.size else {
      throw ContainerError(.inconsistent, "\(upload.what): the server has something else than was sent")
    }
    return found.version
  }

  private func publish(
    _ aside: ContainerPath, _ upload: DAVUpload, _ rules: DAVRules, _ call: CallContext
  ) throws(ContainerError) {
    guard upload.source.isStillCurrent() else {
      throw ContainerError(.cancelled, "\(upload.what): it has changed meanwhile")
    }
    try check(upload, call)
    guard case .version = upload.condition else {
      return try move(aside, to: upload.path, isFolder: false, upload.what, call)
    }
    let replace = { () throws(ContainerError) in
      try self.check(upload, call)
      try self.move(aside, to: upload.path, isFolder: false, replaces: true, upload.what, call)
    }
    guard rules.hasLocks else { return try replace() }
    // Not the file itself: where it is missing for a moment, a lock would make an empty one.
    try withLock(lockName(upload.path), upload.what, call) { _ throws(ContainerError) in try replace() }
  }

  private func check(_ upload: DAVUpload, _ call: CallContext) throws(ContainerError) {
    let found = try resource(upload.path, upload.what, call)
    switch upload.condition {
    case .absent: if found != nil { throw changed(upload.what, "something is there") }
    case .version(let version):
      guard let found, !found.isFolder, found.version == version else {
        throw changed(upload.what, "it has another version by now")
      }
    }
  }

  private func send(
    _ upload: DAVUpload, conditions: [(name: String, value: String)], _ call: CallContext
  ) throws(ContainerError) -> Version {
    var request = client.request("PUT", upload.path, upload.what)
    request.headers = conditions
    if let mtime = upload.attributes.mtime {
      request.headers.append(("X-OC-Mtime", String(mtime.nanoseconds.floorDivided(by: 1_000_000_000))))
    }
    // ownCloud and Nextcloud refuse what does not match it, and keep it for downloads. Of what they know the best that
    // was computed anyway.
    request.headers.append(("OC-Checksum", "MD5:" + hex(upload.digest.bytes)))
    request.body = .source(upload.source, 0..<upload.source.size)
    let response = try client.send(request, call)
    guard response.isSuccess else { throw try refusal(response, upload, call) }
    if let etag = response["etag"].flatMap({ DAVMultistatus.etag($0).0 }) { return Version(Array(etag.utf8)) }
    guard let found = try resource(upload.path, upload.what, call), found.size == upload.source.size else {
      throw ContainerError(.inconsistent, "\(upload.what): the server has something else than was sent")
    }
    return found.version
  }

  private func refusal(_ response: HTTPResponse, _ upload: DAVUpload, _ call: CallContext) throws(ContainerError)
    -> ContainerError
  {
    let error = client.failure(response, upload.what)
    guard [400, 403, 404, 405, 409, 412, 500].contains(response.status) else { return error }
    if try isOrphan(upload.path, upload.what, call) {
      return ContainerError(.notFound, "\(upload.what): there is no folder \(upload.path.parent)")
    }
    if try resource(upload.path, upload.what, call)?.isFolder == true {
      return changed(upload.what, "a folder is there")
    }
    // Servers write beside the file first, under a longer name.
    if response.status == 500, upload.path.last.map({ $0.bytes.count > 200 }) == true {
      return ContainerError(.notRepresentable, "\(upload.what): the name is too long for the server")
    }
    return response.status == 404 ? changed(upload.what, "it is gone") : error
  }

  /// Keeps the attributes beside what was published; what the server has of them then.
  func settle(
    _ attributes: RemoteAttributes, of version: Version, at path: ContainerPath, lock: String?, _ what: String,
    _ call: CallContext
  ) throws(ContainerError) -> RemoteAttributes {
    // The content is published: whatever becomes of its attributes, the caller must hear of it.
    _ = try? keep(attributes, of: version, at: path, isFolder: false, lock: lock, what, call)
    guard let found = try? resource(path, what, call), found.version == version else { return attributes }
    return found.attributes
  }
}

/// One file on its way to the server.
private struct DAVUpload {
  var path: ContainerPath
  var what: String
  var source: any UploadSource
  var digest: ContentDigest
  var attributes: RemoteAttributes
  var condition: Precondition

  var conditions: [(name: String, value: String)] {
    switch condition {
    case .absent: [("If-None-Match", "*")]
    case .version(let version): [("If-Match", "\"" + String(decoding: version.bytes, as: UTF8.self) + "\"")]
    }
  }
}

extension Int64 {
  fileprivate func floorDivided(by divisor: Int64) -> Int64 {
    let (quotient, rest) = quotientAndRemainder(dividingBy: divisor)
    return rest < 0 ? quotient - 1 : quotient
  }
}
