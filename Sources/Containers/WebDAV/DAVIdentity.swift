/// What a WebDAV server can do.
struct DAVRules: Equatable {
  /// It answers a PUT with the ETag that came of it.
  var tellsVersion: Bool
  /// `If-None-Match: *` refuses to replace.
  var keepsAbsent: Bool
  /// `If-Match` refuses another version, and takes the right one.
  var keepsVersion: Bool
  var hasLocks: Bool
  /// It keeps properties that it does not know.
  var holdsProperties: Bool
  /// A PUT that breaks off leaves what was there.
  var publishesWhole: Bool
}

extension WebDAVContainer {
  var hidden: ContainerPath { ContainerPath([hiddenName]) }
  private static let markerName = (try? ItemName("id")) ?? .root

  package func identify(create: Bool, _ call: CallContext) throws(ContainerError) -> ContainerID {
    let what = "cannot open \(url)"
    guard let root = try resource(.root, what, call), root.isFolder else {
      throw ContainerError(
        .unreachable, "\(what): there is no such folder at the server; make it first, or check the URL")
    }
    if let id = try readMarker(what, call) { return adopt(id) }
    guard create else {
      throw ContainerError(.identityMissing, "\(url) has no marker .docsfs-container/id: is it the right folder?")
    }
    _ = try rules(call)
    var request = client.request("PUT", hidden.appending(Self.markerName), what)
    request.headers = [("If-None-Match", "*")]
    request.body = .bytes(Array((ContainerID.random().text + "\n").utf8))
    let response = try client.send(request, call)
    guard response.isSuccess || response.status == 412 else { throw client.failure(response, what) }
    // If another device was quicker, its marker counts.
    guard let id = try readMarker(what, call) else {
      throw ContainerError(.inconsistent, "\(what): the marker that was written is not there")
    }
    return adopt(id)
  }

  private func adopt(_ id: ContainerID) -> ContainerID {
    known.withLock { known in
      if known.id == nil { known.id = id }
      if known.id == id { known.confirmed = Clock.now() }
    }
    return id
  }

  private func readMarker(_ what: String, _ call: CallContext) throws(ContainerError) -> ContainerID? {
    let response = try client.send(client.request("GET", hidden.appending(Self.markerName), what), call, limit: 1 << 16)
    if response.status == 404 || response.status == 410 { return nil }
    guard response.isSuccess else { throw client.failure(response, what) }
    let text = String(decoding: response.body.prefix(64).prefix { $0 != 0x0a }, as: UTF8.self)
    guard let id = ContainerID(text) else {
      throw ContainerError(
        .identityMissing, "the marker .docsfs-container/id of \(url) is damaged: put its 32 hex digits back")
    }
    return id
  }

  /// Before something is said to be gone: the folder is still there, and is the one that was identified.
  func confirm(_ call: CallContext) throws(ContainerError) {
    let (id, confirmed) = known.withLock { ($0.id, $0.confirmed) }
    // What was seen a moment ago serves for all names of a folder.
    guard let id, Clock.now() > confirmed &+ 200_000_000 else { return }
    guard let found = try readMarker("cannot open \(url)", call) else {
      throw ContainerError(.identityMissing, "\(url): its marker .docsfs-container/id is gone")
    }
    guard found == id else { throw ContainerError(.unreachable, "\(url): it is another container now") }
    _ = adopt(id)
  }

  // MARK: - What the server can do

  /// Tried out once, before the first change, on a file of docsfs's own.
  func rules(_ call: CallContext) throws(ContainerError) -> DAVRules {
    if let rules = known.withLock({ $0.rules }) { return rules }
    let rules = try trial(call)
    known.withLock { $0.rules = rules }
    return rules
  }

  package func tryOut(_ call: CallContext) throws(ContainerError) { _ = try rules(call) }

  private func trial(_ call: CallContext) throws(ContainerError) -> DAVRules {
    let what = "cannot write to \(url)"
    let made = try client.send(client.request("MKCOL", hidden, isFolder: true, what), call)
    // 405: it is there.
    guard made.isSuccess || made.status == 405 else { throw client.failure(made, what) }
    let path = hidden.appending(freshName("probe"))
    func put(_ text: String, _ header: String, _ value: String) throws(ContainerError) -> HTTPResponse {
      var request = client.request("PUT", path, what)
      request.headers = [(header, value)]
      request.body = .bytes(Array(text.utf8))
      return try client.send(request, call)
    }
    let first = try put("one", "If-None-Match", "*")
    guard first.isSuccess else { throw client.failure(first, what) }
    defer { _ = try? client.send(client.request("DELETE", path, what), call) }
    guard let found = try resource(path, what, call) else {
      throw ContainerError(.inconsistent, "\(what): what was written is not there")
    }
    var rules = DAVRules(
      tellsVersion: found.etag != nil && first["etag"].map { DAVMultistatus.etag($0).0 } == found.etag,
      keepsAbsent: try put("two", "If-None-Match", "*").status == 412,
      keepsVersion: try put("three", "If-Match", "\"none\"").status == 412, hasLocks: false, holdsProperties: false,
      publishesWhole: true)
    let now = try resource(path, what, call)
    if rules.keepsVersion, let etag = now?.etag {
      rules.keepsVersion = try put("four", "If-Match", "\"\(etag)\"").isSuccess
    }
    rules.publishesWhole = try isKept(path, what, call)
    let version = try resource(path, what, call)?.version ?? found.version
    try keep(RemoteAttributes(mode: 0o640), of: version, at: path, isFolder: false, what, call)
    rules.holdsProperties = try resource(path, what, call)?.attributes.mode == 0o640
    if !rules.publishesWhole { try removeRemains(found, what, call) }
    let options = try client.send(client.request("OPTIONS", path, what), call)
    rules.hasLocks = (options["dav"] ?? "").split(separator: ",").contains { $0.filter { $0 != " " } == "2" }
    return rules
  }

  /// Whether a file survives an upload that breaks off. A server may notice that late.
  private func isKept(_ path: ContainerPath, _ what: String, _ call: CallContext) throws(ContainerError) -> Bool {
    let before = try resource(path, what, call)
    var request = client.request("PUT", path, what)
    request.body = .source(BreakingSource(), 0..<BreakingSource.length)
    do throws(ContainerError) {
      _ = try client.send(request, call)
    } catch {
      guard error.code == .cancelled, !call.isCancelled else { throw error }
    }
    for _ in 0..<4 {
      let now = try resource(path, what, call)
      guard now?.version == before?.version, now?.size == before?.size else { return false }
      try call.sleep(0.03, what)
    }
    return true
  }

  /// What processes that were killed have left of uploads, a day and more ago by the server's clock.
  private func removeRemains(_ now: DAVResource, _ what: String, _ call: CallContext) throws(ContainerError) {
    guard let clock = now.changed.flatMap(seconds(ofHTTPDate:)) else { return }
    let found = Guarded<[ItemName]>([])
    _ = try find(hidden, isFolder: true, depth: 1, what, call) { resource in
      guard let name = resource.names.last.flatMap({ try? ItemName($0) }), !resource.isFolder,
        name.bytes.starts(with: Array("upload-".utf8)),
        let changed = resource.changed.flatMap(seconds(ofHTTPDate:)), changed < clock - 86_400
      else { return }
      found.withLock { $0.append(name) }
    }
    for name in found.withLock({ $0 }) {
      _ = try? client.send(client.request("DELETE", hidden.appending(name), what), call)
    }
  }

  /// A name in the hidden folder that nobody has.
  func freshName(_ kind: String) -> ItemName { (try? ItemName("\(kind)-\(ContainerID.random().text)")) ?? .root }

  // MARK: - Locks

  /// Runs `body` with an exclusive lock on a resource, waiting for whoever has it. A lock of a process that dies ends by
  /// itself.
  func withLock<R>(
    _ path: ContainerPath, _ what: String, _ call: CallContext, _ body: (String) throws(ContainerError) -> R
  ) throws(ContainerError) -> R {
    let token = try lock(path, what, call)
    defer {
      unlock(path, token, what)
      remember(path, token)
    }
    return try body(token)
  }

  /// Apache's list of locks is not safe against itself: one that was given back may stand there again when another
  /// request wrote the list at the same moment. What a change is refused for may be such a lock of our own.
  func giveBackAgain(under path: ContainerPath, _ what: String) {
    let mine = known.withLock { known in known.locks.filter { $0.path.names.starts(with: path.names) } }
    for lock in mine { unlock(lock.path, lock.token, what) }
  }

  private func remember(_ path: ContainerPath, _ token: String) {
    let now = Clock.now()
    known.withLock { known in
      known.locks.removeAll { $0.until < now }
      known.locks.append((path, token, now + UInt64(Self.lockSeconds) * 1_000_000_000))
    }
  }

  private static let lockSeconds = 60

  /// Also for a call that was cancelled, and again where the server fails: a lock that stays keeps everybody away until its
  /// time is over.
  private func unlock(_ path: ContainerPath, _ token: String, _ what: String) {
    var request = client.request("UNLOCK", path, what)
    request.headers = [("Lock-Token", "<\(token)>")]
    let call = CallContext(timeout: 10)
    for pause in [0.05, 0.2, 0.5, 1] {
      if let response = try? client.send(request, call), response.status < 500 { return }
      guard (try? call.sleep(pause, what)) != nil else { return }
    }
  }

  private func lock(_ path: ContainerPath, _ what: String, _ call: CallContext) throws(ContainerError) -> String {
    var request = client.request("LOCK", path, what)
    request.headers = [
      ("Depth", "0"), ("Timeout", "Second-\(Self.lockSeconds)"), ("Content-Type", "application/xml; charset=utf-8"),
    ]
    request.body = .bytes(
      Array(
        """
        <?xml version="1.0" encoding="utf-8"?><lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope>\
        <locktype><write/></locktype><owner>docsfs</owner></lockinfo>
        """.utf8))
    var refusals = 0
    while true {
      try call.check(what)
      // To its end, whoever cancels: a lock whose token nobody has heard would stand until its time is over.
      let response = try client.send(request, CallContext(timeout: 10))
      if response.status == 423 {
        if refusals % 20 == 0 { giveBackAgain(under: path, what) }
        refusals += 1
        try call.sleep(Double.random(in: 0.01...0.05), what)
        continue
      }
      if response.status == 409 { throw ContainerError(.notFound, "\(what): its folder is gone") }
      guard response.isSuccess else { throw client.failure(response, what) }
      let token = (response["lock-token"] ?? "").filter { $0 != "<" && $0 != ">" && $0 != " " }
      guard !token.isEmpty, token.utf8.count < 256, token.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
        throw ContainerError(.inconsistent, "\(what): the server gives no lock")
      }
      return token
    }
  }
}

/// An upload whose connection breaks in the middle.
private struct BreakingSource: UploadSource {
  static let length: Int64 = 64 << 10

  var size: Int64 { Self.length }
  var sha256: [UInt8]? { nil }
  func isStillCurrent() -> Bool { true }
  func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ContainerError) -> Int {
    guard offset < Self.length / 2 else { throw ContainerError(.cancelled, "broken off") }
    let piece = buffer.prefix(Int(Self.length / 2 - offset))
    for index in piece.indices { buffer[index] = 0x78 }
    return piece.count
  }
}
