/// Symlinks for a container that holds none: a link `name` is a file `name.rclonelink` whose bytes are its target, as
/// `rclone --links` writes it (rclone.org/local, "Symlinks"), so that both see the same links.
///
/// Where there is a file or folder of the link's own name as well, that is shown, and the link stays untouched. Names that
/// end so are taken for links, and cannot be given to anything else.
package final class LinkFileContainer: Container {
  private static let suffix = Array(".rclonelink".utf8)
  /// Of a target; longer ones are files.
  private static let longestTarget: Int64 = 4_096

  private let base: any Container
  /// Targets by link file and version.
  private let targets = Guarded<[Key: [UInt8]]>([:])
  private struct Key: Hashable {
    var path: ContainerPath
    var version: Version
  }

  package init(_ base: any Container) { self.base = base }

  package var url: String { base.url }
  package var traits: ContainerTraits {
    var traits = base.traits
    traits.holdsSymlinks = true
    return traits
  }
  package func checksum(of version: Version) -> ContentDigest? { base.checksum(of: version) }

  // MARK: - Names

  private func isLinkFile(_ name: ItemName?) -> Bool {
    name?.bytes.suffix(Self.suffix.count).elementsEqual(Self.suffix) == true
  }

  /// Where a link is kept; nil for a name that would be too long.
  private func linkFile(_ path: ContainerPath) -> ContainerPath? {
    guard let name = path.last, let file = try? ItemName(name.bytes + Self.suffix) else { return nil }
    return path.parent.appending(file)
  }

  private func requireLinkFile(_ what: String, _ path: ContainerPath) throws(ContainerError) -> ContainerPath {
    guard let file = linkFile(path) else {
      throw ContainerError(.notRepresentable, "cannot \(what) \(path): the name is too long for a symlink there")
    }
    return file
  }

  private func refuseLinkFile(_ what: String, _ path: ContainerPath) throws(ContainerError) {
    guard isLinkFile(path.last) else { return }
    throw ContainerError(.notRepresentable, "cannot \(what) \(path): names that end in .rclonelink mean symlinks there")
  }

  /// A link file as the link that it means; nil when it means none.
  private func link(_ file: RemoteItem, at path: ContainerPath, _ call: CallContext) throws(ContainerError)
    -> RemoteItem?
  {
    guard file.kind == .file, (1...Self.longestTarget).contains(file.size),
      let name = try? ItemName(file.name.bytes.dropLast(Self.suffix.count)), isLinkFile(file.name)
    else { return nil }
    let key = Key(path: path, version: file.version)
    let target: [UInt8]
    if let known = targets.withLock({ $0[key] }) {
      target = known
    } else {
      var bytes: [UInt8] = []
      try base.read(path, version: file.version, range: 0..<file.size, call) { piece throws(ContainerError) in
        bytes += piece
      }
      target = bytes
      targets.withLock { targets in
        if targets.count > 10_000 { targets = [:] }
        targets[key] = bytes
      }
    }
    guard !target.contains(0) else { return nil }
    return RemoteItem(
      name: name, kind: .symlink, size: file.size, version: file.version, identity: file.identity,
      attributes: file.attributes, target: target)
  }

  private func link(at path: ContainerPath, _ call: CallContext) throws(ContainerError) -> RemoteItem? {
    guard let place = linkFile(path), let file = try base.item(at: place, call) else { return nil }
    do throws(ContainerError) {
      return try link(file, at: place, call)
    } catch  where error.code == .notFound {
      return nil
    }
  }

  // MARK: - Questions

  package func identify(create: Bool, _ call: CallContext) throws(ContainerError) -> ContainerID {
    try base.identify(create: create, call)
  }

  package func list(_ folder: ContainerPath, _ call: CallContext) throws(ContainerError) -> [RemoteItem] {
    let all = try base.list(folder, call)
    guard all.contains(where: { isLinkFile($0.name) }) else { return all }
    var items = all.filter { !isLinkFile($0.name) }
    let taken = Set(items.map(\.name))
    for file in all where isLinkFile(file.name) {
      do throws(ContainerError) {
        // What means no link is a file, of its own name.
        guard let link = try link(file, at: folder.appending(file.name), call) else {
          items.append(file)
          continue
        }
        if !taken.contains(link.name) { items.append(link) }
      } catch  where error.code == .notFound || error.code == .versionChanged {
        // Gone or changed since it was listed: the next listing tells.
        continue
      }
    }
    return items
  }

  package func item(at path: ContainerPath, _ call: CallContext) throws(ContainerError) -> RemoteItem? {
    if let found = try base.item(at: path, call) {
      guard isLinkFile(path.last), try link(found, at: path, call) != nil else { return found }
      return nil
    }
    return path.isRoot ? nil : try link(at: path, call)
  }

  package func read(
    _ path: ContainerPath, version: Version, range: Range<Int64>, _ call: CallContext,
    sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) {
    try base.read(path, version: version, range: range, call, sink: sink)
  }

  package func tryOut(_ call: CallContext) throws(ContainerError) { try base.tryOut(call) }
  package func quota(_ call: CallContext) throws(ContainerError) -> Quota? { try base.quota(call) }

  package func changeFeed(_ handler: @escaping @Sendable ([ChangeHint]) -> Void) -> (any ChangeFeed)? {
    base.changeFeed { hints in
      handler(
        hints.map { hint in
          guard self.isLinkFile(hint.name), let bytes = hint.name?.bytes.dropLast(Self.suffix.count) else {
            return hint
          }
          // What is no name with a link file's ending is none without it.
          return ChangeHint(folder: hint.folder, name: (try? ItemName(bytes)) ?? hint.name)
        })
    }
  }

  // MARK: - Changes

  package func put(
    _ path: ContainerPath, from source: any UploadSource, attributes: RemoteAttributes,
    if condition: Precondition, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try refuseLinkFile("upload", path)
    return try base.put(path, from: source, attributes: attributes, if: condition, call)
  }

  package func makeFolder(_ path: ContainerPath, attributes: RemoteAttributes, _ call: CallContext)
    throws(ContainerError) -> RemoteItem
  {
    try refuseLinkFile("make the folder", path)
    return try base.makeFolder(path, attributes: attributes, call)
  }

  package func makeSymlink(
    _ path: ContainerPath, target: [UInt8], attributes: RemoteAttributes, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try refuseLinkFile("make the symlink", path)
    guard let name = path.last, (1...Int(Self.longestTarget)).contains(target.count) else {
      throw ContainerError(.notRepresentable, "cannot make the symlink \(path): its target is too long or empty")
    }
    let place = try requireLinkFile("make the symlink", path)
    guard try base.item(at: path, call) == nil else {
      throw ContainerError(.preconditionFailed, "cannot make the symlink \(path): something is there")
    }
    let file = try base.put(place, from: LinkSource(target), attributes: attributes, if: .absent, call)
    return RemoteItem(
      name: name, kind: .symlink, size: file.size, version: file.version, identity: file.identity,
      attributes: file.attributes, target: target)
  }

  package func rename(
    _ path: ContainerPath, to target: ContainerPath, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try refuseLinkFile("rename to", target)
    if let link = try linkUnder(path, call) {
      let place = try requireLinkFile("rename", target)
      guard try base.item(at: target, call) == nil else {
        throw ContainerError(.preconditionFailed, "cannot rename \(path) to \(target): something is there")
      }
      let moved = try base.rename(link.place, to: place, version: version, call)
      guard let renamed = try self.link(moved, at: place, call) else {
        throw ContainerError(.inconsistent, "cannot rename \(path) to \(target): it is no symlink any more")
      }
      return renamed
    }
    if let place = linkFile(target), try base.item(at: place, call) != nil {
      throw ContainerError(.preconditionFailed, "cannot rename \(path) to \(target): a symlink is there")
    }
    return try base.rename(path, to: target, version: version, call)
  }

  /// The link file that `path` means, when there is no other item there.
  private func linkUnder(_ path: ContainerPath, _ call: CallContext) throws(ContainerError)
    -> (place: ContainerPath, item: RemoteItem)?
  {
    guard let place = linkFile(path), try base.item(at: path, call) == nil, let item = try link(at: path, call) else {
      return nil
    }
    return (place, item)
  }

  package func remove(_ path: ContainerPath, kind: ItemKind, version: Version?, _ call: CallContext)
    throws(ContainerError)
  {
    guard kind == .symlink else {
      if try linkUnder(path, call) != nil {
        throw ContainerError(.preconditionFailed, "cannot remove \(path): it is a symlink by now")
      }
      return try base.remove(path, kind: kind, version: version, call)
    }
    guard try base.item(at: path, call) == nil else {
      throw ContainerError(.preconditionFailed, "cannot remove \(path): it is no symlink any more")
    }
    try base.remove(try requireLinkFile("remove", path), kind: .file, version: version, call)
  }

  package func setAttributes(
    _ path: ContainerPath, _ attributes: RemoteAttributes, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    guard let (place, link) = try linkUnder(path, call) else {
      return try base.setAttributes(path, attributes, version: version, call)
    }
    let set = try base.setAttributes(place, attributes, version: version, call)
    return RemoteItem(
      name: link.name, kind: .symlink, size: set.size, version: set.version, identity: set.identity,
      attributes: set.attributes, target: link.target)
  }
}

/// A link's target on its way.
private struct LinkSource: UploadSource {
  let bytes: [UInt8]
  init(_ bytes: [UInt8]) { self.bytes = bytes }

  var size: Int64 { Int64(bytes.count) }
  var sha256: [UInt8]? { Digest.of(bytes) }
  func isStillCurrent() -> Bool { true }
  func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ContainerError) -> Int {
    let piece = bytes.dropFirst(Int(clamping: offset)).prefix(buffer.count)
    buffer.copyBytes(from: piece)
    return piece.count
  }
}
