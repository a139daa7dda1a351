import StorageErrors

/// A file, folder or symlink of the model. A reference: an open handle keeps its file, whatever becomes of the name.
final class ModelNode {
  enum Kind: Equatable {
    case file, folder, link
  }
  let kind: Kind
  var bytes: [UInt8] = []
  var children: [String: ModelNode] = [:]
  var target = ""
  var mode: UInt32

  init(_ kind: Kind, mode: UInt32) {
    self.kind = kind
    self.mode = mode
  }

  func contains(_ node: ModelNode) -> Bool { self === node || children.values.contains { $0.contains(node) } }

  func write(_ offset: Int, _ new: [UInt8]) {
    if bytes.count < offset + new.count { bytes += [UInt8](repeating: 0, count: offset + new.count - bytes.count) }
    bytes.replaceSubrange(offset..<offset + new.count, with: new)
  }
}

/// What a file system is, in the fewest lines: a tree in memory that answers with POSIX's errnos.
struct ModelTree {
  var root = ModelNode(.folder, mode: 0o755)

  func node(_ path: [String]) throws(Errno) -> ModelNode {
    var node = root
    for name in path {
      guard node.kind == .folder else { throw .ENOTDIR }
      guard let next = node.children[name] else { throw .ENOENT }
      node = next
    }
    return node
  }

  private func parent(_ path: [String]) throws(Errno) -> (ModelNode, String) {
    let folder = try node(Array(path.dropLast()))
    guard folder.kind == .folder else { throw .ENOTDIR }
    return (folder, path.last ?? "")
  }

  func write(_ path: [String], _ bytes: [UInt8]) throws(Errno) {
    let (folder, name) = try parent(path)
    let file = folder.children[name] ?? ModelNode(.file, mode: 0o644)
    guard file.kind == .file else { throw file.kind == .folder ? .EISDIR : .EINVAL }
    file.bytes = bytes
    folder.children[name] = file
  }

  func make(_ kind: ModelNode.Kind, _ path: [String], target: String = "") throws(Errno) {
    let (folder, name) = try parent(path)
    guard folder.children[name] == nil else { throw .EEXIST }
    let node = ModelNode(kind, mode: kind == .link ? 0o777 : 0o755)
    node.target = target
    folder.children[name] = node
  }

  func unlink(_ path: [String]) throws(Errno) {
    let (folder, name) = try parent(path)
    guard let node = folder.children[name] else { throw .ENOENT }
    guard node.kind != .folder else { throw .EISDIR }
    folder.children[name] = nil
  }

  func removeFolder(_ path: [String]) throws(Errno) {
    let (folder, name) = try parent(path)
    guard let node = folder.children[name] else { throw .ENOENT }
    guard node.kind == .folder else { throw .ENOTDIR }
    guard node.children.isEmpty else { throw .ENOTEMPTY }
    folder.children[name] = nil
  }

  func rename(_ path: [String], _ target: [String], exchanges: Bool) throws(Errno) {
    let (from, name) = try parent(path)
    let (to, newName) = try parent(target)
    guard let node = from.children[name] else { throw .ENOENT }
    guard !node.contains(to) else { throw .EINVAL }
    let other = to.children[newName]
    if exchanges {
      guard let other else { throw .ENOENT }
      guard !other.contains(from) else { throw .EINVAL }
      from.children[name] = other
      to.children[newName] = node
      return
    }
    if let other {
      if other === node { return }
      if other.kind == .folder {
        guard node.kind == .folder else { throw .EISDIR }
        guard other.children.isEmpty else { throw .ENOTEMPTY }
      } else if node.kind == .folder {
        throw .ENOTDIR
      }
    }
    from.children[name] = nil
    to.children[newName] = node
  }

  func truncate(_ path: [String], _ size: Int) throws(Errno) {
    let node = try node(path)
    guard node.kind == .file else { throw node.kind == .folder ? .EISDIR : .EINVAL }
    node.bytes = Array(node.bytes.prefix(size)) + [UInt8](repeating: 0, count: max(0, size - node.bytes.count))
  }

  /// All paths with what is there, for a comparison; `/` at the end of a folder.
  var outline: [String: String] {
    var result: [String: String] = [:]
    func add(_ node: ModelNode, _ path: String) {
      switch node.kind {
      case .file: result[path] = Self.line(node.bytes, node.mode)
      case .link: result[path] = "-> \(node.target)"
      case .folder:
        if !path.isEmpty { result[path + "/"] = String(node.mode, radix: 8) }
        for (name, child) in node.children { add(child, path.isEmpty ? name : "\(path)/\(name)") }
      }
    }
    add(root, "")
    return result
  }

  static func line(_ bytes: [UInt8], _ mode: UInt32) -> String {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return "\(bytes.count) bytes \(String(hash, radix: 16)) \(String(mode, radix: 8))"
  }
}
