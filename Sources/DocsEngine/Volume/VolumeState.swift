import Containers
import Faults
import StorageErrors

/// What an operation lacks: it is fetched without the lock, and the operation runs again from its beginning.
enum Need: Error {
  case fail(Errno)
  /// This item's record, from the catalog.
  case item(ItemID)
  /// This folder's entries, from the catalog.
  case children(ItemID)
  /// This folder's entries, from the container.
  case listing(ItemID)
  /// All bytes of this content.
  case whole(Content)
}

enum Outcome<T: Sendable>: Sendable {
  /// Nothing was changed, or nothing that needs a commit.
  case done(T)
  /// The catalog has to record it before the answer.
  case recorded(T)
}

/// Everything that the volume's lock guards. No method of it does I/O.
struct VolumeState {
  var items: [ItemID: Item] = [:]
  /// Nodes that are not the default node of their item.
  var nodes: [NodeID: Content] = [:]
  /// How often the kernel has looked each node up and not yet forgotten it.
  var lookups: [NodeID: UInt64] = [:]

  var nextItem: UInt64 = 2
  var reservedItem: UInt64 = 2
  var nextContent: Int64 = 1
  var reservedContent: Int64 = 1
  var nextNode: UInt64 = 1 << 62
  var nextWaiter: UInt64 = 0
  /// Folders that the container is being asked for.
  var listing: Set<ItemID> = []
  var tick: UInt64 = 0
  /// Counts when folders have left memory: what was read from the catalog before is then read again.
  var unloads: UInt64 = 0
  /// Discarded items whose rows are still in the catalog, or were when a read that is under way began: what is read
  /// of them is passed over.
  var leaving: Set<ItemID> = []
  /// Those of them whose rows are gone.
  var left: Set<ItemID> = []
  /// Reads of the catalog that are under way.
  var loads = 0

  // The next commit.
  var changed: [Item] = []
  var removed: [ItemID] = []
  var waiters: [@Sendable (Errno?) -> Void] = []
  var afterCommit: [@Sendable () -> Void] = []
  var isCommitting = false

  /// Places at the container that are about to be left: by items that were deleted or moved here.
  var vacating: [ItemID: [ItemName: ItemID]] = [:]
  var uploadsFinished: UInt64 = 0
  /// Places at the container that an upload of ours has changed while somebody looked at the container: what was
  /// seen there may be older than that. Kept only while somebody looks.
  var touched: [Place: UInt64] = [:]
  var looks = 0
  /// Where jobs of the last process may have ended.
  var recalling: [Place: ItemID] = [:]
  /// Contents whose files are lent for writing.
  var lent: [ObjectIdentifier: Content] = [:]
  /// The uploads that are running, and the places that they change.
  var running: [ItemID: Place] = [:]

  var link = LinkState.connected
  /// CLOCK_MONOTONIC ns.
  var linkSince = Clock.now()
  var epoch = 0
  var isPaused = false
  var showsStubs = false
  var isStopping = false
  /// The state disk is nearly full: what would need room is refused until there is some.
  var diskIsFull = false
  var cacheBytes: Int64 = 0
  var dirtyBytes: Int64 = 0
  /// Since the start.
  var fetchedBytes: Int64 = 0
  var uploadedBytes: Int64 = 0
  var itemCount = 0
  var pending: Set<ItemID> = []
  var pendingOrder = PendingOrder()
  /// Those of them whose upload has failed, and is tried again.
  var failing: Set<ItemID> = []
  /// Removals that a poll found and that are too many to be believed.
  var heldDeletes: [ItemID] = []
  /// With all that is in them.
  var heldCount = 0
  var acceptsDeletes = false

  // MARK: Finding

  func item(_ id: ItemID) throws(Need) -> Item {
    guard let item = items[id] else { throw .item(id) }
    return item
  }

  /// The item of a node, and the content that the node stands for if it is in memory.
  func resolve(_ node: NodeID) throws(Need) -> (item: Item, content: Content?) {
    if let content = nodes[node] { return (content.owner, content) }
    if let id = node.stubbedItem { return (try item(id), nil) }
    guard node.rawValue < 1 << 62 else { throw .fail(.ESTALE) }
    let item = try item(ItemID(node.rawValue))
    guard item.node == node else { throw .fail(.ESTALE) }
    return (item, item.content)
  }

  /// The folder of a node with all its entries.
  mutating func folder(_ node: NodeID) throws(Need) -> (item: Item, folder: Folder) {
    let item = try resolve(node).item
    guard let folder = item.folder else { throw .fail(.ENOTDIR) }
    try load(item, folder)
    return (item, folder)
  }

  mutating func load(_ item: Item, _ folder: Folder) throws(Need) {
    guard item.isDeleted || item.isGone || item.record.flags.contains(.listed) else { throw .listing(item.id) }
    guard item.isGone || folder.isLoaded else { throw .children(item.id) }
    tick += 1
    folder.lastUse = tick
  }

  func child(_ folder: Folder, _ name: ItemName) throws(Need) -> Item? {
    guard let id = folder.children[name] else { return try stubbedChild(folder, name) }
    return try item(id)
  }

  /// Items in memory that might leave it.
  var freeItems: Int { items.count - pending.count }

  // MARK: Loading

  mutating func endLoad() {
    loads -= 1
    forgetLeft([])
  }

  /// The rows of these are gone; they are remembered as long as somebody may have read them before.
  mutating func forgetLeft(_ ids: [ItemID]) {
    left.formUnion(ids)
    guard loads == 0, !left.isEmpty else { return }
    leaving.subtract(left)
    left = []
  }

  // MARK: Making

  mutating func newItemID() -> ItemID {
    defer { nextItem += 1 }
    return ItemID(nextItem)
  }
  mutating func newContentNumber() -> Int64 {
    defer { nextContent += 1 }
    return nextContent
  }
  mutating func newNode() -> NodeID {
    defer { nextNode += 1 }
    return NodeID(nextNode)
  }

  /// Puts a new item into memory, its folder and the next commit.
  mutating func add(_ record: ItemRecord, to folder: Folder?) -> Item {
    let item = Item(record)
    item.dirtyIsRecorded = false
    items[item.id] = item
    folder?.insert(record.place.name, item.id)
    itemCount += 1
    queue(item)
    return item
  }

  /// The content object of a file, made on first use.
  mutating func content(of item: Item) -> Content {
    if let content = item.content { return content }
    let r = item.record
    let content = Content(
      owner: item, node: item.node,
      LocalBytes(
        number: r.content, whole: r.flags.contains(.whole), extents: r.extents, size: r.size,
        version: r.remote?.version))
    item.content = content
    if item.node.rawValue != item.id.rawValue { nodes[item.node] = content }
    return content
  }

  // MARK: Recording

  /// The item's record goes into the next commit.
  mutating func queue(_ item: Item) {
    guard !item.isQueued, !item.isGone else { return }
    item.isQueued = true
    changed.append(item)
  }

  /// The row goes with the next commit; the object when nobody uses it any more.
  mutating func discard(_ item: Item) {
    guard !item.isGone else { return }
    item.isGone = true
    removed.append(item.id)
    leaving.insert(item.id)
    itemCount -= 1
    setPending(item, false)
    countBytes(item, 0)
    dropIfUnused(item)
  }

  /// Lets a discarded item go when neither the kernel nor a handle knows it.
  mutating func dropIfUnused(_ item: Item) {
    guard item.isGone, lookups[item.node] == nil, (item.content?.opens ?? 0) == 0, (item.folder?.opens ?? 0) == 0
    else { return }
    items[item.id] = nil
    if let content = item.content {
      nodes[content.node] = nil
      let number = content.local.withLock { $0.number }
      item.content = nil
      removeContentFile(number)
    } else {
      removeContentFile(item.record.content)
    }
  }

  /// A node of its own is needed only while the kernel knows another one of the item.
  mutating func takeDefaultNode(_ item: Item) {
    dropIfUnused(item)
    let node = NodeID(item.id.rawValue)
    guard !item.isGone, item.node != node, lookups[item.node] == nil, lookups[node] == nil, nodes[node] == nil,
      (item.content?.opens ?? 0) == 0
    else { return }
    nodes[item.node] = nil
    item.node = node
    item.content?.node = node
  }

  /// Removes a content file once the next commit no longer names it.
  mutating func removeContentFile(_ number: Int64) {
    guard number != 0 else { return }
    unneededFiles.append(number)
  }
  var unneededFiles: [Int64] = []

  /// Sets what the item's local bytes count for the cache.
  mutating func countBytes(_ item: Item, _ bytes: Int64) {
    let old = item.record.bytes
    guard old != bytes else { return }
    cacheBytes += bytes - old
    if item.record.isDirty { dirtyBytes += bytes - old }
    item.record.bytes = bytes
  }

  mutating func setDirty(_ item: Item, _ dirty: Bool) {
    guard dirty != item.record.isDirty else { return }
    if dirty {
      item.record.flags.insert(.contentDirty)
      dirtyBytes += item.record.bytes
    } else {
      item.record.flags.remove(.contentDirty)
      dirtyBytes -= item.record.bytes
    }
  }

  /// Notes that the container's place of an item is, or is no longer, about to be left.
  mutating func updateVacating(_ item: Item, before: RemoteState?) {
    if let before, vacating[before.place.folder]?[before.place.name] == item.id {
      vacating[before.place.folder]?[before.place.name] = nil
      if vacating[before.place.folder]?.isEmpty == true { vacating[before.place.folder] = nil }
    }
    if !item.isGone, let remote = item.record.remote, item.isDeleted || remote.place != item.record.place {
      vacating[remote.place.folder, default: [:]][remote.place.name] = item.id
    }
  }

  /// The last thing: whoever opens the same state next, perhaps in this process, finds no writer of it.
  mutating func closeFiles() {
    for content in Array(nodes.values) + items.values.compactMap(\.content) {
      content.local.withLock { $0.file = nil }
      content.loan = nil
    }
    lent = [:]
  }

  // MARK: Looking at the container

  /// Somebody begins to look: what `isTouched` says is meant since then.
  mutating func beginLook() -> UInt64 {
    looks += 1
    return uploadsFinished
  }
  mutating func endLook() {
    looks -= 1
    if looks == 0 { touched = [:] }
  }
  /// Nothing is concluded about a place before a job of the last process has been recalled from it.
  func isRecalling(_ place: Place) -> Bool {
    guard let id = recalling[place], let item = items[id] else { return false }
    return !item.isGone && !item.jobIsOurs && item.record.job?.place == place
  }
  /// Whether an upload of ours has changed the place since then, or is just doing so: what was seen there may be
  /// its work, which is not recorded yet.
  func isTouched(_ place: Place, since: UInt64) -> Bool {
    running.values.contains(place) || touched[place].map { $0 > since } ?? false
  }
  mutating func touch(_ places: [Place]) {
    uploadsFinished += 1
    if looks > 0 { for place in places { touched[place] = uploadsFinished } }
  }

  // MARK: Showing

  func attributes(_ item: Item, _ content: Content?) -> Attributes {
    let r = item.record
    var size = r.size
    var blocks: Int64 = 0
    var (modified, changed) = (r.modified, r.changed)
    switch r.kind {
    case .folder:
      size = 4096
      blocks = 8
    case .symlink: size = Int64(r.target?.count ?? 0)
    case .file:
      if let content, !content.isCurrent { size = content.local.withLock { $0.size } }
      // Never 0 for what has bytes: `tar -S` would archive zeros unread.
      blocks = size == 0 ? 0 : max(1, (r.bytes + 511) / 512)
      if let info = content?.loan?.changedStatus {
        (size, blocks) = (Int64(info.st_size), Int64(info.st_blocks))
        (modified, changed) = (Timestamp(info.st_mtim), max(changed, Timestamp(info.st_ctim)))
      }
    }
    return Attributes(
      id: r.id, kind: r.kind, mode: r.mode, links: item.isDeleted || item.isGone ? 0 : 1, uid: r.uid, gid: r.gid,
      size: size, blocks: blocks, accessed: r.accessed, modified: modified, changed: changed)
  }

  /// An answer to a lookup, which the kernel will forget again.
  mutating func entry(_ item: Item) -> Entry {
    lookups[item.node, default: 0] += 1
    item.lastSeenVersion = nil
    return Entry(node: item.node, attributes: attributes(item, item.content))
  }

  /// The folder's times after an entry has come or gone.
  mutating func touchFolder(_ folder: Item, _ now: Timestamp) {
    folder.record.modified = now
    folder.record.changed = now
    queue(folder)
  }

  /// Whether the item or a folder above it is pinned. Folders that are not in memory count as unpinned.
  func isPinned(_ item: Item) -> Bool {
    var current: Item? = item
    for _ in 0..<Self.deepest {
      guard let here = current else { return false }
      if here.record.flags.contains(.pinned) { return true }
      current = here.id == .root ? nil : items[here.record.place.folder]
    }
    return false
  }

  /// No walk up goes on for ever, should a damaged catalog hold a circle.
  static let deepest = 65_536

  /// Where the item is at the container by what we know: from the folders' own places there.
  func remotePath(_ place: Place) throws(Need) -> ContainerPath {
    var names: [ItemName] = [place.name]
    var id = place.folder
    while id != .root {
      guard let remote = try item(id).record.remote, names.count < 4096 else { throw .fail(.ENOENT) }
      names.append(remote.place.name)
      id = remote.place.folder
    }
    return ContainerPath(names.reversed())
  }

  /// Where a folder is at the container.
  func remoteFolderPath(_ id: ItemID) throws(Need) -> ContainerPath {
    guard id != .root else { return .root }
    guard let remote = try item(id).record.remote else { throw .fail(.ENOENT) }
    return try remotePath(remote.place)
  }

  /// Where the item is here.
  func localPath(_ item: Item) throws(Need) -> ContainerPath {
    var names: [ItemName] = []
    var current = item
    while current.id != .root {
      names.append(current.record.place.name)
      guard names.count < 65536 else { throw .fail(.ELOOP) }
      current = try self.item(current.record.place.folder)
    }
    return ContainerPath(names.reversed())
  }
}
