// A folder's rename, object by object; there is no other way.

extension S3Container {
  /// One that was ended in the middle is gone on with: a note of docsfs's own says from where to where. (A marker's
  /// metadata would do, if all stores kept it.)
  func renameFolder(
    _ path: ContainerPath, to target: ContainerPath, _ name: ItemName, _ what: String, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    let (from, to) = (address.folderKey(path), address.folderKey(target))
    guard !to.starts(with: from) else { throw ContainerError(.notRepresentable, "\(what): it lies in it") }
    let attributes = try head(from, what, call).map { S3Metadata.attributes($0) } ?? RemoteAttributes(mtime: .now())
    try requireRoom(from, to, what, call)
    let isResumed = try begin(from, target, attributes, what, call)
    var folders: Set<[UInt8]> = []
    try eachPage(prefix: from, delimiter: false, what, call) { page throws(ContainerError) in
      for object in page.objects { folders.formUnion(foldersAbove(object.key, below: from)) }
      // Not all stores copy an object whose key ends with a slash.
      let files = page.objects.filter { $0.key.last != 0x2f || $0.size > 0 }
      try move(files, from, to, isResumed: isResumed, what, call)
    }
    // What is in a folder before it: a store that keeps real folders wants them empty.
    try moveMarkers(folders.sorted { $0.count > $1.count }, from, to, what, call)
    try keepFolder(path.parent, besides: from, what, call)
    // What was put into it meanwhile keeps it, as a folder of its own.
    if try isBare(inside(path, limit: 2, what, call), from) { try delete(from, nil, what, call) }
    try delete(moveNote(from: from, to: to), nil, what, call)
    forgetFolders(below: path)
    noteFolder(target)
    return folderItem(name, attributes)
  }

  func moveNote(from: [UInt8], to: [UInt8]) -> [UInt8] {
    address.key(ContainerPath([hiddenName])) + Array("/move-\(hex(Digest.of(from + [0] + to)))".utf8)
  }

  /// Before anything moves: no key becomes longer than a store takes, which would leave the folder in two halves.
  private func requireRoom(_ from: [UInt8], _ to: [UInt8], _ what: String, _ call: CallContext) throws(ContainerError) {
    guard to.count > from.count else { return }
    let longest = Self.longestKey - (to.count - from.count)
    try eachPage(prefix: from, delimiter: false, what, call) { page throws(ContainerError) in
      guard page.objects.allSatisfy({ $0.key.count <= longest }) else {
        throw ContainerError(
          .notRepresentable, "\(what): a path in it would be longer than the \(Self.longestKey) bytes of a key")
      }
    }
  }

  /// Makes the target; whether that was done before, by a move that was ended.
  private func begin(
    _ from: [UInt8], _ target: ContainerPath, _ attributes: RemoteAttributes, _ what: String, _ call: CallContext
  ) throws(ContainerError) -> Bool {
    let note = moveNote(from: from, to: address.folderKey(target))
    guard try item(at: target, call) == nil else {
      guard try head(note, what, call) != nil else { throw changed(what, "something is there") }
      return true
    }
    try client.require(.init(method: "PUT", key: note, what: what), call)
    let isNew = try rules(call).keepsAbsent
    do throws(ContainerError) {
      try putMarker(target, attributes, isNew: isNew, what, call)
    } catch {
      // Somebody else's folder: none that was begun here.
      if error.code == .preconditionFailed { try delete(note, nil, what, call) }
      throw error
    }
    return false
  }

  /// The folders on the way to `key`, as keys; `key` itself when it is one.
  private func foldersAbove(_ key: [UInt8], below top: [UInt8]) -> [[UInt8]] {
    key.indices.dropFirst(top.count).filter { key[$0] == 0x2f }.map { Array(key[...$0]) }
  }

  /// Copies, proves the copies, and then removes what was copied and is still the same: somebody's change in between
  /// stays where it is.
  private func move(
    _ files: [S3Page.Object], _ from: [UInt8], _ to: [UInt8], isResumed: Bool, _ what: String, _ call: CallContext
  ) throws(ContainerError) {
    let copies = Guarded([S3Copy?](repeating: nil, count: files.count))
    try inParallel(files.count, width: 8) { index throws(ContainerError) in
      let target = to + files[index].key.dropFirst(from.count)
      let copy = try self.copied(files[index], to: target, isResumed: isResumed, what, call)
      copies.withLock { $0[index] = copy }
      call.progress()
    }
    let proven = try proven(copies.withLock { $0.compactMap { $0 } }, below: to, what, call)
    try delete(proven.map(\.source), what, call)
  }

  /// nil: it stays where it is, for it has changed or gone since it was listed, or somebody has put another there.
  private func copied(
    _ object: S3Page.Object, to target: [UInt8], isResumed: Bool, _ what: String, _ call: CallContext
  ) throws(ContainerError) -> S3Copy? {
    if isResumed, let there = try head(target, what, call) {
      let found = try self.object(target, there, what)
      let isCopy = found.etag == object.etag || S3Metadata.isCopy(there, of: object.etag)
      return isCopy && found.size == object.size ? S3Copy(source: object, target: target, etag: found.etag) : nil
    }
    do throws(ContainerError) {
      let etag = try copy(object, to: target, if: .absent, what, call)
      return S3Copy(source: object, target: target, etag: etag)
    } catch  where error.code == .preconditionFailed || error.code == .notFound {
      return nil
    }
  }

  private func moveMarkers(
    _ keys: [[UInt8]], _ from: [UInt8], _ to: [UInt8], _ what: String, _ call: CallContext
  ) throws(ContainerError) {
    let found = Guarded(Set<[UInt8]>())
    try inParallel(keys.count, width: 8) { index throws(ContainerError) in
      guard let old = try self.head(keys[index], what, call) else { return }
      var request = S3Client.Request(method: "PUT", key: to + keys[index].dropFirst(from.count), what: what)
      request.headers = S3Metadata.headers(of: old, with: RemoteAttributes())
      try self.client.require(request, call)
      found.withLock { _ = $0.insert(keys[index]) }
      call.progress()
    }
    let moved = found.withLock { $0 }
    try deleteMarkers(keys.filter { moved.contains($0) }, what, call)
  }
}
