/// Learns what has changed at a WebDAV server, asking once a poll in the cheapest way that the server has:
///
/// 1. one report of the whole tree (RFC 6578, level `infinite`);
/// 2. a report for each folder that is watched (level `1`);
/// 3. one listing of the whole tree (`Depth: infinity`), where it is allowed and holds little beside what is watched;
/// 4. nothing: each folder has to be listed.
///
/// It only ever tells where to look. What is gone is what a look at the place does not find: no reply, cut or wrong,
/// removes anything.
final class DAVChangeFeed: ChangeFeed {
  private enum Way: Equatable {
    case unknown
    case tree(token: String)
    case folders
    case listings
  }
  private struct State {
    var way = Way.unknown
    var watched: Set<ContainerPath> = []
    /// Of reports, by folder.
    var tokens: [ContainerPath: String] = [:]
    /// What the last listing of the tree showed of each folder, in one number.
    var marks: [ContainerPath: UInt64] = [:]
    var refusesDepth = false
    /// So many folders were watched when the tree was too large for that.
    var tooFew = 2
    /// Folders of which a report of the tree says nothing.
    var untold: Set<ContainerPath> = []
  }
  /// More names than these in a folder, and one listing is cheaper than a look at each.
  private static let mostNames = 64
  private static let mostPages = 10_000
  /// Entries that a listing of the tree may have beside those that are watched: so many, or as many as those.
  private static let mostBeside = 1_000

  private let container: WebDAVContainer
  private let handler: @Sendable ([ChangeHint]) -> Void
  private let state = Guarded(State())

  init(_ container: WebDAVContainer, _ handler: @escaping @Sendable ([ChangeHint]) -> Void) {
    self.container = container
    self.handler = handler
  }

  var asks: Bool { true }

  func watch(_ folder: ContainerPath) -> Bool {
    state.withLock { state in
      state.watched.insert(folder)
      // Perhaps another folder than the one that was watched here before.
      state.tokens[folder] = nil
      state.marks[folder] = nil
    }
    return true
  }

  func unwatch(_ folder: ContainerPath) {
    state.withLock { state in
      state.watched.remove(folder)
      state.tokens[folder] = nil
      state.marks[folder] = nil
    }
  }

  func stop() {}

  func ask(_ call: CallContext) throws(ContainerError) {
    let (way, watched) = state.withLock { ($0.way, $0.watched) }
    guard !watched.isEmpty else { return }
    let hints: [ChangeHint]
    switch way {
    case .unknown:
      let found = try findWay(call)
      state.withLock { $0.way = found }
      // The state that it tells from is known from now on.
      hints = everything(watched)
    case .tree(let token): hints = try askTree(since: token, watched, call)
    case .folders: hints = try askEach(watched, call)
    case .listings: hints = try compare(watched, call)
    }
    if !hints.isEmpty { handler(hints) }
  }

  private func everything(_ watched: Set<ContainerPath>) -> [ChangeHint] { watched.map { ChangeHint(folder: $0) } }

  // MARK: - Reports

  private func findWay(_ call: CallContext) throws(ContainerError) -> Way {
    guard let token = try container.syncToken(.root, call) else { return .listings }
    // Servers whose reports leave folders out (Xandikos) do not tell of docsfs's own one, which is there.
    let shows = Guarded(false)
    let own = container.address.names + container.hidden.names.map(\.bytes)
    var at = ""
    let whole = try pages(&at, in: .root, isDeep: false, call) { names, _ in
      if names == own { shows.withLock { $0 = true } }
    }
    guard case .page = whole, shows.withLock({ $0 }) else { return .listings }
    guard case .page = try container.changes(in: .root, since: token, isDeep: true, call, { _, _ in }) else {
      return .folders
    }
    return .tree(token: token)
  }

  /// All pages from `token` on, which is the last one's afterwards.
  private func pages(
    _ token: inout String, in folder: ContainerPath, isDeep: Bool, _ call: CallContext,
    _ each: @escaping ([[UInt8]], Int?) -> Void
  ) throws(ContainerError) -> DAVChanges {
    for _ in 0..<Self.mostPages {
      let answer = try container.changes(in: folder, since: token, isDeep: isDeep, call, each)
      guard case .page(let next, let isCut) = answer, isCut else {
        if case .page(let next, _) = answer { token = next }
        return answer
      }
      guard next != token else { break }
      token = next
    }
    throw ContainerError(.inconsistent, "cannot ask for changes in \(folder): the server begins again and again")
  }

  private func askTree(
    since token: String, _ watched: Set<ContainerPath>, _ call: CallContext
  ) throws(ContainerError) -> [ChangeHint] {
    let gathered = Guarded(Gathered(container.address, watched))
    var next = token
    let answer = try pages(&next, in: .root, isDeep: true, call) { names, status in
      gathered.withLock { $0.take(names, status) }
    }
    guard case .page = answer else {
      state.withLock { $0.way = .unknown }
      return everything(watched)
    }
    let (hints, untold) = gathered.withLock { ($0.hints, $0.untold) }
    let silent = state.withLock { state in
      state.way = .tree(token: next)
      state.untold.formUnion(untold)
      return state.untold
    }
    return hints
      + watched.filter { path in silent.contains { path.names.starts(with: $0.names) } }.map { ChangeHint(folder: $0) }
  }

  private func askEach(_ watched: Set<ContainerPath>, _ call: CallContext) throws(ContainerError) -> [ChangeHint] {
    var hints: [ChangeHint] = []
    for folder in watched {
      call.progress()
      hints += try askAbout(folder, call)
    }
    return hints
  }

  private func askAbout(_ folder: ContainerPath, _ call: CallContext) throws(ContainerError) -> [ChangeHint] {
    let all = [ChangeHint(folder: folder)]
    guard var token = state.withLock({ $0.tokens[folder] }) else {
      // It is told from this state on, and looked at as it is.
      let token = try container.syncToken(folder, call)
      state.withLock { if $0.watched.contains(folder) { $0.tokens[folder] = token } }
      return all
    }
    let gathered = Guarded(Gathered(container.address, [folder]))
    let answer = try pages(&token, in: folder, isDeep: false, call) { names, status in
      gathered.withLock { $0.take(names, status) }
    }
    guard case .page = answer else {
      state.withLock { $0.tokens[folder] = nil }
      return all
    }
    state.withLock { if $0.tokens[folder] != nil { $0.tokens[folder] = token } }
    return gathered.withLock { $0.hints }
  }

  /// What reports have told so far, of the folders that are watched.
  private struct Gathered {
    private let root: [[UInt8]]
    private let watched: Set<ContainerPath>
    private var names: [ContainerPath: Set<ItemName>] = [:]
    private(set) var untold: Set<ContainerPath> = []

    init(_ address: DAVAddress, _ watched: Set<ContainerPath>) {
      root = address.names
      self.watched = watched
    }

    mutating func take(_ path: [[UInt8]], _ status: Int?) {
      guard path.count > root.count, path.starts(with: root) else { return }
      let found = path.dropFirst(root.count).compactMap { try? ItemName($0) }
      guard found.count == path.count - root.count, let name = found.last else { return }
      let folder = ContainerPath(Array(found.dropLast()))
      if status == 403 { untold.insert(folder.appending(name)) }
      if watched.contains(folder) { names[folder, default: []].insert(name) }
    }

    var hints: [ChangeHint] {
      names.flatMap { folder, names in
        names.count > DAVChangeFeed.mostNames
          ? [ChangeHint(folder: folder)] : names.map { ChangeHint(folder: folder, name: $0) }
      }
    }
  }

  // MARK: - Listings

  /// One listing of the tree instead of one of each folder, where that is cheaper.
  private func compare(_ watched: Set<ContainerPath>, _ call: CallContext) throws(ContainerError) -> [ChangeHint] {
    guard state.withLock({ !$0.refusesDepth && watched.count > $0.tooFew }) else { return everything(watched) }
    let tree = Guarded(Tree(container.address, watched))
    do throws(ContainerError) {
      let what = "cannot list all of \(container.url)"
      _ = try container.find(.root, isFolder: true, depth: nil, asking: Self.question, what, call) { resource in
        tree.withLock { $0.take(resource) }
      } goesOn: {
        tree.withLock { $0.beside <= max(Self.mostBeside, $0.inside) }
      }
    } catch {
      if error.code == .cancelled { throw error }
      // What is wrong beside that, the listings of the folders will tell.
      let isTooLarge = tree.withLock { $0.beside > max(Self.mostBeside, $0.inside) }
      let isRefused = error.code == .permissionDenied || error.code == .notRepresentable
      state.withLock { state in
        if isTooLarge { state.tooFew = watched.count * 2 }
        state.refusesDepth = isRefused
      }
      return everything(watched)
    }
    let marks = tree.withLock { $0.marks }
    return state.withLock { state in
      // A server that takes infinity for 1.
      if marks.count < 2 { state.refusesDepth = true }
      let changed = watched.filter { marks[$0] == nil || marks[$0] != state.marks[$0] }
      for (folder, mark) in marks where state.watched.contains(folder) { state.marks[folder] = mark }
      return everything(changed)
    }
  }

  private struct Tree {
    private let root: [[UInt8]]
    private let watched: Set<ContainerPath>
    /// Of each folder that was shown; the same whatever the order is that a server lists it in.
    private(set) var marks: [ContainerPath: UInt64] = [:]
    private(set) var inside = 0
    private(set) var beside = 0

    init(_ address: DAVAddress, _ watched: Set<ContainerPath>) {
      root = address.names
      self.watched = watched
    }

    mutating func take(_ found: DAVResource) {
      guard found.names.starts(with: root) else { return }
      let names = found.names.dropFirst(root.count).compactMap { try? ItemName($0) }
      guard names.count == found.names.count - root.count, names.first != hiddenName else { return }
      let path = ContainerPath(names)
      if found.isFolder, watched.contains(path) { marks[path, default: 0] &+= 0 }
      guard !names.isEmpty else { return }
      guard watched.contains(path.parent) else { return beside += 1 }
      inside += 1
      var hasher = Hasher()
      hasher.combine(names.last)
      hasher.combine(found.isFolder)
      hasher.combine(found.version)
      hasher.combine(found.size)
      marks[path.parent, default: 0] &+= UInt64(bitPattern: Int64(hasher.finalize()))
    }
  }

  private static let question = Array(
    """
    <?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/><getetag/>\
    <getlastmodified/></prop></propfind>
    """.utf8)
}
