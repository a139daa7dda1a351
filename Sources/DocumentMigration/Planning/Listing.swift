import Foundation
import StorageErrors

/// A tree as it was found: what the planner works on.
struct Listing: Sendable {
  struct Entry: Hashable, Sendable {
    /// From the tree's root.
    var path: DocumentPath
    var status: FileStatus
    /// Reading it costs a fetch: the storage says that its bytes are not, or not all, here.
    var isPlaceholder = false
    /// The stub that stands for it in its folder.
    var stub: DocumentPath?
    /// Where it goes, from the destination's root; nil: to its own path.
    var target: DocumentPath?
  }

  /// What cannot be migrated, and why.
  struct Refused: Hashable, Sendable {
    var path: DocumentPath
    var refusal: Refusal
  }

  /// Folders before what is in them.
  var entries: [Entry] = []
  var refused: [Refused] = []
  /// Names of migrations' own temporary files.
  var temporaries: [DocumentPath] = []
}

/// The names that a migration gives to what it has not finished.
enum TemporaryName {
  private static let prefix = Array(".docsfs-migrate-".utf8)

  /// The same each time for one path of one journal, so that a second run finds what the first one left. Short, whatever
  /// the document's name is.
  static func make(_ seed: [UInt8], _ path: DocumentPath) -> [UInt8] {
    prefix + Array(shortDigest(seed + [0] + path.bytes).utf8)
  }
  static func isOne(_ name: [UInt8]) -> Bool {
    name.count == prefix.count + 16 && name.starts(with: prefix)
      && name.dropFirst(prefix.count).allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
  }
}
