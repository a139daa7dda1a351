import CLinux
import DocumentMigration
import StorageErrors

/// All that is in a folder, by the bytes of its names (Swift's strings take é composed and decomposed for one).
package struct FolderTree: Equatable, CustomStringConvertible {
  package enum Node: Equatable, CustomStringConvertible {
    case file([UInt8])
    case link(String)
    case folder
    case other

    package var description: String {
      switch self {
      case .file(let bytes): "file of \(bytes.count) bytes, \(bytes.prefix(8))"
      case .link(let target): "link to \(target)"
      case .folder: "folder"
      case .other: "other"
      }
    }
  }

  package var nodes: [DocumentPath: Node] = [:]

  package init(_ nodes: [DocumentPath: Node] = [:]) { self.nodes = nodes }

  /// As it is on disk; reads everything. Empty when there is no such folder.
  package init(at folder: String) throws(Errno) {
    guard Sys.exists(folder) else { return }
    try read(folder, .init(""))
  }

  private mutating func read(_ folder: String, _ path: DocumentPath) throws(Errno) {
    for entry in try OpenFolder(folder).rest() where entry.text != "." && entry.text != ".." {
      let place = folder + "/" + entry.text
      let below = path.appending(entry.bytes)
      let info = try Sys.info(place)
      if info.isFolder {
        nodes[below] = .folder
        try read(place, below)
      } else if info.isSymlink {
        nodes[below] = .link(try Sys.readlink(place))
      } else if lx_is_reg(info.st_mode) != 0 {
        nodes[below] = .file(try Sys.contents(place))
      } else {
        nodes[below] = .other
      }
    }
  }

  /// Makes it below `folder`.
  package func write(to folder: String) throws(Errno) {
    try Sys.makeFolders(folder)
    for (path, node) in nodes.sorted(by: { $0.key.precedesInTree($1.key) }) {
      let place = folder + "/" + String(decoding: path.bytes, as: UTF8.self)
      switch node {
      case .folder: try Sys.makeFolder(place)
      case .file(let bytes): try Sys.put(place, bytes)
      case .link(let target): try Sys.symlink(target, at: place)
      case .other: try Sys.makeNode(place, mode: mode_t(S_IFIFO) | 0o644)
      }
    }
  }

  package subscript(_ path: String) -> Node? {
    get { nodes[DocumentPath(path)] }
    set { nodes[DocumentPath(path)] = newValue }
  }

  /// Without folders.
  package var documents: FolderTree { FolderTree(nodes.filter { $0.value != .folder }) }
  package var isEmpty: Bool { nodes.isEmpty }

  /// Those of `self` that `other` has too, just the same.
  package func isHeld(by others: FolderTree...) -> [DocumentPath] {
    nodes.filter { path, node in !others.contains { $0.nodes[path] == node } }.map(\.key).sorted()
  }

  package var description: String {
    nodes.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }.joined(separator: "\n")
  }
}

extension FolderTree {
  /// What an app may have in Documents: Japanese names in both Unicode forms, emoji, names as long as they may be,
  /// case twins, a loop of symlinks, folders within folders and without anything.
  package static func documents(seed: UInt64 = 1) -> FolderTree {
    var tree = FolderTree()
    tree["メモ"] = .folder
    tree["メモ/カフェ.txt"] = .file(Array("最寄りのカフェ".utf8))
    tree["メモ/か\u{3099}くせい.txt"] = .file(Array("decomposed".utf8))
    tree["メモ/がくせい.txt"] = .file(Array("composed".utf8))
    tree["☺️👩‍👩‍👧.txt"] = .file(Array("emoji".utf8))
    tree[String(repeating: "長", count: 85)] = .file(patterned(3000, seed: seed))
    tree[String(repeating: "n", count: 251) + ".txt"] = .file(patterned(10, seed: seed + 1))
    tree["Twin.txt"] = .file(Array("upper".utf8))
    tree["twin.txt"] = .file(Array("lower".utf8))
    tree["loop"] = .folder
    tree["loop/up"] = .link("../loop")
    tree["loop/self"] = .link("self")
    tree["empty"] = .folder
    tree["empty/folder"] = .folder
    tree["zero"] = .file([])
    tree["large.bin"] = .file(patterned(3 << 20, seed: seed + 2))
    return tree
  }
}

/// Single values, for tests that look at files by their paths.
extension Sys {
  package static func mode(_ path: String) throws(Errno) -> mode_t { try info(path).permissions }
  /// Nanoseconds since 1970.
  package static func modified(_ path: String) throws(Errno) -> Int { try info(path).st_mtim.nanoseconds }
  /// Nanoseconds since 1970.
  package static func changed(_ path: String) throws(Errno) -> Int { try info(path).st_ctim.nanoseconds }
  /// Access and modification; nanoseconds since 1970.
  package static func setModified(_ path: String, _ nanoseconds: Int) throws(Errno) {
    let time = timespec(nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
    try setTimes(path, accessed: time, modified: time)
  }
}
