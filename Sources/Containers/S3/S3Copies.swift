// Copies that the store makes itself.

/// One of an object that is to be removed when it is proven whole.
struct S3Copy: Sendable {
  var source: S3Page.Object
  var target: [UInt8]
  /// As the store has told it.
  var etag: String
}

extension S3Container {
  func object(_ key: [UInt8], _ response: HTTPResponse, _ what: String) throws(ContainerError) -> S3Page.Object {
    guard let size = response["content-length"].flatMap({ Int64($0) }), size >= 0, let etag = etag(response) else {
      throw ContainerError(.inconsistent, "\(what): the store tells no size or ETag")
    }
    return S3Page.Object(key: key, size: size, etag: String(decoding: etag.bytes, as: UTF8.self))
  }

  /// Copies just this version of an object, in parts when it is large; the copy's ETag. `.preconditionFailed` when it has
  /// another by now, or `target` is not as `condition` wants it. `changing`: the object's head, and what of it shall be
  /// different in the copy.
  func copy(
    _ object: S3Page.Object, to target: [UInt8], if condition: Precondition,
    changing: (head: HTTPResponse, attributes: RemoteAttributes)? = nil, _ what: String, _ call: CallContext
  ) throws(ContainerError) -> String {
    let rules = try rules(call)
    if condition == .absent, !rules.copiesKeepAbsent, try head(target, what, call) != nil {
      throw changed(what, "something is there")
    }
    let isWhole = object.size <= limits.wholeCopy
    let keepsETag = isWhole && isDigest(object.etag)
    var metadata: [(name: String, value: String)]?
    if changing != nil || !keepsETag {
      let head = if let changing { Optional(changing.head) } else { try head(object.key, what, call) }
      guard let old = head, etag(old) == version(object) else {
        throw changed(what, "it has another version by now")
      }
      metadata = S3Metadata.headers(
        of: old, with: changing?.attributes ?? RemoteAttributes(), copyOf: keepsETag ? nil : object.etag)
    }
    if isWhole { return try copyWhole(object, to: target, if: condition, metadata, what, call) }
    do throws(ContainerError) {
      return try copyInParts(object, to: target, if: condition, metadata ?? [], what, call)
    } catch  where error.code == .notRepresentable && object.size <= Self.longestWholeCopy {
      // A store that copies no parts.
      return try copyWhole(object, to: target, if: condition, metadata, what, call)
    }
  }

  /// What a store copies in one piece at most.
  private static let longestWholeCopy: Int64 = 5 << 30

  private func version(_ object: S3Page.Object) -> Version { Version(Array(object.etag.utf8)) }

  func copySource(_ key: [UInt8]) -> String { "/\(percentEncoded(address.bucket))/\(percentEncoded(path: key))" }

  private func source(_ object: S3Page.Object) -> [(name: String, value: String)] {
    [
      ("x-amz-copy-source", copySource(object.key)), ("x-amz-copy-source-if-match", quoted(version(object))),
    ]
  }

  private func copyWhole(
    _ object: S3Page.Object, to target: [UInt8], if condition: Precondition,
    _ metadata: [(name: String, value: String)]?, _ what: String, _ call: CallContext
  ) throws(ContainerError) -> String {
    var request = S3Client.Request(method: "PUT", key: target, what: what)
    request.headers = source(object)
    if let metadata { request.headers += metadata + [("x-amz-metadata-directive", "REPLACE")] }
    // That of an object copied onto itself is the condition of the source.
    if condition == .absent, try rules(call).copiesKeepAbsent { request.headers.append(("If-None-Match", "*")) }
    return try etagOfCopy(try client.send(request, call), what)
  }

  /// Of a reply to a copy, or to the copy of a part.
  private func etagOfCopy(_ response: HTTPResponse, _ what: String) throws(ContainerError) -> String {
    // A store that has begun to answer before it knew says so in the body.
    guard response.isSuccess, S3Failure(response.body).code.isEmpty else { throw client.failure(response, what) }
    guard let etag = try text(of: "ETag", in: response, what).map(S3Page.bare), !etag.isEmpty else {
      throw ContainerError(.inconsistent, "\(what): the store tells no ETag of the copy")
    }
    learn(response)
    return etag
  }

  /// In the parts that an upload would have. What fails is taken away again.
  private func copyInParts(
    _ object: S3Page.Object, to target: [UInt8], if condition: Precondition,
    _ metadata: [(name: String, value: String)], _ what: String, _ call: CallContext
  ) throws(ContainerError) -> String {
    let plan = limits.plan(object.size)
    let id = try begin(target, metadata, what, call)
    do throws(ContainerError) {
      let parts = Guarded([String](repeating: "", count: plan.count))
      try inParallel(plan.count, width: Self.partsAtOnce) { index throws(ContainerError) in
        let range = plan.range(index)
        var request = S3Client.Request(
          method: "PUT", key: target, query: [("partNumber", "\(index + 1)"), ("uploadId", id)], what: what)
        request.headers =
          self.source(object) + [
            ("x-amz-copy-source-range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)")
          ]
        let etag = try self.etagOfCopy(try self.client.send(request, call), what)
        parts.withLock { $0[index] = etag }
        call.progress()
      }
      // Not all stores keep the condition of a part's source, and these would be parts of two versions.
      guard let now = try head(object.key, what, call), etag(now) == version(object) else {
        throw changed(what, "it has another version by now")
      }
      let conditions = try conditions(condition, target, what, call)
      let completion = Completion(key: target, id: id, parts: parts.withLock { $0 }, conditions: conditions)
      return try complete(completion, what, call) { response in client.failure(response, what) }
    } catch {
      abort(target, id, what)
      throw error
    }
  }

  /// The headers of a condition that the store keeps; one that it does not keep is looked at now.
  private func conditions(
    _ condition: Precondition, _ key: [UInt8], _ what: String, _ call: CallContext
  ) throws(ContainerError) -> [(name: String, value: String)] {
    let rules = try rules(call)
    switch condition {
    case .absent:
      if rules.keepsAbsent { return [("If-None-Match", "*")] }
      guard try head(key, what, call) == nil else { throw changed(what, "something is there") }
    case .version(let version):
      if rules.keepsVersion { return [("If-Match", quoted(version))] }
      guard let now = try head(key, what, call), etag(now) == version else {
        throw changed(what, "it has another version by now")
      }
    }
    return []
  }

  // MARK: - Proof

  /// Whether a copy may stand for its source: it is what the store said that it made, as long as the source, and where
  /// ETags are digests, of the same bytes. False: somebody has replaced it. One of other bytes is removed, and is an error.
  func isWhole(
    _ copy: S3Copy, _ found: S3Page.Object, _ what: String, _ call: CallContext
  ) throws(ContainerError) -> Bool {
    guard found.etag == copy.etag else { return false }
    let isAltered = isDigest(found.etag) && isDigest(copy.source.etag) && found.etag != copy.source.etag
    guard found.size != copy.source.size || isAltered else { return true }
    try deleteOne(S3Deletion(found), what, call)
    throw ContainerError(.inconsistent, "\(what): the store's copy has other bytes; the source is left")
  }

  /// Those of the copies, which are in the order of their keys, that may stand for their sources.
  func proven(_ copies: [S3Copy], below prefix: [UInt8], _ what: String, _ call: CallContext)
    throws(ContainerError) -> [S3Copy]
  {
    let listed = try listed(copies.map(\.target), below: prefix, what, call)
    let proven = Guarded<[S3Copy]>([])
    try inParallel(copies.count, width: 8) { index throws(ContainerError) in
      let copy = copies[index]
      var found = listed[copy.target]
      if found == nil, let response = try self.head(copy.target, what, call) {
        found = try self.object(copy.target, response, what)
      }
      if let found, try self.isWhole(copy, found, what, call) { proven.withLock { $0.append(copy) } }
    }
    return proven.withLock { $0 }
  }

  /// What a listing shows from the first of the keys on. Stores do not agree on where that is: a key that is missing
  /// here need not be missing there.
  private func listed(_ keys: [[UInt8]], below prefix: [UInt8], _ what: String, _ call: CallContext)
    throws(ContainerError) -> [[UInt8]: S3Page.Object]
  {
    guard keys.count > 8, let first = keys.first, let text = String(validating: first, as: UTF8.self) else {
      return [:]
    }
    let wanted = Set(keys)
    var found: [[UInt8]: S3Page.Object] = [:]
    // What is behind a text without its last character begins with that text, or is behind the text.
    let page = try page(
      prefix: prefix, delimiter: false, limit: Self.pageSize,
      afterKey: String(String.UnicodeScalarView(text.unicodeScalars.dropLast())), what, call)
    for object in page.objects where wanted.contains(object.key) { found[object.key] = object }
    return found
  }
}
