import Foundation
import StorageErrors

/// What a migration would do, and what it would trip over. Made without changing anything, and without materializing.
public struct MigrationPlan: Codable, Hashable, Sendable {
  /// How many, and how large.
  public struct Tally: Codable, Hashable, Sendable {
    /// Documents.
    public var items = 0
    /// Bytes, by their sizes.
    public var bytes: Int64 = 0

    mutating func count(_ size: Int64) {
      items += 1
      bytes += size
    }
  }

  /// A name that both sides have. Whether the contents differ is found out when it is migrated: telling it here would
  /// materialize them.
  public struct Collision: Codable, Hashable, Sendable {
    /// From the source's root.
    public var path: DocumentPath
    /// Both are files of one size, so they may well be the same.
    public var mayBeTheSame: Bool
    /// What `--on-conflict` makes of it, in words, should they differ.
    public var outcome: String
  }

  /// A document that stays where it is.
  public struct Left: Codable, Hashable, Sendable {
    /// From the source's root.
    public var path: DocumentPath
    /// What kind of reason it is, in StorageErrors' words.
    public var category: Classification.Category
    /// Why.
    public var reason: String
    /// What to do.
    public var advice: String
  }

  /// Files to be copied or moved.
  public internal(set) var files = Tally()
  /// Files that an earlier run has brought, by its journal, and that have not changed since at either side.
  public internal(set) var brought = Tally()
  /// Folders, without the root.
  public internal(set) var folders = 0
  /// Symlinks, which are made again as they are.
  public internal(set) var symlinks = 0
  /// Those of the files whose bytes have to be fetched first.
  public internal(set) var toMaterialize = Tally()
  /// Files that have further names: each name becomes a file of its own.
  public internal(set) var hardLinked = 0
  /// Names that both sides have.
  public internal(set) var collisions: [Collision] = []
  /// Names that the destination, or another system that sees it, could not hold.
  public internal(set) var names: [NameProblem] = []
  /// What stays.
  public internal(set) var left: [Left] = []
  /// Temporary files of other migrations at the destination, from its root: their own runs tidy up, or nobody will.
  public internal(set) var leftovers: [DocumentPath] = []
  /// Bytes that the destination needs at least, as far as the source's allocation tells; of names that it has already,
  /// none are counted.
  public internal(set) var bytesNeeded: Int64 = 0
  /// Bytes that the destination has room for; nil when it does not say.
  public internal(set) var bytesFree: Int64?

  /// What the run works on; folders before what is in them.
  var entries: [Listing.Entry] = []

  private enum CodingKeys: String, CodingKey {
    case files, brought, folders, symlinks, toMaterialize, hardLinked, collisions, names, left, leftovers, bytesNeeded,
      bytesFree
  }
}

/// Makes a plan of two listings; touches nothing.
struct Planner {
  var options: Migration.Options
  /// Bytes of the longest name at the destination.
  var longestName = 255
  /// Source and destination lie on one file system: a move is a rename.
  var renames = false
  /// What the journal knows.
  var known: [DocumentPath: Ledger.Document] = [:]

  func plan(_ source: Listing, onto destination: Listing) -> MigrationPlan {
    var plan = MigrationPlan()
    let there = Dictionary(destination.entries.map { ($0.path, $0) }) { first, _ in first }
    for entry in source.entries {
      if isBrought(entry, there) {
        plan.brought.count(entry.status.kind == .file ? entry.status.size : 0)
        continue
      }
      count(entry, isThere: there[entry.path] != nil, &plan)
      if let other = there[entry.path] { plan.collisions += collision(entry, other).map { [$0] } ?? [] }
    }
    plan.entries = source.entries
    plan.left = source.refused.map { MigrationPlan.Left($0.path, $0.refusal) }
    plan.left += source.temporaries.map { MigrationPlan.Left($0, .temporary) }
    let own = Set(known.values.compactMap { $0.isUnderWay ? $0.begun?.temporary : nil })
    plan.leftovers = destination.temporaries.filter { !own.contains($0) }
    plan.names = NameProblem.find(
      source: source.entries.map(\.path), destination: destination.entries.map(\.path), longest: longestName)
    return plan
  }

  private func isBrought(_ entry: Listing.Entry, _ there: [DocumentPath: Listing.Entry]) -> Bool {
    guard let placed = known[entry.path]?.placed, let target = there[placed.target] else { return false }
    return placed.source == entry.status.stamp && target.status.stamp.isUntouched(since: placed.destination)
  }

  private func count(_ entry: Listing.Entry, isThere: Bool, _ plan: inout MigrationPlan) {
    switch entry.status.kind {
    case .folder: plan.folders += 1
    case .symlink: plan.symlinks += 1
    case .file, .special:
      plan.files.count(entry.status.size)
      if entry.isPlaceholder { plan.toMaterialize.count(entry.status.size) }
      if entry.status.links > 1 { plan.hardLinked += 1 }
      if !renames, !isThere {
        plan.bytesNeeded += entry.isPlaceholder ? entry.status.size : min(entry.status.size, entry.status.allocated)
      }
    }
  }

  private func collision(_ entry: Listing.Entry, _ other: Listing.Entry) -> MigrationPlan.Collision? {
    let (here, there) = (entry.status, other.status)
    if here.kind == .folder, there.kind == .folder { return nil }
    let decision = Decision.onConflict(here, there, options.onConflict)
    return MigrationPlan.Collision(
      path: entry.path, mayBeTheSame: here.kind == there.kind && (here.kind == .symlink || here.size == there.size),
      outcome: decision.words)
  }
}

extension MigrationPlan.Left {
  init(_ path: DocumentPath, _ refusal: Refusal) {
    self.init(path: path, category: refusal.category, reason: refusal.reason, advice: refusal.advice)
  }
}

/// What becomes of a document whose name is taken by another one.
enum Decision: Hashable, Sendable {
  case refuse(Refusal)
  case skip(String)
  case keepBoth
  /// Only while the destination is still this.
  case replace(Stamp)

  static func onConflict(_ here: FileStatus, _ there: FileStatus, _ policy: Migration.ConflictPolicy) -> Decision {
    if policy == .skip { return .skip("the destination has a document of that name") }
    if here.kind == .folder { return .refuse(.kindsDiffer) }
    switch policy {
    case .keepBoth: return .keepBoth
    case .replace where there.kind != .folder: return .replace(there.stamp)
    case .newer where there.kind != .folder:
      return here.modified > there.modified
        ? .replace(there.stamp) : .skip("the destination's document is as new, or newer")
    case .fail where there.kind != .folder: return .refuse(.collision)
    case .fail, .skip, .replace, .newer: return .refuse(.kindsDiffer)
    }
  }

  var words: String {
    switch self {
    case .refuse(let refusal): "stays: " + refusal.reason
    case .skip(let reason): "stays: " + reason
    case .keepBoth: "goes under another name"
    case .replace: "replaces it"
    }
  }
}
