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
      key: address.key(path), what: what, source: ProvenSource(source, what), attributes: attributes,
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
    // Of nothing no byte is read, which is where it is asked otherwise.
    try source.requireCurrent()
    try check(upload, call)
    var request = S3Client.Request(method: "PUT", key: upload.key, what: upload.what)
    request.headers = S3Metadata.headers(upload.attributes) + upload.conditions
    request.body = .source(source, 0..<source.size)
    let response = try client.send(request, call)
    let version = try published(response, upload)
    // What the store says it has, where its ETags tell: not every store checks what it is signed to get.
    if upload.rules.etagIsMD5, response["x-amz-server-side-encryption"]?.hasPrefix("aws:kms") != true,
      version.bytes.count == 32, source.md5.map(hex).map({ Array($0.utf8) }) != version.bytes
    {
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
  var source: ProvenSource
  var attributes: RemoteAttributes
  var condition: Precondition
  var rules: S3Rules

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

/// A source that gives its last byte only when all its bytes are what they should be and are still wanted: a store that
/// gets fewer than it was promised publishes nothing. Read from beginning to end, again from the beginning if need be.
final class ProvenSource: UploadSource {
  private struct Progress {
    var offset: Int64 = 0
    var sha256 = Digest()
    var md5 = Digest(.md5)
    var finishedMD5: [UInt8]?
  }
  private let base: any UploadSource
  private let what: String
  private let state = Guarded(Progress())

  init(_ base: any UploadSource, _ what: String) {
    self.base = base
    self.what = what
  }

  /// The bytes as they come, for parts, whose bytes are proven otherwise.
  var unproven: any UploadSource { base }

  var size: Int64 { base.size }
  var sha256: [UInt8]? { base.sha256 }
  func isStillCurrent() -> Bool { base.isStillCurrent() }
  /// Of all bytes, when they have all been read in order.
  var md5: [UInt8]? { size == 0 ? Digest.of([], .md5) : state.withLock { $0.finishedMD5 } }

  func requireCurrent() throws(ContainerError) {
    guard base.isStillCurrent() else { throw ContainerError(.cancelled, "\(what): it has changed meanwhile") }
  }

  func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ContainerError) -> Int {
    let count = try base.read(at: offset, into: buffer)
    let digest = state.withLock { state -> [UInt8]?? in
      if offset == 0 { state = Progress() }
      guard offset == state.offset else { return nil }
      let piece = UnsafeRawBufferPointer(rebasing: buffer.prefix(count))
      state.sha256.update(piece)
      state.md5.update(piece)
      state.offset += Int64(count)
      guard state.offset == size else { return nil }
      state.finishedMD5 = state.md5.finish()
      return .some(state.sha256.finish())
    }
    if let digest { try prove(digest) }
    return count
  }

  /// Before the last piece goes out.
  func prove(_ digest: [UInt8]?) throws(ContainerError) {
    try requireCurrent()
    guard base.sha256 == nil || base.sha256 == digest else {
      throw ContainerError(.inconsistent, "\(what): its bytes were altered on their way")
    }
  }
}
