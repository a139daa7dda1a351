/// What PROPFIND tells of a resource, and what docsfs keeps there beside it.
struct DAVResource: Sendable, Equatable {
  /// The names of its path at the server.
  var names: [[UInt8]] = []
  var isFolder = false
  var size: Int64?
  /// Without quotes and the mark of a weak one; nil: the server has none.
  var etag: String?
  /// Whether the ETag may still change without the content, so that no condition holds with it.
  var isWeak = false
  /// As the server writes it.
  var changed: String?
  /// What docsfs keeps: `mtime`, `mode`, and the ETag of the content that they belong to.
  var kept: String?
  var quotaFree: Int64?
  var quotaUsed: Int64?
  /// Of a folder whose server reports what has changed in it (RFC 6578): the state it is in.
  var syncToken: String?
  /// What all its bytes add up to.
  var checksum: ContentDigest?

  /// The ETag, or what comes nearest to one.
  var version: Version {
    Version(Array((isFolder ? "folder" : etag ?? "~\(size ?? 0)-\(changed ?? "")").utf8))
  }

  /// What is kept, unless somebody has replaced the content since; of a file without, the server's time.
  var attributes: RemoteAttributes {
    let words = Dictionary(
      (kept ?? "").split(separator: " ").compactMap { word -> (String, String)? in
        let pair = word.split(separator: "=", maxSplits: 1)
        return pair.count == 2 ? (String(pair[0]), String(pair[1])) : nil
      }, uniquingKeysWith: { $1 })
    let changed = changed.flatMap(seconds(ofHTTPDate:)).flatMap(S3Metadata.timestamp)
    guard words["version"] == Self.mark(version) else { return RemoteAttributes(mtime: isFolder ? nil : changed) }
    return RemoteAttributes(
      mode: words["mode"].flatMap { UInt32($0, radix: 8) }.map { $0 & 0o7777 },
      mtime: words["mtime"].flatMap(S3Metadata.mtime) ?? changed)
  }

  /// The text of the property that keeps `attributes` beside content of that version.
  static func text(_ attributes: RemoteAttributes, of version: Version) -> String {
    var words = ["version=" + mark(version)]
    if let mode = attributes.mode { words.append("mode=" + String(mode & 0o7777, radix: 8)) }
    if let mtime = attributes.mtime { words.append("mtime=" + S3Metadata.text(mtime)) }
    return words.joined(separator: " ")
  }

  /// A version as one word.
  private static func mark(_ version: Version) -> String {
    percentEncoded(String(decoding: version.bytes, as: UTF8.self))
  }
}

/// A multistatus reply (RFC 4918, section 13), read as it comes.
struct DAVMultistatus {
  static let namespace = "urn:docsfs"
  /// Of ownCloud and Nextcloud.
  static let ownCloud = "http://owncloud.org/ns"

  private let reader: XMLReader
  private let what: String
  private let each: (DAVResource) -> Void
  private let refused: (DAVResource, Int) -> Void
  private var isMultistatus = false
  private var isInProperties = false
  /// What a report of changes ends with: the state up to which it tells.
  private(set) var syncToken: String?
  private var resource = DAVResource()
  private var found = DAVResource()
  private var status = 0
  private var responseStatus: Int?

  /// `each` gets what is there, `refused` what the server tells another status of.
  init(
    _ what: String, refused: @escaping (DAVResource, Int) -> Void = { _, _ in },
    _ each: @escaping (DAVResource) -> Void
  ) throws(ContainerError) {
    reader = try XMLReader(what)
    self.what = what
    self.each = each
    self.refused = refused
  }

  mutating func feed(_ piece: UnsafeRawBufferPointer) throws(ContainerError) {
    for event in try reader.feed(piece) { take(event) }
  }

  mutating func finish() throws(ContainerError) {
    for event in try reader.finish() { take(event) }
    guard isMultistatus else { throw ContainerError(.inconsistent, "\(what): the reply is no WebDAV listing") }
  }

  private mutating func take(_ event: XMLEvent) {
    switch event {
    case .start("DAV:|multistatus"): isMultistatus = true
    case .start("DAV:|response"): (resource, responseStatus) = (DAVResource(), nil)
    case .start("DAV:|propstat"): (found, status, isInProperties) = (DAVResource(), 0, true)
    case .start: break
    case .end(let name, let text): end(name, text)
    }
  }

  private mutating func end(_ name: String, _ text: String) {
    switch name {
    case "DAV:|href": if resource.names.isEmpty { resource.names = Self.names(text) }
    case "DAV:|collection": found.isFolder = true
    case "DAV:|getcontentlength": found.size = Int64(text.filter { !$0.isWhitespace }).map { max(0, $0) }
    case "DAV:|getetag": (found.etag, found.isWeak) = DAVMultistatus.etag(text)
    case "DAV:|getlastmodified": found.changed = text
    case "DAV:|quota-available-bytes": found.quotaFree = Int64(text)
    case "DAV:|quota-used-bytes": found.quotaUsed = Int64(text)
    case Self.namespace + "|attributes": found.kept = text
    case "DAV:|sync-token": if isInProperties { found.syncToken = text.trimmed } else { syncToken = text.trimmed }
    case Self.ownCloud + "|checksum": found.checksum = ContentDigest(ownCloud: text)
    case "DAV:|status":
      status = Int(text.split(separator: " ").dropFirst().first ?? "") ?? 0
      responseStatus = status
    case "DAV:|propstat":
      if status == 200 { merge() }
      (responseStatus, isInProperties) = (nil, false)
    case "DAV:|response":
      if let responseStatus, responseStatus != 200 { refused(resource, responseStatus) } else { each(resource) }
    default: break
    }
  }

  private mutating func merge() {
    found.names = resource.names
    found.isFolder = found.isFolder || resource.isFolder
    found.size = found.size ?? resource.size
    if found.etag == nil { (found.etag, found.isWeak) = (resource.etag, resource.isWeak) }
    found.changed = found.changed ?? resource.changed
    found.kept = found.kept ?? resource.kept
    found.quotaFree = found.quotaFree ?? resource.quotaFree
    found.quotaUsed = found.quotaUsed ?? resource.quotaUsed
    found.syncToken = found.syncToken ?? resource.syncToken
    found.checksum = found.checksum ?? resource.checksum
    resource = found
  }

  /// nil for an empty one.
  static func etag(_ text: String) -> (String?, isWeak: Bool) {
    let isWeak = text.hasPrefix("W/")
    let bare = text.dropFirst(isWeak ? 2 : 0).filter { $0 != "\"" }
    return (bare.isEmpty ? nil : bare, isWeak)
  }

  /// The decoded names of an href, which is a path or a whole URL.
  static func names(_ href: String) -> [[UInt8]] {
    var path = href.drop { $0.isWhitespace }
    for scheme in ["http://", "https://"] where path.hasPrefix(scheme) {
      path = path.dropFirst(scheme.count).drop { $0 != "/" }
    }
    // A name that is badly encoded is none: `/` never is.
    return path.utf8.split(separator: 0x2f).map { percentDecoded($0) ?? [0x2f] }
  }
}

extension String {
  /// nil for nothing but blanks.
  fileprivate var trimmed: String? {
    let text = drop { $0.isWhitespace }
    guard let last = text.lastIndex(where: { !$0.isWhitespace }) else { return nil }
    return String(text[...last])
  }
}
