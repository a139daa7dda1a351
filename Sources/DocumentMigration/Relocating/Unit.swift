import Foundation
import StorageErrors

/// A file that a rule names, with its sidecars if it is a database: what goes together or not at all.
struct Unit: Sendable {
  /// From Documents: the database.
  var path: DocumentPath
  var rule: RelocationRule
  /// What of it is in Documents.
  var here: [DocumentPath: Listing.Entry] = [:]
  /// Why a part of it cannot go, be it there or not. Then none of it does: a database without its log is another one.
  var refusal: Refusal?

  var hasMain: Bool { here[path] != nil }
  var bytes: Int64 { here.values.reduce(0) { $0 + $1.status.size } }
  /// The database first.
  var members: [DocumentPath] { ([path] + Sidecar.paths(of: path)).filter { here[$0] != nil } }
  /// When its content was changed last, nanoseconds since 1970.
  var modified: Int64 { Self.modified(here.values.map(\.status)) }

  static func modified(_ statuses: [FileStatus]) -> Int64 { statuses.map(\.modified).max() ?? 0 }

  /// The units of a listing, by path. A sidecar belongs to its database, be that in Documents or not.
  static func find(_ listing: Listing, _ rules: [RelocationRule]) -> [DocumentPath: Unit] {
    let entries = listing.entries.filter { $0.status.kind == .file }
    let files = Set(entries.map(\.path))
    /// Empty, the one that a file belongs to.
    func unit(of file: DocumentPath) -> Unit? {
      var path = file
      if let database = Sidecar.database(of: path),
        files.contains(database) || rules.contains(where: { $0.matches(database) })
      {
        path = database
      }
      return rules.first { $0.matches(path) }.map { Unit(path: path, rule: $0) }
    }
    var units: [DocumentPath: Unit] = [:]
    for entry in entries {
      if let unit = unit(of: entry.path) { units[unit.path, default: unit].here[entry.path] = entry }
    }
    for refused in listing.refused {
      if let unit = unit(of: refused.path) { units[unit.path, default: unit].refusal = refused.refusal }
    }
    return units
  }

  /// Where its member goes when the database is called `target`.
  func target(of member: DocumentPath, _ target: DocumentPath) -> DocumentPath {
    target.renamed(target.name + member.name.dropFirst(path.name.count))
  }
}

/// What has to be done with a unit. Decided from what lies in both places; carried out by `Relocation`.
enum UnitDecision {
  /// Bring what is not there yet, the database last; then remove, the database first.
  case relocate(target: DocumentPath, removing: [DocumentPath])
  /// Remove the sidecars here: their database was brought there with them, and has gone on since.
  case tidy(target: DocumentPath)
  case done(UnitReport.Outcome)
  case skip(String)
  case fail(Refusal)
}

/// The decision, over what is found at the target.
struct UnitJudge {
  var unit: Unit
  var policy: Migration.ConflictPolicy
  /// A relocation has begun to bring it there.
  var isKnown: Bool
  /// What is at this path, from the rule's folder.
  var there: (DocumentPath) throws(StepFailure) -> FileStatus?
  /// Whether a member has the same bytes there.
  var isSame: (Listing.Entry, DocumentPath) throws(StepFailure) -> Bool

  func decide(_ target: DocumentPath, number: Int = 1) throws(StepFailure) -> UnitDecision? {
    let found = try members(at: target)
    if unit.here.isEmpty {
      if found[target] != nil { return .done(.alreadyThere) }
      return isKnown || unit.rule.isLiteral ? .done(.toBeDownloadedAgain) : nil
    }
    if found.isEmpty { return unit.hasMain ? .relocate(target: target, removing: []) : .fail(.databaseMissing) }
    if try isOurs(found, target) { return .relocate(target: target, removing: []) }
    if !unit.hasMain { return isKnown && found[target] != nil ? .tidy(target: target) : .fail(.databaseMissing) }
    return try onConflict(found, target, number)
  }

  private func members(at target: DocumentPath) throws(StepFailure) -> [DocumentPath: FileStatus] {
    var found: [DocumentPath: FileStatus] = [:]
    for path in [target] + Sidecar.paths(of: target) {
      if let status = try there(path) { found[path] = status }
    }
    return found
  }

  /// What is there is what an earlier run of ours brought: all that is here, or the part that it came to.
  private func isOurs(_ found: [DocumentPath: FileStatus], _ target: DocumentPath) throws(StepFailure) -> Bool {
    let mine = Dictionary(unit.here.values.map { (unit.target(of: $0.path, target), $0) }) { first, _ in first }
    for path in found.keys {
      guard let entry = mine[path] else {
        // The database was released first: its sidecars' turn.
        if path == target, !unit.hasMain { continue }
        return false
      }
      guard try isSame(entry, path) else { return false }
    }
    // Without the database here, each sidecar here must be there.
    return unit.hasMain || found[target] != nil && mine.keys.allSatisfy { found[$0] != nil }
  }

  private func onConflict(
    _ found: [DocumentPath: FileStatus], _ target: DocumentPath, _ number: Int
  ) throws(StepFailure) -> UnitDecision? {
    guard found.values.allSatisfy({ $0.kind == .file }) else { return .fail(.kindsDiffer) }
    let removal = UnitDecision.relocate(target: target, removing: removalOrder(found.keys, target))
    switch policy {
    case .fail: return .fail(.collision)
    case .skip: return .skip("both places hold one")
    case .replace: return removal
    case .newer:
      return unit.modified > Unit.modified(Array(found.values))
        ? removal : .skip("the other place's is as new, or newer")
    case .keepBoth:
      let next = target.renamed(KeepBothName.make(unit.path.name, number + 1, longest: 255 - 8))
      return try decide(next, number: number + 1)
    }
  }

  /// The database first: a sidecar alone is harmless, a database beside another one's log is not.
  private func removalOrder(_ paths: some Collection<DocumentPath>, _ target: DocumentPath) -> [DocumentPath] {
    paths.sorted { ($0 == target ? 0 : 1, $0) < ($1 == target ? 0 : 1, $1) }
  }
}
