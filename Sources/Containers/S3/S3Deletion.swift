/// An object to be removed; `etag` nil: whatever version it has.
struct S3Deletion: Sendable {
  var key: [UInt8]
  var etag: String?

  init(key: [UInt8], etag: String?) { (self.key, self.etag) = (key, etag) }
  init(_ object: S3Page.Object) { (key, etag) = (object.key, object.etag) }
}

extension S3Container {
  package func remove(_ path: ContainerPath, kind: ItemKind, version: Version?, _ call: CallContext)
    throws(ContainerError)
  {
    let what = "cannot remove \(path)"
    _ = try requireName(what, path)
    let key = address.key(path)
    if let found = try head(key, what, call) {
      guard kind == .file, version == nil || etag(found) == version else {
        throw changed(what, "it is something else by now")
      }
      try keepFolder(path.parent, besides: key, what, call)
      return try delete(key, etag(found), what, call)
    }
    let inside = try inside(path, limit: 2, what, call)
    guard !inside.isEmpty else {
      try confirm(call)
      throw ContainerError(.notFound, "\(what): not found")
    }
    guard kind == .folder else { throw changed(what, "it is a folder by now") }
    guard isBare(inside, address.folderKey(path)) else { throw ContainerError(.notEmpty, "\(what): it is not empty") }
    try keepFolder(path.parent, besides: address.folderKey(path), what, call)
    try delete(address.folderKey(path), nil, what, call)
    forgetFolders(below: path)
  }

  /// An object of that version; it is gone is no failure.
  func delete(_ key: [UInt8], _ version: Version?, _ what: String, _ call: CallContext) throws(ContainerError) {
    var request = S3Client.Request(method: "DELETE", key: key, what: what)
    if let version, try rules(call).keepsVersion { request.headers = [("If-Match", quoted(version))] }
    let response = try client.send(request, call)
    guard response.isSuccess || response.status == 404 else { throw client.failure(response, what) }
  }

  /// Whether nothing but `key` is on a page.
  func isBare(_ page: S3Page, _ key: [UInt8]) -> Bool {
    (page.objects.map(\.key) + page.prefixes).allSatisfy { $0 == key }
  }

  /// A folder without a marker is there only as long as something is in it.
  func keepFolder(_ folder: ContainerPath, besides key: [UInt8], _ what: String, _ call: CallContext)
    throws(ContainerError)
  {
    guard !folder.isRoot else { return }
    guard try isBare(inside(folder, limit: 2, what, call), key) else { return }
    try putMarker(folder, RemoteAttributes(mtime: .now()), isNew: false, what, call)
  }

  // MARK: - Many at once

  private static let mostDeletions = 1_000

  /// Removes objects of just these versions; what has another by now stays, and is no failure. Many go with one request
  /// where the store has such a one that looks at their versions; where not, each is looked at right before.
  func delete(_ objects: [S3Page.Object], _ what: String, _ call: CallContext) throws(ContainerError) {
    try delete(objects.map { S3Deletion($0) }, atOnceIf: [.thatVersion], what, call)
  }

  /// Removes the markers of folders, in that order, whatever version they have: there is nothing in them.
  func deleteMarkers(_ keys: [[UInt8]], _ what: String, _ call: CallContext) throws(ContainerError) {
    let markers = keys.map { S3Deletion(key: $0, etag: nil) }
    try delete(markers, atOnceIf: [.thatVersion, .anyVersion], what, call)
  }

  private func delete(
    _ deletions: [S3Deletion], atOnceIf kinds: [S3Rules.ManyDeletes], _ what: String, _ call: CallContext
  ) throws(ContainerError) {
    var rest = deletions[...]
    let goTogether = try kinds.contains(rules(call).manyDeletes)
    while !rest.isEmpty {
      let batch = Array(rest.prefix(Self.mostDeletions))
      rest = rest.dropFirst(batch.count)
      let outcomes = goTogether && batch.count > 1 ? try deleteMany(batch, what, call) ?? [:] : [:]
      // What the store says nothing of, or could not do, goes by itself, and says itself why it cannot.
      let left = batch.filter { !["", "NoSuchKey", "PreconditionFailed"].contains(outcomes[$0.key]) }
      try inParallel(left.count, width: left.first?.etag == nil ? 1 : 8) { index throws(ContainerError) in
        try self.deleteOne(left[index], what, call)
        call.progress()
      }
      call.progress()
    }
  }

  /// As `delete` of many, with one.
  func deleteOne(_ deletion: S3Deletion, _ what: String, _ call: CallContext) throws(ContainerError) {
    guard let wanted = deletion.etag.map({ Version(Array($0.utf8)) }) else {
      return try delete(deletion.key, nil, what, call)
    }
    guard let now = try head(deletion.key, what, call), etag(now) == wanted else { return }
    do throws(ContainerError) {
      try delete(deletion.key, wanted, what, call)
    } catch  where error.code == .preconditionFailed {}
  }

  /// DeleteObjects: what became of each key, an error's code or "" for none. Keys that XML cannot hold are not asked
  /// for. nil: the store has no such request.
  func deleteMany(_ deletions: [S3Deletion], _ what: String, _ call: CallContext) throws(ContainerError)
    -> [[UInt8]: String]?
  {
    let objects = deletions.compactMap { deletion -> String? in
      guard let key = xmlText(deletion.key) else { return nil }
      let etag = deletion.etag.flatMap { xmlText(Array("\"\($0)\"".utf8)) }
      return "<Object><Key>\(key)</Key>\(etag.map { "<ETag>\($0)</ETag>" } ?? "")</Object>"
    }
    guard !objects.isEmpty else { return [:] }
    let body = Array(
      "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\(objects.joined())</Delete>".utf8)
    var request = S3Client.Request(method: "POST", query: [("delete", "")], what: what)
    request.body = .bytes(body)
    request.headers = [("Content-MD5", base64(Digest.of(body, .md5))), ("Content-Type", "application/xml")]
    let response = try client.send(request, call, limit: 4 << 20)
    if [400, 404, 405, 501].contains(response.status) { return nil }
    guard response.isSuccess, S3Failure(response.body).code.isEmpty else { throw client.failure(response, what) }
    var outcomes: [[UInt8]: String] = [:]
    var (key, code) = ([UInt8](), "")
    for case .end(let name, let text) in try XMLReader.read(response.body, what) {
      switch localName(name) {
      case "Key": key = Array(text.utf8)
      case "Code": code = text
      case "Deleted": outcomes[key] = ""
      case "Error":
        outcomes[key] = code.isEmpty ? "unknown" : code
        code = ""
      default: break
      }
    }
    return outcomes
  }
}

/// `bytes` as character data of XML 1.0; nil for what it cannot hold: control characters, and what is no UTF-8.
private func xmlText(_ bytes: [UInt8]) -> String? {
  guard let text = String(validating: bytes, as: UTF8.self) else { return nil }
  var escaped = ""
  for scalar in text.unicodeScalars {
    switch scalar {
    case "<": escaped += "&lt;"
    case ">": escaped += "&gt;"
    case "&": escaped += "&amp;"
    case "\"": escaped += "&quot;"
    // A parser would make blanks of them.
    case "\t", "\n", "\r": escaped += "&#\(scalar.value);"
    case "\u{0}"..<" ", "\u{fffe}", "\u{ffff}": return nil
    default: escaped.unicodeScalars.append(scalar)
    }
  }
  return escaped
}
