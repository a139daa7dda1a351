// Listings of S3.

extension S3Container {
  static let pageSize = 1_000
  /// So many objects of a folder are asked for their metadata; more are shown with the time they were stored.
  private static let askedObjects = 1_000
  private static let askers = 16
  private static let rememberedObjects = 1_500_000

  package func list(_ folder: ContainerPath, _ call: CallContext) throws(ContainerError) -> [RemoteItem] {
    let what = "cannot list \(folder)"
    try refuseHidden(what, folder, .notFound)
    let prefix = address.folderKey(folder)
    var objects: [ItemName: S3Page.Object] = [:]
    var folders: Set<ItemName> = []
    var isThere = folder.isRoot
    try eachPage(prefix: prefix, delimiter: true, what, call) { page in
      for object in page.objects {
        if object.key == prefix { isThere = true }
        // What is no name in this folder is not shown, and stays.
        if let name = try? ItemName(object.key.dropFirst(prefix.count)) { objects[name] = object }
      }
      for below in page.prefixes {
        guard let name = try? ItemName(below.dropFirst(prefix.count).dropLast()) else { continue }
        if !(folder.isRoot && name == hiddenName) { folders.insert(name) }
      }
      isThere = isThere || !page.objects.isEmpty || !page.prefixes.isEmpty
    }
    if folder.isRoot {
      try confirm(call)
    } else {
      guard isThere else {
        try confirm(call)
        throw ContainerError(.notFound, "\(what): not found")
      }
      noteFolder(folder)
    }
    // An object and a folder of one name: the object is shown, and what is below it stays untouched.
    let shown = folders.filter { objects[$0] == nil }.map { folderItem($0, RemoteAttributes()) }
    return try files(objects, what, call) + shown
  }

  func eachPage(
    prefix: [UInt8], delimiter: Bool, _ what: String, _ call: CallContext,
    _ body: (S3Page) throws(ContainerError) -> Void
  ) throws(ContainerError) {
    var token: String?
    var circle = CircleDetector()
    repeat {
      let page = try page(prefix: prefix, delimiter: delimiter, limit: Self.pageSize, after: token, what, call)
      if let next = page.next, circle.isClosed(by: page, next) {
        throw ContainerError(.inconsistent, "\(what): the listing goes round in circles")
      }
      try body(page)
      token = page.next
      // An empty page is no progress: a store that gives only such ones is not waited for.
      if !page.isEmpty { call.progress() }
    } while token != nil
  }

  /// Notices, by Brent's way, that pages come again; whatever their number, it keeps one.
  private struct CircleDetector {
    private var token = ""
    private var first: [UInt8]?
    private var length = 0
    private var power = 1

    /// Whether `page`, which `next` follows, is one that was seen.
    mutating func isClosed(by page: S3Page, _ next: String) -> Bool {
      let begin = page.objects.first?.key ?? page.prefixes.first
      if next == token || begin != nil && begin == first { return true }
      length += 1
      if length == power {
        (token, first, length) = (next, begin, 0)
        power *= 2
      }
      return false
    }
  }

  func page(
    prefix: [UInt8], delimiter: Bool, limit: Int, after token: String? = nil, afterKey: String? = nil, _ what: String,
    _ call: CallContext
  ) throws(ContainerError) -> S3Page {
    guard let text = String(validating: prefix, as: UTF8.self) else {
      // No key of a store has bytes that are no text.
      throw ContainerError(.notFound, "\(what): not found")
    }
    var request = S3Client.Request(method: "GET", what: what)
    request.query = [
      ("list-type", "2"), ("prefix", text), ("max-keys", "\(limit)"), ("encoding-type", "url"),
    ]
    if delimiter { request.query.append(("delimiter", "/")) }
    if let token { request.query.append(("continuation-token", token)) }
    if let afterKey { request.query.append(("start-after", afterKey)) }
    return try S3Page(try client.require(request, call, limit: 16 << 20).body, what)
  }

  // MARK: - Metadata

  /// A listing has no metadata: each object is asked once for each version of it.
  private func files(
    _ objects: [ItemName: S3Page.Object], _ what: String, _ call: CallContext
  ) throws(ContainerError) -> [RemoteItem] {
    var remembered = known.withLock { known in
      objects.mapValues { object in
        known.attributes[object.hashValue].map { RemoteAttributes(mode: $0.mode, mtime: $0.mtime) }
      }
    }
    let unknown = remembered.filter { $0.value == nil }.keys.sorted().prefix(Self.askedObjects)
    let found = Guarded<[ItemName: HTTPResponse?]>([:])
    let names = Array(unknown)
    try inParallel(names.count, width: Self.askers) { number throws(ContainerError) in
      guard let object = objects[names[number]] else { return }
      let response = try self.head(object.key, what, call)
      found.withLock { $0[names[number]] = .some(response) }
      call.progress()
    }
    var items: [RemoteItem] = []
    var gone: Set<ItemName> = []
    for (name, response) in found.withLock({ $0 }) {
      guard let response else {
        gone.insert(name)
        continue
      }
      let item = try file(name, response, what)
      if let object = objects[name], Version(Array(object.etag.utf8)) == item.version {
        remembered[name] = item.attributes
        if S3Metadata.isSettled(response) { remember(object, item.attributes) }
      } else {
        // It has changed since it was listed.
        gone.insert(name)
        items.append(item)
      }
    }
    for (name, object) in objects where !gone.contains(name) {
      var stored = RemoteAttributes(mtime: object.changed.flatMap(S3Metadata.timestamp))
      stored.areGuessed = true
      items.append(
        RemoteItem(
          name: name, kind: .file, size: object.size, version: Version(Array(object.etag.utf8)),
          attributes: (remembered[name] ?? nil) ?? stored))
    }
    return items
  }

  private func remember(_ object: S3Page.Object, _ attributes: RemoteAttributes) {
    guard let mtime = attributes.mtime else { return }
    known.withLock { known in
      if known.attributes.count >= Self.rememberedObjects { known.attributes = [:] }
      known.attributes[object.hashValue] = .init(mtime: mtime, mode: attributes.mode)
    }
  }
}
