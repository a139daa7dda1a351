import Glibc

/// Which conditions of a change a store keeps.
struct S3Rules: Equatable {
  /// `If-None-Match: *` refuses to replace.
  var keepsAbsent: Bool
  /// `If-Match` refuses another version, and takes the right one.
  var keepsVersion: Bool
  /// `If-None-Match: *` refuses to replace by a copy.
  var copiesKeepAbsent = false
  var manyDeletes = ManyDeletes.none

  /// What a request that removes many objects at once does.
  enum ManyDeletes {
    /// There is none.
    case none
    /// It removes them, whatever version they have.
    case anyVersion
    /// It keeps what has another version than the one it names.
    case thatVersion
  }
}

extension S3Container {
  var markerKey: [UInt8] { address.key(ContainerPath([hiddenName])) + Array("/id".utf8) }

  package func identify(create: Bool, _ call: CallContext) throws(ContainerError) -> ContainerID {
    let what = "cannot open \(url)"
    if let marker = try readMarker(what, call) { return adopt(marker) }
    guard create else {
      throw ContainerError(.identityMissing, "\(url) has no marker .docsfs-container/id: is it the right bucket?")
    }
    let rules = try rules(call)
    var request = S3Client.Request(method: "PUT", key: markerKey, what: what)
    request.body = .bytes(Array((ContainerID.random().text + "\n").utf8))
    if rules.keepsAbsent { request.headers = [("If-None-Match", "*")] }
    let response = try client.send(request, call)
    guard response.isSuccess || response.status == 412 else { throw client.failure(response, what) }
    // If another device was quicker, its marker counts.
    guard let marker = try readMarker(what, call) else {
      throw ContainerError(.inconsistent, "\(what): the marker that was written is not there")
    }
    return adopt(marker)
  }

  private func adopt(_ marker: (id: ContainerID, etag: String)) -> ContainerID {
    known.withLock { known in
      guard known.id == nil || known.id == marker.id else { return }
      known.id = marker.id
      known.markerETag = marker.etag
      known.confirmed = Clock.now()
    }
    return marker.id
  }

  private func readMarker(_ what: String, _ call: CallContext) throws(ContainerError) -> (
    id: ContainerID, etag: String
  )? {
    let response = try client.send(.init(method: "GET", key: markerKey, what: what), call, limit: 1 << 16)
    if response.status == 404 || !response.isSuccess, S3Failure(response.body).code.isEmpty {
      if response["x-amz-bucket-region"] != nil { throw client.failure(response, what) }
      if response.status == 401 || response.status >= 500 { throw response.error(what) }
      throw ContainerError(
        .unreachable, "\(what): \(address.endpoint) does not answer as an S3 store; check endpoint=")
    }
    if response.status == 404, S3Failure(response.body).code == "NoSuchKey" { return nil }
    guard response.isSuccess else { throw client.failure(response, what) }
    let text = String(decoding: response.body.prefix(64).prefix { $0 != 0x0a }, as: UTF8.self)
    guard let id = ContainerID(text) else {
      throw ContainerError(
        .identityMissing, "the marker .docsfs-container/id of \(url) is damaged: put its 32 hex digits back")
    }
    let isMD5 = S3Page.bare(response["etag"] ?? "") == hex(Digest.of(response.body, .md5))
    known.withLock { $0.etagsAreMD5 = isMD5 }
    learn(response)
    return (id, response["etag"] ?? "")
  }

  /// Before something is said to be gone: the bucket is still there, and is the one that was identified.
  func confirm(_ call: CallContext) throws(ContainerError) {
    let (id, etag, confirmed) = known.withLock { ($0.id, $0.markerETag, $0.confirmed) }
    // What was seen a moment ago serves for all names of a folder.
    guard let id, Clock.now() > confirmed &+ 200_000_000 else { return }
    let what = "cannot open \(url)"
    let response = try head(markerKey, what, call)
    if let response, let found = response["etag"], found == etag {
      return known.withLock { $0.confirmed = Clock.now() }
    }
    guard let marker = try readMarker(what, call) else {
      throw ContainerError(.identityMissing, "\(url): its marker .docsfs-container/id is gone")
    }
    guard marker.id == id else { throw ContainerError(.unreachable, "\(url): it is another container now") }
    _ = adopt(marker)
  }

  // MARK: - What the store keeps

  /// Tried out once, before the first change, on an object of docsfs's own.
  func rules(_ call: CallContext) throws(ContainerError) -> S3Rules {
    if let rules = known.withLock({ $0.rules }) { return rules }
    let rules = try trial(call)
    known.withLock { $0.rules = rules }
    return rules
  }

  package func tryOut(_ call: CallContext) throws(ContainerError) { _ = try rules(call) }

  private func trial(_ call: CallContext) throws(ContainerError) -> S3Rules {
    let key = probeKey + Array(ContainerID.random().text.utf8)
    let what = "cannot write to \(url)"
    func put(_ text: String, _ header: String, _ value: String) throws(ContainerError) -> HTTPResponse {
      var request = S3Client.Request(method: "PUT", key: key, what: what)
      request.body = .bytes(Array(text.utf8))
      if !header.isEmpty { request.headers = [(header, value)] }
      return try client.send(request, call)
    }
    let first = try put("one", "", "")
    guard first.isSuccess else { throw client.failure(first, what) }
    defer { _ = try? client.send(.init(method: "DELETE", key: key, what: what), call) }
    let keepsAbsent = try put("two", "If-None-Match", "*").status == 412
    let refusesWrong = try put("three", "If-Match", "\"\(String(repeating: "0", count: 32))\"").status == 412
    let etag = try head(key, what, call)?["etag"] ?? ""
    let takesRight = try put("four", "If-Match", etag).isSuccess
    return S3Rules(
      keepsAbsent: keepsAbsent, keepsVersion: refusesWrong && takesRight,
      copiesKeepAbsent: try tryCopy(key, what, call), manyDeletes: try tryManyDeletes(key, what, call))
  }

  /// What trials are made on; their names follow.
  var probeKey: [UInt8] { address.key(ContainerPath([hiddenName])) + Array("/probe-".utf8) }

  private func tryCopy(_ key: [UInt8], _ what: String, _ call: CallContext) throws(ContainerError) -> Bool {
    var request = S3Client.Request(method: "PUT", key: key, what: what)
    request.headers = [
      ("x-amz-copy-source", copySource(key)), ("x-amz-metadata-directive", "REPLACE"), ("If-None-Match", "*"),
    ]
    return try client.send(request, call).status == 412
  }

  private func tryManyDeletes(_ key: [UInt8], _ what: String, _ call: CallContext) throws(ContainerError)
    -> S3Rules.ManyDeletes
  {
    func outcome(_ etag: String) throws(ContainerError) -> String? {
      try deleteMany([S3Deletion(key: key, etag: etag)], what, call)?[key]
    }
    switch try outcome(String(repeating: "0", count: 32)) {
    case "": return .anyVersion
    case "PreconditionFailed":
      guard let now = try head(key, what, call).flatMap({ etag($0) }) else { return .none }
      return try outcome(String(decoding: now.bytes, as: UTF8.self)) == "" ? .thatVersion : .none
    default: return .none
    }
  }
}
