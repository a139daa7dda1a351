import Foundation

/// Which files of Documents go where.
public struct RelocationRule: Codable, Hashable, Sendable {
  /// For the whole path from Documents if it has a `/`, else for a file's name in any folder. `*`, `?` and `[…]` as in a
  /// shell; `*` stops at a `/`. A folder's name or path stands for all that is in it.
  public var glob: String
  /// From the app's home, such as `Library/Caches`. Folders between Documents and the file are kept below it.
  public var folder: DocumentPath

  /// Any two.
  public init(glob: String, folder: DocumentPath) {
    self.glob = glob
    self.folder = folder
  }

  /// `GLOB=FOLDER`, split at the last `=`; nil when there is none, a side is empty, or the folder is no place of its own
  /// within the home.
  public init?(_ text: [UInt8]) {
    guard let mark = text.lastIndex(of: 0x3d), mark > 0 else { return nil }
    let names = text[(mark + 1)...].split(separator: 0x2f).map(Array.init).filter { $0 != [0x2e] }
    guard !names.isEmpty, text[text.index(after: mark)] != 0x2f, !names.contains([0x2e, 0x2e]),
      names[0] != Relocation.documents.bytes
    else { return nil }
    self.init(
      glob: String(decoding: text[..<mark], as: UTF8.self), folder: DocumentPath(Array(names.joined(separator: [0x2f])))
    )
  }

  var isLiteral: Bool { !glob.contains { "*?[\\".contains($0) } }

  /// Whether it means the file at `path`, from Documents.
  func matches(_ path: DocumentPath) -> Bool {
    let names = path.names
    return (1...max(1, names.count)).contains { count in
      let upper = DocumentPath(Array(names.prefix(count).joined(separator: [0x2f])))
      let text = glob.contains("/") ? upper : DocumentPath(upper.name)
      return glob.withCString { pattern in text.call { fnmatch(pattern, $0, FNM_PATHNAME) == 0 } }
    }
  }
}

/// The files that SQLite keeps beside a database, and that are worth nothing, or harm, away from it.
enum Sidecar {
  static let suffixes = ["-wal", "-shm", "-journal"].map { Array($0.utf8) }

  static func paths(of database: DocumentPath) -> [DocumentPath] {
    suffixes.map { database.renamed(database.name + $0) }
  }

  /// The database whose sidecar has this path; nil when it is named as none.
  static func database(of path: DocumentPath) -> DocumentPath? {
    let name = path.name
    guard let suffix = suffixes.first(where: { name.count > $0.count && name.suffix($0.count) == $0[...] }) else {
      return nil
    }
    return path.renamed(Array(name.dropLast(suffix.count)))
  }
}
