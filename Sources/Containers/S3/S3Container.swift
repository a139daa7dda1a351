import Glibc

/// A container that is a bucket of an S3 store, or what lies under a prefix in it.
///
/// A file is an object under its path; its version is its ETag. A folder is whatever keys have in common up to a slash;
/// one that docsfs makes, or empties, has a marker: an empty object whose key ends with a slash, as others write it.
/// Keys that are no path (`a//b`, `..`), and those below an object that is a file, are not shown and keep their folder
/// from being removed. Times and modes are metadata, see `S3Metadata`.
///
/// Changes carry conditions where the store keeps them, which is tried out before the first; where it does not, what is
/// there is looked at right before. Attributes of users it cannot hold, symlinks only
/// as a `LinkFileContainer` over it makes them.
package final class S3Container: Container {
  package let url: String
  let client: S3Client
  let limits: S3Limits
  let known = Guarded(Known())

  struct Known {
    var id: ContainerID?
    var markerETag = ""
    /// When the marker was last seen (CLOCK_MONOTONIC ns).
    var confirmed: UInt64 = 0
    var rules: S3Rules?
    /// Folders that are known to be there, until then.
    var folders: [ContainerPath: UInt64] = [:]
    /// Attributes of objects, by a hash of key, size, ETag and time of the last change: a listing has none, and a
    /// poll must not ask for a million of them again. In 64 bits a million objects have a chance of 1 in 30 million
    /// that two are taken for one another, which would show one file's time at another.
    var attributes: [Int: ObjectAttributes] = [:]
    var isTidy = false
    /// ETags of objects that came in one piece are MD5s here; what the store encrypts itself takes that back.
    var etagsAreMD5 = false
  }

  /// As few bytes as will do: there may be a million.
  struct ObjectAttributes {
    var mtime: Timestamp
    var mode: UInt32?
  }

  init(
    _ address: S3Address, limits: S3Limits = S3Limits(), settings: @escaping @Sendable () -> AWSSettings
  ) {
    self.limits = limits
    client = S3Client(address, settings: settings)
    url = address.url
  }

  package var traits: ContainerTraits {
    var traits = ContainerTraits(hasIdentities: false, holdsMode: true, holdsXattrs: false, holdsSymlinks: false)
    traits.attributesChangeAlone = true
    if let rules = known.withLock({ $0.rules }) {
      let isStrong = rules.keepsAbsent && rules.keepsVersion
      traits.weakness = !isStrong ? Self.weakness : rules.copiesKeepAbsent ? nil : Self.copyWeakness
    }
    return traits
  }

  /// Of a container that checks before it writes.
  static let weakness =
    "the server keeps no conditions: of what two devices change in the same moment, one change may be lost"
  private static let copyWeakness =
    "the server copies without conditions: a file that another device makes just where one is renamed to may be lost"

  var address: S3Address { client.address }

  // MARK: - Questions

  package func item(at path: ContainerPath, _ call: CallContext) throws(ContainerError) -> RemoteItem? {
    guard let name = path.last else { return folderItem(.root, RemoteAttributes()) }
    // No key of a store has bytes that are no text.
    if path.names.first == hiddenName || !isText(path) { return nil }
    let what = "cannot look at \(path)"
    if let response = try head(path, what, call) { return try file(name, response, what) }
    if let attributes = try folderAttributes(path, what, call) { return folderItem(name, attributes) }
    try confirm(call)
    return nil
  }

  package func checksum(of version: Version) -> ContentDigest? {
    guard version.bytes.count == 32, known.withLock({ $0.etagsAreMD5 }) else { return nil }
    return hexDecoded(version.bytes).map { ContentDigest(.md5, $0) }
  }

  /// Whether an ETag is the MD5 of the bytes, which a copy then has as well.
  func isDigest(_ etag: String) -> Bool { checksum(of: Version(Array(etag.utf8))) != nil }

  /// A store that encrypts with a key of its own has ETags that are no digests.
  func learn(_ response: HTTPResponse) {
    let isSealed =
      response["x-amz-server-side-encryption"]?.hasPrefix("aws:kms") == true
      || response["x-amz-server-side-encryption-customer-algorithm"] != nil
    if isSealed { known.withLock { $0.etagsAreMD5 = false } }
  }

  package func quota(_ call: CallContext) throws(ContainerError) -> Quota? { nil }

  package func changeFeed(_ handler: @escaping @Sendable ([ChangeHint]) -> Void) -> (any ChangeFeed)? { nil }

  package func read(
    _ path: ContainerPath, version: Version, range: Range<Int64>, _ call: CallContext,
    sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) {
    let what = "cannot read \(path)"
    try refuseHidden(what, path, .notFound)
    guard !range.isEmpty else {
      guard let response = try head(path, what, call) else { throw ContainerError(.notFound, "\(what): not found") }
      guard etag(response) == version else { throw ContainerError(.versionChanged, "\(what): it has changed") }
      return
    }
    var request = S3Client.Request(method: "GET", key: address.key(path), what: what)
    request.headers = [
      RangedBody.header(range), ("If-Match", quoted(version)),
    ]
    var body = RangedBody(range)
    let response = try client.stream(request, call) { response throws(ContainerError) in
      guard response.isSuccess else { return false }
      self.learn(response)
      // A store that ignores conditions.
      guard self.etag(response) == version else { throw ContainerError(.versionChanged, "\(what): it has changed") }
      try body.begin(response, what)
      return true
    } sink: { piece throws(ContainerError) in
      try body.take(piece, sink)
    }
    try body.finish(response, what) { client.failure(response, what) }
  }

  // MARK: - Items

  /// nil when there is no such object.
  func head(_ path: ContainerPath, _ what: String, _ call: CallContext) throws(ContainerError) -> HTTPResponse? {
    try head(address.key(path), what, call)
  }

  func head(_ key: [UInt8], _ what: String, _ call: CallContext) throws(ContainerError) -> HTTPResponse? {
    let response = try client.send(.init(method: "HEAD", key: key, what: what), call)
    if response.status == 404 { return nil }
    guard response.isSuccess else { throw client.failure(response, what) }
    learn(response)
    return response
  }

  /// Whether keys lie below `path`, and what its marker has; nil when none do.
  private func folderAttributes(_ path: ContainerPath, _ what: String, _ call: CallContext) throws(ContainerError)
    -> RemoteAttributes?
  {
    let key = address.folderKey(path)
    let page = try inside(path, limit: 1, what, call)
    guard let first = page.objects.first?.key ?? page.prefixes.first else { return nil }
    noteFolder(path)
    guard first == key else { return RemoteAttributes() }
    return try head(key, what, call).map { S3Metadata.attributes($0) } ?? RemoteAttributes()
  }

  func isFolder(_ path: ContainerPath, _ what: String, _ call: CallContext) throws(ContainerError) -> Bool {
    if path.isRoot { return true }
    return try !inside(path, limit: 1, what, call).isEmpty
  }

  /// With the delimiter, as a listing: a store that keeps real folders shows empty ones so, and not otherwise.
  func inside(_ path: ContainerPath, limit: Int, _ what: String, _ call: CallContext) throws(ContainerError) -> S3Page {
    try page(prefix: address.folderKey(path), delimiter: true, limit: limit, what, call)
  }

  func file(_ name: ItemName, _ response: HTTPResponse, _ what: String) throws(ContainerError) -> RemoteItem {
    let object = try object([], response, what)
    return RemoteItem(
      name: name, kind: .file, size: object.size, version: Version(Array(object.etag.utf8)),
      attributes: S3Metadata.attributes(response))
  }

  /// All versions of a folder are one: nothing of it but its marker's metadata can change.
  func folderItem(_ name: ItemName, _ attributes: RemoteAttributes) -> RemoteItem {
    RemoteItem(name: name, kind: .folder, size: 0, version: Version(Array("folder".utf8)), attributes: attributes)
  }

  func etag(_ response: HTTPResponse) -> Version? {
    guard let text = response["etag"].map(S3Page.bare), !text.isEmpty else { return nil }
    return Version(Array(text.utf8))
  }

  func quoted(_ version: Version) -> String { "\"" + String(decoding: version.bytes, as: UTF8.self) + "\"" }

  // MARK: - Names

  static let longestKey = 1_024

  private func isText(_ path: ContainerPath) -> Bool { String(validating: path.bytes, as: UTF8.self) != nil }

  func refuseHidden(_ what: String, _ path: ContainerPath, _ code: ContainerError.Code) throws(ContainerError) {
    guard path.names.first == hiddenName else { return }
    throw ContainerError(code, "\(what): the name is docsfs's own")
  }

  func requireName(_ what: String, _ path: ContainerPath) throws(ContainerError) -> ItemName {
    try refuseHidden(what, path, .notRepresentable)
    guard let name = path.last else { throw ContainerError(.notRepresentable, "\(what): it is the root") }
    guard isText(path) else {
      throw ContainerError(.notRepresentable, "\(what): the store takes no name that is not UTF-8; rename it")
    }
    guard address.folderKey(path).count <= Self.longestKey else {
      throw ContainerError(
        .notRepresentable, "\(what): the path is longer than the \(Self.longestKey) bytes of a key")
    }
    return name
  }

  /// `.notFound` unless the folder that `path` is to be in is there.
  func requireParent(_ path: ContainerPath, _ what: String, _ call: CallContext) throws(ContainerError) {
    let parent = path.parent
    if parent.isRoot || known.withLock({ $0.folders[parent].map { $0 > Clock.now() } ?? false }) { return }
    guard try item(at: parent, call)?.kind == .folder else {
      throw ContainerError(.notFound, "\(what): there is no folder \(parent)")
    }
  }

  /// For some seconds it need not be looked for again: the worst that comes of it is a file that brings its folder back.
  func noteFolder(_ path: ContainerPath) {
    known.withLock { known in
      if known.folders.count > 10_000 { known.folders = [:] }
      known.folders[path] = Clock.now() &+ 10_000_000_000
    }
  }

  func forgetFolders(below path: ContainerPath) {
    known.withLock { $0.folders = $0.folders.filter { !$0.key.names.starts(with: path.names) } }
  }
}
