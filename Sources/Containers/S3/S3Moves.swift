extension S3Container {
  package func makeFolder(_ path: ContainerPath, attributes: RemoteAttributes, _ call: CallContext)
    throws(ContainerError) -> RemoteItem
  {
    let what = "cannot make the folder \(path)"
    let name = try requireName(what, path)
    let rules = try rules(call)
    try requireParent(path, what, call)
    guard try item(at: path, call) == nil else { throw changed(what, "something is there") }
    var attributes = attributes
    attributes.xattrs = nil
    attributes.mtime = attributes.mtime ?? .now()
    try putMarker(path, attributes, isNew: rules.keepsAbsent, what, call)
    noteFolder(path)
    return folderItem(name, attributes)
  }

  private func putMarker(
    _ path: ContainerPath, _ attributes: RemoteAttributes, isNew: Bool, _ what: String, _ call: CallContext
  ) throws(ContainerError) {
    var request = S3Client.Request(method: "PUT", key: address.folderKey(path), what: what)
    request.headers = S3Metadata.headers(attributes, kind: .folder)
    if isNew { request.headers.append(("If-None-Match", "*")) }
    try client.require(request, call)
  }

  package func makeSymlink(
    _ path: ContainerPath, target: [UInt8], attributes: RemoteAttributes, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    throw ContainerError(
      .notRepresentable, "cannot make the symlink \(path): an S3 store holds none")
  }

  package func setAttributes(
    _ path: ContainerPath, _ attributes: RemoteAttributes, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    let what = "cannot set the attributes of \(path)"
    let name = try requireName(what, path)
    let key = address.key(path)
    guard let old = try head(key, what, call) else {
      guard let before = try item(at: path, call), before.kind == .folder else {
        throw ContainerError(.notFound, "\(what): not found")
      }
      if version != nil, version != before.version { throw changed(what, "it is a folder by now") }
      let now = RemoteAttributes(
        mode: attributes.mode ?? before.attributes.mode, mtime: attributes.mtime ?? before.attributes.mtime)
      try putMarker(path, now, isNew: false, what, call)
      return folderItem(name, now)
    }
    guard let current = etag(old), version == nil || version == current else {
      throw changed(what, "it has another version by now")
    }
    let headers = S3Metadata.headers(of: old, with: attributes)
    let before = try file(name, old, what)
    if let version = try rewrite(key, current, size: before.size, headers: headers, what, call) {
      // As it was put there, whatever is there by now.
      let set = RemoteAttributes(
        mode: attributes.mode ?? before.attributes.mode, mtime: attributes.mtime ?? before.attributes.mtime)
      return RemoteItem(name: name, kind: .file, size: before.size, version: version, attributes: set)
    }
    try copy(
      key, version: current, to: key, headers: headers + [("x-amz-metadata-directive", "REPLACE")], what, call)
    guard let new = try head(key, what, call) else { throw ContainerError(.notFound, "\(what): it is gone") }
    return try file(name, new, what)
  }

  // MARK: - Removing

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
  private func delete(_ key: [UInt8], _ version: Version?, _ what: String, _ call: CallContext) throws(ContainerError) {
    var request = S3Client.Request(method: "DELETE", key: key, what: what)
    if let version, try rules(call).keepsVersion { request.headers = [("If-Match", quoted(version))] }
    let response = try client.send(request, call)
    guard response.isSuccess || response.status == 404 else { throw client.failure(response, what) }
  }

  /// Whether nothing but `key` is on a page.
  private func isBare(_ page: S3Page, _ key: [UInt8]) -> Bool {
    (page.objects.map(\.key) + page.prefixes).allSatisfy { $0 == key }
  }

  /// A folder without a marker is there only as long as something is in it.
  private func keepFolder(_ folder: ContainerPath, besides key: [UInt8], _ what: String, _ call: CallContext)
    throws(ContainerError)
  {
    guard !folder.isRoot else { return }
    guard try isBare(inside(folder, limit: 2, what, call), key) else { return }
    try putMarker(folder, RemoteAttributes(mtime: .now()), isNew: false, what, call)
  }

  // MARK: - Renaming

  /// Copies, and then removes what was copied and is still the same: somebody's change in between stays where it is.
  package func rename(
    _ path: ContainerPath, to target: ContainerPath, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    let what = "cannot rename \(path) to \(target)"
    _ = try requireName(what, path)
    let name = try requireName(what, target)
    let source = try head(path, what, call)
    if source == nil {
      guard try isFolder(path, what, call) else {
        try confirm(call)
        throw ContainerError(.notFound, "\(what): not found")
      }
      if version != nil { throw changed(what, "it is a folder by now") }
    }
    try requireParent(target, what, call)
    guard let source else { return try renameFolder(path, to: target, name, what, call) }
    guard let current = etag(source), version == nil || version == current else {
      throw changed(what, "it has another version by now")
    }
    guard try item(at: target, call) == nil else { throw changed(what, "something is there") }
    let isNew = try rules(call).keepsAbsent
    try copy(
      address.key(path), version: current, to: address.key(target), headers: isNew ? [("If-None-Match", "*")] : [],
      what,
      call)
    guard let copied = try head(target, what, call) else {
      throw ContainerError(.inconsistent, "\(what): the copy is gone")
    }
    let moved = try file(name, copied, what)
    // The source is the only other copy.
    guard try moved.size == file(name, source, what).size else {
      throw ContainerError(.inconsistent, "\(what): the copy has another size; both are left")
    }
    try keepFolder(path.parent, besides: address.key(path), what, call)
    try removeCopied(address.key(path), current, what, call)
    return moved
  }

  private func removeCopied(_ key: [UInt8], _ version: Version, _ what: String, _ call: CallContext)
    throws(ContainerError)
  {
    guard let now = try head(key, what, call), etag(now) == version else { return }
    do throws(ContainerError) {
      try delete(key, version, what, call)
    } catch  where error.code == .preconditionFailed {}
  }

  /// Object by object; there is no other way. One that was ended in the middle is gone on with: a note of docsfs's own
  /// says from where to where. (A marker's metadata would do, if all stores kept it.)
  private func renameFolder(
    _ path: ContainerPath, to target: ContainerPath, _ name: ItemName, _ what: String, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    let (from, to) = (address.folderKey(path), address.folderKey(target))
    let note = moveNote(from: from, to: to)
    guard !to.starts(with: from) else { throw ContainerError(.notRepresentable, "\(what): it lies in it") }
    let attributes = try head(from, what, call).map { S3Metadata.attributes($0) } ?? RemoteAttributes(mtime: .now())
    let isResumed = try item(at: target, call) != nil
    if isResumed {
      guard try head(note, what, call) != nil else { throw changed(what, "something is there") }
    } else {
      try client.require(.init(method: "PUT", key: note, what: what), call)
      let isNew = try rules(call).keepsAbsent
      do throws(ContainerError) {
        try putMarker(target, attributes, isNew: isNew, what, call)
      } catch {
        // Somebody else's folder: none that was begun here.
        if error.code == .preconditionFailed { try delete(note, nil, what, call) }
        throw error
      }
    }
    var folders: Set<[UInt8]> = []
    try eachPage(prefix: from, delimiter: false, what, call) { page throws(ContainerError) in
      for object in page.objects { folders.formUnion(foldersAbove(object.key, below: from)) }
      // Not all stores copy an object whose key ends with a slash.
      let files = page.objects.filter { $0.key.last != 0x2f || $0.size > 0 }
      try inParallel(files.count, width: 8) { index throws(ContainerError) in
        let target = to + files[index].key.dropFirst(from.count)
        try self.move(files[index], to: target, isResumed: isResumed, what, call)
      }
    }
    // What is in a folder before it: a store that keeps real folders wants them empty.
    for folder in folders.sorted(by: { $0.count > $1.count }) {
      try moveMarker(folder, to: to + folder.dropFirst(from.count), what, call)
    }
    try keepFolder(path.parent, besides: from, what, call)
    // What was put into it meanwhile keeps it, as a folder of its own.
    if try isBare(inside(path, limit: 2, what, call), from) { try delete(from, nil, what, call) }
    try delete(note, nil, what, call)
    forgetFolders(below: path)
    noteFolder(target)
    return folderItem(name, attributes)
  }

  func moveNote(from: [UInt8], to: [UInt8]) -> [UInt8] {
    address.key(ContainerPath([hiddenName])) + Array("/move-\(hex(Digest.of(from + [0] + to)))".utf8)
  }

  /// The folders on the way to `key`, as keys; `key` itself when it is one.
  private func foldersAbove(_ key: [UInt8], below top: [UInt8]) -> [[UInt8]] {
    key.indices.dropFirst(top.count).filter { key[$0] == 0x2f }.map { Array(key[...$0]) }
  }

  private func moveMarker(_ key: [UInt8], to target: [UInt8], _ what: String, _ call: CallContext)
    throws(ContainerError)
  {
    guard let old = try head(key, what, call) else { return }
    var request = S3Client.Request(method: "PUT", key: target, what: what)
    request.headers = S3Metadata.headers(of: old, with: RemoteAttributes())
    try client.require(request, call)
    try delete(key, nil, what, call)
    call.progress()
  }

  private func move(
    _ object: S3Page.Object, to target: [UInt8], isResumed: Bool, _ what: String, _ call: CallContext
  ) throws(ContainerError) {
    let version = Version(Array(object.etag.utf8))
    if isResumed, let there = try head(target, what, call), etag(there) == version {
      return try removeCopied(object.key, version, what, call)
    }
    let isNew = try rules(call).keepsAbsent
    do throws(ContainerError) {
      try copy(object.key, version: version, to: target, headers: isNew ? [("If-None-Match", "*")] : [], what, call)
    } catch  where error.code == .preconditionFailed || error.code == .notFound {
      // Changed or gone since it was listed, or somebody has put another there: it stays where it is.
      return
    }
    call.progress()
    try removeCopied(object.key, version, what, call)
  }

  /// At the store, of that version; `.preconditionFailed` when it has another.
  private func copy(
    _ key: [UInt8], version: Version, to target: [UInt8], headers: [(name: String, value: String)], _ what: String,
    _ call: CallContext
  ) throws(ContainerError) {
    var request = S3Client.Request(method: "PUT", key: target, what: what)
    request.headers =
      headers + [
        ("x-amz-copy-source", "/\(percentEncoded(address.bucket))/\(percentEncoded(path: key))"),
        ("x-amz-copy-source-if-match", quoted(version)),
      ]
    let response = try client.send(request, call)
    // A store that has begun to answer before it knew says so in the body.
    guard response.isSuccess, S3Failure(response.body).code.isEmpty else { throw client.failure(response, what) }
  }
}
