extension S3Container {
  /// Above it a file goes in parts, several at a time.
  static let wholeSize: Int64 = 16 << 20

  package func put(
    _ path: ContainerPath, from source: any UploadSource, attributes: RemoteAttributes,
    if condition: Precondition, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    let what = "cannot upload \(path)"
    let name = try requireName(what, path)
    let rules = try rules(call)
    let attributes = try prepare(path, attributes, condition, rules, what, call)
    let upload = S3Upload(
      key: address.key(path), what: what, source: source, attributes: attributes,
      condition: condition, rules: rules)
    let version =
      source.size <= Self.wholeSize ? try putWhole(upload, call) : try putParts(upload, call)
    return RemoteItem(name: name, kind: .file, size: source.size, version: version, attributes: attributes)
  }

  /// Fails early, and completes what is not given from what is replaced.
  private func prepare(
    _ path: ContainerPath, _ given: RemoteAttributes, _ condition: Precondition, _ rules: S3Rules, _ what: String,
    _ call: CallContext
  ) throws(ContainerError) -> RemoteAttributes {
    var attributes = given
    attributes.xattrs = nil
    switch condition {
    case .absent:
      try requireParent(path, what, call)
      guard try !isFolder(path, what, call) else { throw changed(what, "a folder is there") }
    case .version(let version):
      guard !rules.keepsVersion || attributes.mode == nil else { break }
      guard let old = try head(path, what, call), etag(old) == version else {
        throw changed(what, "it has another version by now")
      }
      attributes.mode = attributes.mode ?? S3Metadata.attributes(old).mode
    }
    attributes.mtime = attributes.mtime ?? .now()
    return attributes
  }

  func changed(_ what: String, _ why: String) -> ContainerError {
    ContainerError(.preconditionFailed, "\(what): \(why)")
  }

  /// For a store that keeps no conditions: the last moment before publication.
  func check(_ upload: S3Upload, _ call: CallContext) throws(ContainerError) {
    guard !upload.isKept else { return }
    let found = try head(upload.key, upload.what, call)
    switch upload.condition {
    case .absent: if found != nil { throw changed(upload.what, "something is there") }
    case .version(let version):
      guard let found, etag(found) == version else { throw changed(upload.what, "it has another version by now") }
    }
  }

  private func putWhole(_ upload: S3Upload, _ call: CallContext) throws(ContainerError) -> Version {
    let source = upload.source
    let range = 0..<source.size
    // Before the first byte goes out: some stores take a connection that broke for the end of the file, unless they are
    // told what must come.
    let digest = try digest(of: source, range, call)
    try upload.prove(digest.sha256)
    try check(upload, call)
    var request = S3Client.Request(method: "PUT", key: upload.key, what: upload.what)
    request.headers = S3Metadata.headers(upload.attributes) + upload.conditions + [digest.header]
    request.body = .source(source, range)
    request.payload = hex(digest.sha256)
    let response = try client.send(request, call)
    let version = try published(response, upload)
    // What the store says it has: not every store checks.
    learn(response)
    if let stored = checksum(of: version), stored.bytes != digest.md5 {
      throw ContainerError(.inconsistent, "\(upload.what): its bytes were altered on their way")
    }
    return version
  }

  /// The version that an answer to a publication tells.
  func published(_ response: HTTPResponse, _ upload: S3Upload) throws(ContainerError) -> Version {
    if response.isSuccess, let version = etag(response) { return version }
    throw refused(response, upload)
  }

  func refused(_ response: HTTPResponse, _ upload: S3Upload) -> ContainerError {
    // Nothing is there to match with.
    if response.status == 404, case .version = upload.condition, S3Failure(response.body).code != "NoSuchBucket" {
      return changed(upload.what, "it is gone")
    }
    if response.isSuccess { return ContainerError(.inconsistent, "\(upload.what): the store tells no ETag") }
    return client.failure(response, upload.what)
  }
}

/// One file on its way to the store.
struct S3Upload: Sendable {
  var key: [UInt8]
  var what: String
  var source: any UploadSource
  var attributes: RemoteAttributes
  var condition: Precondition
  var rules: S3Rules

  /// Before anything is published: the bytes are those that they should be, and still wanted.
  func prove(_ sha256: [UInt8]) throws(ContainerError) {
    guard source.isStillCurrent() else { throw ContainerError(.cancelled, "\(what): it has changed meanwhile") }
    guard source.sha256 == nil || source.sha256 == sha256 else {
      throw ContainerError(.inconsistent, "\(what): its bytes were altered on their way")
    }
  }

  /// Whether the store itself keeps the condition.
  var isKept: Bool {
    switch condition {
    case .absent: rules.keepsAbsent
    case .version: rules.keepsVersion
    }
  }

  var conditions: [(name: String, value: String)] {
    guard isKept else { return [] }
    switch condition {
    case .absent: return [("If-None-Match", "*")]
    case .version(let version): return [("If-Match", "\"" + String(decoding: version.bytes, as: UTF8.self) + "\"")]
    }
  }
}
