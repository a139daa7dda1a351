import Foundation
import StorageErrors

/// Brings what can be downloaded again out of an app's Documents, to where backups leave it out. Made for each launch,
/// before anything opens the files: the first one moves, the later ones find it done.
///
///     let rule = RelocationRule(glob: "cafes.sqlite", folder: DocumentPath("Library/Caches"))
///     let report = try Relocation(home: home, rules: [rule]).run()
///     if report.count(.toBeDownloadedAgain) > 0 { … }
///
/// A database goes with its `-wal`, `-shm` and `-journal`, as one: at every moment all of them are in Documents, or all of
/// them at the new place, or both. Calls block; a relocation on one volume takes milliseconds.
public struct Relocation: Sendable {
  /// How a relocation goes about it.
  public struct Options: Sendable {
    /// What becomes of a unit that both places hold.
    public var onConflict = Migration.ConflictPolicy.fail
    /// Leave everything in Documents, and mark it: see `BackupExclusion`.
    public var excludesFromBackup = false
    /// The folder for the journal; nil: `Migration.defaultJournalFolder`.
    public var journal: DocumentPath?
    /// Called before each step; for tests that kill the process there.
    package var crashPoint: (@Sendable (String, DocumentPath) -> Void)?

    /// The defaults.
    public init() {}
  }

  /// The folder of the app's home that all this is about.
  public static let documents = DocumentPath("Documents")

  private let home: DocumentPath
  private let rules: [RelocationRule]
  private let options: Options

  /// `home` is the folder with `Documents` in it. The first rule that matches a file counts.
  public init(home: URL, rules: [RelocationRule], options: Options = Options()) {
    self.init(home: DocumentPath(home), rules: rules, options: options)
  }

  /// As with a URL, for a path that need not be text.
  public init(home: DocumentPath, rules: [RelocationRule], options: Options = Options()) {
    self.home = home
    self.rules = rules
    self.options = options
  }

  /// What `run()` would do now. Changes nothing.
  ///
  /// - Throws: `MigrationError` when Documents cannot be listed, or the journal cannot be used.
  public func plan() throws(MigrationError) -> RelocationReport { try work(isDry: true) }

  /// Does it.
  ///
  /// - Throws: `MigrationError` when it cannot begin. What goes wrong with single units is in the report.
  public func run() throws(MigrationError) -> RelocationReport { try work(isDry: false) }

  private func work(isDry: Bool) throws(MigrationError) -> RelocationReport {
    try home.checkNamed("app's folder")
    let source = home.appending(Self.documents)
    let listing: Listing
    do throws(Errno) {
      listing = try Walker(root: try POSIX.resolved(source)).list()
    } catch {
      throw MigrationError(
        error == .ENOENT ? .missing : .storage, "cannot list \(source): \(error.message.lowercasedFirst)")
    }
    var report = RelocationReport()
    let found = Unit.find(listing, rules)
    let unseen = listing.refused.filter { $0.refusal.isUnreadable && found[$0.path] == nil }
    report.units = unseen.map { UnitReport($0.path, .refused($0.refusal)) }
    for (folder, group) in Dictionary(grouping: rules, by: \.folder).sorted(by: { $0.key < $1.key }) {
      let move = try UnitMover(home: home, folder: folder, options: options, isDry: isDry)
      defer { move.close() }
      for var unit in units(of: group, found, move.expected) {
        // It may well be in a folder that could not be looked into.
        if unit.here.isEmpty, unit.refusal == nil {
          unit.refusal = unseen.first { unit.path.isWithin($0.path) }?.refusal
        }
        report.units += move.work(unit).map { [$0] } ?? []
      }
    }
    report.units.sort { $0.path < $1.path }
    report.rulesWithoutMatch = rules.filter { rule in
      !rule.isLiteral && !report.units.contains { rule.matches($0.path) }
    }.map(\.glob)
    return report
  }

  /// Those found, those moved before, and those that a rule names: the last two may be in neither place.
  private func units(
    of rules: [RelocationRule], _ found: [DocumentPath: Unit], _ expected: Set<DocumentPath>
  ) -> [Unit] {
    let folder = rules[0].folder
    var units = found.filter { $0.value.rule.folder == folder }
    for path in expected where units[path] == nil {
      if let rule = rules.first(where: { $0.matches(path) }) { units[path] = Unit(path: path, rule: rule) }
    }
    for rule in rules where rule.isLiteral && !units.keys.contains(where: rule.matches) {
      let path = DocumentPath(rule.glob)
      units[path] = Unit(path: path, rule: rule)
    }
    return units.values.sorted { $0.path < $1.path }
  }
}
