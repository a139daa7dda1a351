import CLinux
import StorageErrors

/// The default invariant: every file of a source is whole at the source or at the destination.
///
/// Whole: same bytes (of a symlink: same target). The destination is learned from a run without faults: the folder
/// under which it left all files of the source by their paths, or else the places of each.
struct LostFiles: Sendable {
  /// What a run may have in its hands, in the same order in every run: the mount, and folders outside of it.
  typealias Places = [FilePath]

  /// A folder below one of the places.
  struct Root: Equatable {
    var place: Int
    var names: [[UInt8]]
  }

  private struct Original {
    /// Not touched by any run.
    var pristine: FilePath
    /// Below its source's root.
    var names: [[UInt8]]
    var roots: [Root]
  }
  private var originals: [Original] = []

  var count: Int { originals.count }

  /// Adds a file, or the files below a folder. `root` is where a run finds it at its beginning.
  mutating func add(_ source: FilePath, at root: Root) throws(Failure) {
    guard source.isFolder, source.linkTarget == nil else {
      originals.append(Original(pristine: source, names: [source.lastName], roots: [root]))
      return
    }
    try Self.walk(source) { originals.append(Original(pristine: $0, names: $1, roots: [root])) }
  }

  /// Looks at what a run without faults has left.
  mutating func learn(_ places: Places) throws(Failure) {
    var found: [[UInt8]: [(place: Int, names: [[UInt8]])]] = [:]
    for (index, place) in places.enumerated() {
      try Self.walk(place) { _, names in found[names.last ?? [], default: []].append((index, names)) }
    }
    let own = originals.map { $0.roots[0] }
    for home in own.indices where !own[..<home].contains(own[home]) {
      let group = originals.indices.filter { own[$0] == own[home] }
      var candidates = group.map { index in
        (found[originals[index].names.last ?? []] ?? [])
          .compactMap { root(of: originals[index], at: $0, places) }.filter { $0 != own[home] }
      }
      let common = candidates[0].filter { root in candidates.allSatisfy { $0.contains(root) } }
      if !common.isEmpty { candidates = candidates.map { _ in common } }
      for (index, roots) in zip(group, candidates) { originals[index].roots += roots }
    }
  }

  private func root(of original: Original, at found: (place: Int, names: [[UInt8]]), _ places: Places) -> Root? {
    guard found.names.suffix(original.names.count).elementsEqual(original.names) else { return nil }
    let root = Root(place: found.place, names: found.names.dropLast(original.names.count))
    return isWhole(original, root, places) ? root : nil
  }

  private func isWhole(_ original: Original, _ root: Root, _ places: Places) -> Bool {
    let path = (root.names + original.names).reduce(places[root.place]) { $0.appending($1) }
    return Self.areEqual(original.pristine, path)
  }

  /// The paths, below their sources, of what is whole nowhere.
  func find(_ places: Places) -> [String] {
    originals.filter { original in !original.roots.contains { isWhole(original, $0, places) } }
      .map { String(FilePath.absolute($0.names).description.dropFirst()) }
  }

  /// Files and symlinks below `folder`, depth first.
  private static func walk(
    _ folder: FilePath, below names: [[UInt8]] = [], _ body: (FilePath, [[UInt8]]) -> Void
  ) throws(Failure) {
    let entries: [[UInt8]]
    do { entries = try folder.entries().sorted { $0.lexicographicallyPrecedes($1) } } catch {
      throw Failure("cannot list", folder, error)
    }
    for name in entries {
      let path = folder.appending(name)
      guard let status = try? path.status(followingLink: false) else { continue }
      switch Int32(status.st_mode) & S_IFMT {
      case S_IFDIR: try walk(path, below: names + [name], body)
      case S_IFREG, S_IFLNK: body(path, names + [name])
      default: break
      }
    }
  }

  private static func areEqual(_ a: FilePath, _ b: FilePath) -> Bool {
    if let target = a.linkTarget { return b.linkTarget == target }
    guard b.linkTarget == nil, let one = try? a.status(), let other = try? b.status(), one.st_size == other.st_size
    else { return false }
    let first = OpenForReading(a), second = OpenForReading(b)
    while true {
      guard let left = first.next(), let right = second.next(), left == right else { return false }
      if left.isEmpty { return true }
    }
  }
}

/// A file, in pieces.
private final class OpenForReading {
  private let descriptor: Int32
  private static let size = 1 << 18

  init(_ path: FilePath) { descriptor = path.call { lx_open($0, O_RDONLY, 0) } }
  deinit { if descriptor >= 0 { close(descriptor) } }

  /// The next bytes, as many as there are up to the piece's size; empty at the end; nil when they cannot be read.
  func next() -> [UInt8]? {
    guard descriptor >= 0 else { return nil }
    var piece = [UInt8](repeating: 0, count: Self.size)
    var filled = 0
    while filled < piece.count {
      let count = piece[filled...].withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
      if count < 0 { return nil }
      if count == 0 { break }
      filled += count
    }
    return Array(piece.prefix(filled))
  }
}
