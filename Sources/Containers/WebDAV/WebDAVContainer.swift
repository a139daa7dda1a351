/// A container that is a folder of a WebDAV server.
///
/// A file's version is its ETag. Times and modes are a property of docsfs's own, bound to the version that they belong to;
/// on servers that know `X-OC-Mtime` (Nextcloud, ownCloud) the file itself has the time, to the second.
///
/// Files are put with conditions. Where the server does not keep them, or does not say which version came of it, a lock
/// keeps others away meanwhile; where it has no locks either, what is there is looked at right before. On a server that
/// would leave a part of an upload that breaks off, files go into docsfs's own folder first, and are moved from there.
///
/// Attributes of users it cannot hold, symlinks only as a `LinkFileContainer` over it makes them.
package final class WebDAVContainer: Container {
  package let url: String
  let client: DAVClient
  let known = Guarded(Known())

  struct Known {
    /// Those that were given back, until they are over.
    var locks: [(path: ContainerPath, token: String, until: UInt64)] = []
    var id: ContainerID?
    /// When the marker was last seen (CLOCK_MONOTONIC ns).
    var confirmed: UInt64 = 0
    var rules: DAVRules?
    /// By version; nil within: it told different ones.
    var checksums: [Version: ContentDigest?] = [:]
    /// nil: nothing was downloaded yet.
    var tellsChecksums: Bool?
    static let mostChecksums = 20_000
  }

  init(_ address: DAVAddress, credentials: DAVCredentials?) {
    client = DAVClient(address, credentials)
    url = address.url
  }

  package var traits: ContainerTraits {
    let (rules, tellsChecksums) = known.withLock { ($0.rules, $0.tellsChecksums) }
    var traits = ContainerTraits(
      hasIdentities: false, holdsMode: rules?.holdsProperties ?? true, holdsXattrs: false, holdsSymlinks: false)
    var weaknesses: [String] = []
    if let rules, !rules.hasLocks, !(rules.tellsVersion && rules.keepsAbsent && rules.keepsVersion) {
      weaknesses.append(S3Container.weakness)
    }
    if tellsChecksums == false { weaknesses.append(Self.noChecksums) }
    traits.weakness = weaknesses.isEmpty ? nil : weaknesses.joined(separator: "; ")
    return traits
  }

  static let noChecksums = "it gives no checksums: of a download, length and version are what is checked"

  var address: DAVAddress { client.address }

  // MARK: - Questions

  package func item(at path: ContainerPath, _ call: CallContext) throws(ContainerError) -> RemoteItem? {
    if path.names.first == hiddenName { return nil }
    let what = "cannot look at \(path)"
    guard let found = try resource(path, what, call) else {
      try confirm(call)
      return nil
    }
    return item(path.last ?? .root, found)
  }

  package func list(_ folder: ContainerPath, _ call: CallContext) throws(ContainerError) -> [RemoteItem] {
    let what = "cannot list \(folder)"
    try refuseHidden(what, folder, .notFound)
    let depth = address.names.count + folder.names.count
    let prefix = address.names + folder.names.map(\.bytes)
    let items = Guarded<[RemoteItem]>([])
    let isFolder = Guarded(false)
    let isThere = try findFolder(folder, what, call) { found in
      guard found.names.starts(with: prefix) else { return }
      if found.names.count == depth { isFolder.withLock { $0 = found.isFolder } }
      // What is no name in this folder is not shown, and stays.
      guard found.names.count == depth + 1, let name = try? ItemName(found.names[depth]) else { return }
      if folder.isRoot, name == hiddenName { return }
      items.withLock { $0.append(self.item(name, found)) }
    }
    guard isThere, isFolder.withLock({ $0 }) else {
      try confirm(call)
      throw ContainerError(.notFound, "\(what): not found")
    }
    if folder.isRoot { try confirm(call) }
    return items.withLock { $0 }
  }

  package func checksum(of version: Version) -> ContentDigest? {
    known.withLock { $0.checksums[version] ?? nil }
  }

  /// What the server says a version's bytes add up to. One that says two things of one version is not believed: its
  /// ETags are not one file's alone.
  func learn(_ checksum: ContentDigest?, of version: Version) {
    guard let checksum else { return }
    known.withLock { known in
      known.tellsChecksums = true
      if known.checksums.count > Known.mostChecksums { known.checksums = [:] }
      guard let before = known.checksums[version] else { return known.checksums[version] = .some(checksum) }
      if let before, before.algorithm == checksum.algorithm, before != checksum {
        known.checksums[version] = .some(nil)
      }
    }
  }

  package func quota(_ call: CallContext) throws(ContainerError) -> Quota? {
    guard let root = try resource(.root, "cannot ask for the room of \(url)", call), let free = root.quotaFree,
      free >= 0
    else { return nil }
    let (total, isOver) = free.addingReportingOverflow(max(0, root.quotaUsed ?? 0))
    return Quota(total: isOver ? free : total, free: free)
  }

  package func changeFeed(_ handler: @escaping @Sendable ([ChangeHint]) -> Void) -> (any ChangeFeed)? {
    DAVChangeFeed(self, handler)
  }

  package func read(
    _ path: ContainerPath, version: Version, range: Range<Int64>, _ call: CallContext,
    sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) {
    let what = "cannot read \(path)"
    try refuseHidden(what, path, .notFound)
    guard !range.isEmpty else {
      guard let found = try resource(path, what, call) else { throw ContainerError(.notFound, "\(what): not found") }
      guard found.version == version else { throw ContainerError(.versionChanged, "\(what): it has changed") }
      return
    }
    var request = client.request("GET", path, what)
    request.followsRedirects = true
    request.headers = [RangedBody.header(range)]
    // A server may have to read the whole file for that: it is asked until it has said it.
    if checksum(of: version) == nil { request.headers += ContentDigest.wanted }
    var body = RangedBody(range)
    let response = try client.stream(request, call) { response throws(ContainerError) in
      guard response.isSuccess else { return false }
      guard self.version(response) == version else {
        throw ContainerError(.versionChanged, "\(what): it has changed")
      }
      self.learn(from: response, version)
      try body.begin(response, what)
      return true
    } sink: { piece throws(ContainerError) in
      try body.take(piece, sink)
    }
    try body.finish(response, what) { client.failure(response, what) }
  }

  private func learn(from response: HTTPResponse, _ version: Version) {
    if response["etag"] != nil { learn(ContentDigest(of: response), of: version) }
    let isKnown = checksum(of: version) != nil
    known.withLock { if $0.tellsChecksums != true { $0.tellsChecksums = isKnown } }
  }

  /// The version that a GET answers with, as PROPFIND tells it.
  private func version(_ response: HTTPResponse) -> Version {
    var found = DAVResource()
    found.etag = response["etag"].flatMap { DAVMultistatus.etag($0).0 }
    found.changed = response["last-modified"]
    let total = response["content-range"]?.split(separator: "/").last ?? response["content-length"].map { $0[...] }
    found.size = total.flatMap { Int64($0) }
    return found.version
  }

  // MARK: - Resources

  /// nil when nothing is there.
  func resource(_ path: ContainerPath, _ what: String, _ call: CallContext) throws(ContainerError) -> DAVResource? {
    let found = Guarded<DAVResource?>(nil)
    let isThere = try find(path, isFolder: path.isRoot, depth: 0, what, call) { resource in
      found.withLock { if $0 == nil { $0 = resource } }
    }
    return isThere ? found.withLock { $0 } : nil
  }

  /// A folder and what is in it; false when there is no such folder. What servers say of a file's name with a slash
  /// differs.
  private func findFolder(
    _ path: ContainerPath, _ what: String, _ call: CallContext, _ each: @escaping (DAVResource) -> Void
  ) throws(ContainerError) -> Bool {
    do throws(ContainerError) {
      return try find(path, isFolder: true, depth: 1, what, call, each)
    } catch {
      guard error.code == .permissionDenied || error.code == .inconsistent,
        let found = try? resource(path, what, call), !found.isFolder
      else { throw error }
      return false
    }
  }

  /// PROPFIND; false when nothing is there. `depth` nil: all that is below. The reply is read while it `goesOn`.
  func find(
    _ path: ContainerPath, isFolder: Bool, depth: Int?, asking question: [UInt8] = WebDAVContainer.question,
    _ what: String, _ call: CallContext, _ each: @escaping (DAVResource) -> Void,
    goesOn: () -> Bool = { true }
  ) throws(ContainerError) -> Bool {
    var request = client.request("PROPFIND", path, isFolder: isFolder, what)
    request.followsRedirects = true
    request.headers = [
      ("Depth", depth.map { "\($0)" } ?? "infinity"), ("Content-Type", "application/xml; charset=utf-8"),
    ]
    request.body = .bytes(question)
    var reply = try DAVMultistatus(what, each)
    let response = try client.stream(request, call) { (response) throws(ContainerError) in
      response.status == 207
    } sink: { piece throws(ContainerError) in
      try reply.feed(piece)
      call.progress()
      guard goesOn() else { throw ContainerError(.inconsistent, "\(what): the reply is larger than is wanted") }
    }
    if response.status == 404 || response.status == 410 { return false }
    // The parent is a file.
    if response.status == 409 { return false }
    if response.status == 400, try isOrphan(path, what, call) { return false }
    guard response.status == 207 else {
      if response.isSuccess || [405, 501].contains(response.status) {
        throw ContainerError(
          .unreachable, "\(what): \(address.server) does not answer as a WebDAV server; check the URL")
      }
      throw client.failure(response, what)
    }
    try reply.finish()
    return true
  }

  static let question = Array(
    """
    <?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:" xmlns:x="\(DAVMultistatus.namespace)" \
    xmlns:oc="\(DAVMultistatus.ownCloud)"><prop>\
    <resourcetype/><getcontentlength/><getetag/><getlastmodified/><quota-available-bytes/><quota-used-bytes/>\
    <x:attributes/><oc:checksums/></prop></propfind>
    """.utf8)

  func item(_ name: ItemName, _ found: DAVResource) -> RemoteItem {
    if found.etag != nil { learn(found.checksum, of: found.version) }
    return RemoteItem(
      name: name, kind: found.isFolder ? .folder : .file, size: found.isFolder ? 0 : found.size ?? 0,
      version: found.version, attributes: found.attributes)
  }

  /// Keeps `attributes` beside content of that version; false where the server keeps no properties.
  @discardableResult
  func keep(
    _ attributes: RemoteAttributes, of version: Version, at path: ContainerPath, isFolder: Bool, lock: String? = nil,
    _ what: String, _ call: CallContext
  ) throws(ContainerError) -> Bool {
    guard attributes.mode != nil || attributes.mtime != nil else { return true }
    var request = client.request("PROPPATCH", path, isFolder: isFolder, what)
    request.headers = [("Content-Type", "application/xml; charset=utf-8")]
    if let lock { request.headers.append(("If", "(<\(lock)>)")) }
    request.body = .bytes(
      Array(
        """
        <?xml version="1.0" encoding="utf-8"?><propertyupdate xmlns="DAV:" xmlns:x="\(DAVMultistatus.namespace)">\
        <set><prop><x:attributes>\(DAVResource.text(attributes, of: version))</x:attributes></prop></set></propertyupdate>
        """.utf8))
    let response = try client.send(request, call)
    switch response.status {
    // 207: with a status for each property; whether it was kept is seen when it is asked for.
    case 200..<300: return true
    case 403, 405, 409, 415, 422, 501: return false
    default: throw client.failure(response, what)
    }
  }

  // MARK: - Names

  func refuseHidden(_ what: String, _ path: ContainerPath, _ code: ContainerError.Code) throws(ContainerError) {
    guard path.names.first == hiddenName else { return }
    throw ContainerError(code, "\(what): the name is docsfs's own")
  }

  func requireName(_ what: String, _ path: ContainerPath) throws(ContainerError) -> ItemName {
    try refuseHidden(what, path, .notRepresentable)
    guard let name = path.last else { throw ContainerError(.notRepresentable, "\(what): it is the root") }
    guard String(validating: name.bytes, as: UTF8.self) != nil else {
      throw ContainerError(.notRepresentable, "\(what): the server takes no name that is not UTF-8; rename it")
    }
    return name
  }

  func changed(_ what: String, _ why: String) -> ContainerError {
    ContainerError(.preconditionFailed, "\(what): \(why)")
  }

  /// Whether `path`'s folder is missing: what several statuses may mean.
  func isOrphan(_ path: ContainerPath, _ what: String, _ call: CallContext) throws(ContainerError) -> Bool {
    if path.parent.isRoot { return false }
    return try resource(path.parent, what, call)?.isFolder != true
  }
}
