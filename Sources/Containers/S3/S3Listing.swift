/// One page of ListObjectsV2, read as it comes.
struct S3Page {
  struct Object: Hashable {
    var key: [UInt8] = []
    var size: Int64 = 0
    var etag = ""
    /// Seconds since 1970.
    var changed: Int?
  }

  private(set) var objects: [Object] = []
  /// What keys have in common up to the next slash, that included.
  private(set) var prefixes: [[UInt8]] = []
  /// nil: this page is the last.
  private(set) var next: String?
  var isEmpty: Bool { objects.isEmpty && prefixes.isEmpty }
  private var isTruncated: Bool?
  private var isListing = false
  private var isEncoded = false
  private var rawObjects: [(key: String, object: Object)] = []
  private var rawPrefixes: [String] = []
  private var current: (key: String, object: Object)?
  private var isPrefix = false

  /// A store gives 1,000 entries at most. Many more are no page, and would only fill the memory.
  private static let mostEntries = 10_000
  private static let piece = 64 << 10

  init(_ body: [UInt8], _ what: String) throws(ContainerError) {
    let reader = try XMLReader(what)
    var rest = body[...]
    while !rest.isEmpty {
      let piece = Array(rest.prefix(Self.piece))
      rest = rest.dropFirst(Self.piece)
      var events: [XMLEvent] = []
      try piece.give { bytes throws(ContainerError) in events = try reader.feed(bytes) }
      try take(events, what)
    }
    try take(try reader.finish(), what)
    guard isListing, let isTruncated, isTruncated == (next != nil) else {
      throw ContainerError(.inconsistent, "\(what): the reply is no listing; is this an S3 store?")
    }
    for (key, object) in rawObjects {
      var object = object
      object.key = try decode(key, what)
      objects.append(object)
    }
    for prefix in rawPrefixes { prefixes.append(try decode(prefix, what)) }
  }

  private mutating func take(_ events: [XMLEvent], _ what: String) throws(ContainerError) {
    for event in events {
      switch event {
      case .start(let name): begin(localName(name))
      case .end(let name, let text): end(localName(name), text)
      }
    }
    guard rawObjects.count + rawPrefixes.count <= Self.mostEntries else {
      throw ContainerError(.inconsistent, "\(what): a page of the listing has more entries than were asked for")
    }
  }

  private mutating func begin(_ name: Substring) {
    switch name {
    case "ListBucketResult": isListing = true
    case "Contents": current = ("", Object())
    case "CommonPrefixes": isPrefix = true
    default: break
    }
  }

  private mutating func end(_ name: Substring, _ text: String) {
    switch name {
    case "Contents":
      if let current { rawObjects.append(current) }
      current = nil
    case "CommonPrefixes": isPrefix = false
    case "Key": current?.key = text
    case "Size": current?.object.size = max(0, Int64(text) ?? 0)
    case "ETag": current?.object.etag = S3Page.bare(text)
    case "LastModified": current?.object.changed = seconds(ofISODate: text)
    case "Prefix": if isPrefix { rawPrefixes.append(text) }
    case "EncodingType": isEncoded = text == "url"
    case "IsTruncated": isTruncated = text == "true"
    case "NextContinuationToken": next = text.isEmpty ? nil : text
    default: break
    }
  }

  /// With `encoding-type=url` names are as in a form: a blank may be a plus sign.
  private func decode(_ text: String, _ what: String) throws(ContainerError) -> [UInt8] {
    guard isEncoded else { return Array(text.utf8) }
    guard let bytes = percentDecoded(text.utf8.map { $0 == 0x2b ? 0x20 : $0 }) else {
      throw ContainerError(.inconsistent, "\(what): the listing has a name that is badly encoded")
    }
    return bytes
  }

  /// An ETag without its quotes.
  static func bare(_ etag: String) -> String {
    String(decoding: etag.utf8.filter { $0 != UInt8(ascii: "\"") }, as: UTF8.self)
  }
}
