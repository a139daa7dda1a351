import Foundation
import StorageErrors

/// Carries out the decisions on the units of one target folder.
struct UnitMover {
  private let home: DocumentPath
  private let folder: DocumentPath
  /// Where `folder` leads to.
  private let target: DocumentPath
  private let options: Relocation.Options
  /// nil: only looks.
  private let ledger: Ledger?
  private let relocated: [DocumentPath: DocumentPath]

  init(
    home: DocumentPath, folder: DocumentPath, options: Relocation.Options, isDry: Bool
  ) throws(MigrationError) {
    self.home = POSIX.resolvedAsFarAsThere(home)
    self.folder = folder
    target = POSIX.resolvedAsFarAsThere(self.home.appending(folder))
    self.options = options
    try options.journal?.checkNamed("journal's folder")
    let state: DocumentPath
    if let given = options.journal { state = given } else { state = try Migration.defaultJournalFolder() }
    if POSIX.resolvedAsFarAsThere(state).isWithin(self.home.appending(Relocation.documents)) {
      throw MigrationError(.unfit, "the journal's folder \(state) lies among the documents; name another")
    }
    let name = "relocate-" + shortDigest(self.home.bytes + [0] + folder.bytes)
    ledger = isDry ? nil : try Ledger(name, in: state)
    relocated = (ledger?.snapshot ?? Ledger.peek(name, in: state)).relocated
  }

  func close() { ledger?.close() }

  /// Units that were relocated before.
  var expected: Set<DocumentPath> { Set(relocated.keys) }

  /// nil for a unit that nobody can say anything of.
  func work(_ unit: Unit) -> UnitReport? {
    var report = UnitReport(path: unit.path, outcome: .failed)
    report.members = unit.members
    report.bytes = unit.bytes
    do throws(StepFailure) {
      if let refusal = unit.refusal { throw .refused(refusal) }
      guard let decision = try options.excludesFromBackup ? exclude(unit) : decide(unit) else { return nil }
      try carryOut(decision, unit, &report)
    } catch { report.fail(error) }
    return report
  }

  private func carryOut(_ decision: UnitDecision, _ unit: Unit, _ report: inout UnitReport) throws(StepFailure) {
    switch decision {
    case .done(let outcome): report.outcome = outcome
    case .skip(let reason):
      report.outcome = .skipped
      report.reason = reason
    case .fail(let refusal): throw .refused(refusal)
    case .tidy(let target):
      if ledger != nil { for member in unit.members { try remove(documents.appending(member), .source) } }
      report.outcome = .relocated
      report.target = folder.appending(target)
      return
    case .relocate(let target, let removing):
      if let ledger { try relocate(unit, target, removing, ledger) }
      report.outcome = .relocated
      report.target = folder.appending(target)
      return
    }
    if report.outcome == .alreadyThere { report.target = folder.appending(relocated[unit.path] ?? unit.path) }
  }

  // MARK: Deciding

  private func decide(_ unit: Unit) throws(StepFailure) -> UnitDecision? {
    let known = relocated[unit.path]
    let judge = UnitJudge(
      unit: unit, policy: options.onConflict, isKnown: known != nil,
      there: { path throws(StepFailure) in try status(place(path), .destination) },
      isSame: { entry, path throws(StepFailure) in try isSame(entry, path) })
    return try judge.decide(unit.hasMain ? unit.path : known ?? unit.path)
  }

  private func isSame(_ entry: Listing.Entry, _ path: DocumentPath) throws(StepFailure) -> Bool {
    guard let there = try status(place(path), .destination), there.kind == .file else { return false }
    if there.isSameFile(as: entry.status) { return true }
    // Our own copy, which nobody has touched: what changed here since is brought over it.
    if let known = ledger?[entry.path], let placed = known.placed, placed.target == path,
      there.stamp.isUntouched(since: placed.destination)
    {
      return true
    }
    guard there.size == entry.status.size else { return false }
    func digest(_ path: DocumentPath, _ side: StepFailure.Side) throws(StepFailure) -> String {
      let file = try attempt(side, "open", path) { () throws(Errno) in try Descriptor(path, O_RDONLY | O_NONBLOCK) }
      return try FileCopy { _ throws(StepFailure) in }.digest(of: file, size: there.size, side: side, path: path)
    }
    return try digest(documents.appending(entry.path), .source) == digest(place(path), .destination)
  }

  // MARK: Moving

  private func relocate(
    _ unit: Unit, _ target: DocumentPath, _ removing: [DocumentPath], _ ledger: Ledger
  ) throws(StepFailure) {
    try makeFolders(place(target).parent)
    for path in removing {
      options.crashPoint?("replace", path)
      try remove(place(path), .destination)
    }
    let mover = try mover(of: unit, ledger)
    // First, so that whatever becomes of it there, a later run knows that it should be there.
    try ledger.note(.relocated(path: unit.path, target: target), durable: true)
    let entries = unit.members.compactMap { member in
      unit.here[member].map { entry in
        var entry = entry
        entry.target = unit.target(of: member, target)
        return entry
      }
    }
    do { try bring(entries, mover) } catch {
      entries.forEach(mover.tidy)
      throw error
    }
  }

  /// The database, the first of `entries`, is the last to come and the first to go: where it is, its sidecars are.
  private func bring(_ entries: [Listing.Entry], _ mover: Mover) throws(StepFailure) {
    var placed: [(Listing.Entry, Step)] = []
    for entry in entries.reversed() { placed.append((entry, try mover.walk(.look, entry, until: \.isRelease))) }
    for (entry, step) in placed.reversed() { _ = try mover.walk(step, entry, until: { _ in false }) }
  }

  private func mover(of unit: Unit, _ ledger: Ledger) throws(StepFailure) -> Mover {
    var options = Migration.Options(.move)
    options.crashPoint = self.options.crashPoint
    let (source, destination) = (documents, target)
    let roots = try attempt(.destination, "look at", destination) { () throws(Errno) in
      (try Root(source), try Root(destination))
    }
    var mover = Mover(source: roots.0, destination: roots.1, options: options, ledger: ledger, control: RunControl())
    mover.linksInsteadOfRenaming = unit.here.count > 1
    return mover
  }

  private func makeFolders(_ path: DocumentPath) throws(StepFailure) {
    if let there = try status(path, .destination) {
      if there.kind != .folder { throw .refused(.kindsDiffer) }
      return
    }
    try makeFolders(path.parent)
    try attempt(.destination, "make", path) { () throws(Errno) in
      try POSIX.makeFolder(path, mode: 0o755)
      try POSIX.syncFolder(path.parent)
    }
  }

  // MARK: Staying

  private func exclude(_ unit: Unit) throws(StepFailure) -> UnitDecision? {
    if unit.here.isEmpty { return unit.rule.isLiteral ? .done(.toBeDownloadedAgain) : nil }
    guard ledger != nil else { return .done(.excludedFromBackup) }
    for member in unit.members {
      let path = documents.appending(member)
      options.crashPoint?("exclude", member)
      try attempt(.source, "exclude from backups", path) { () throws(Errno) in try BackupExclusion.set(path) }
    }
    return .done(.excludedFromBackup)
  }

  private func remove(_ path: DocumentPath, _ side: StepFailure.Side) throws(StepFailure) {
    try attempt(side, "remove", path) { () throws(Errno) in try POSIX.removeIfPresent(path) }
  }
  private var documents: DocumentPath { home.appending(Relocation.documents) }
  private func place(_ path: DocumentPath) -> DocumentPath { target.appending(path) }
  private func status(_ path: DocumentPath, _ side: StepFailure.Side) throws(StepFailure) -> FileStatus? {
    try attempt(side, "look at", path) { () throws(Errno) in try POSIX.statusIfPresent(path) }
  }
}

extension Step {
  fileprivate var isRelease: Bool {
    if case .release = self { true } else { false }
  }
}

/// How a file says that backups leave it out.
///
/// On Apple's systems the resource value `isExcludedFromBackup`. On Linux the extended attribute
/// `user.xdg.robots.backup` with the value `false`, as freedesktop.org's list of common extended attributes proposes it.
public enum BackupExclusion {
  package static let attribute = "user.xdg.robots.backup"

  static func set(_ path: DocumentPath) throws(Errno) {
    #if canImport(Darwin)
      var url = URL(fileURLWithPath: String(decoding: path.bytes, as: UTF8.self))
      var values = URLResourceValues()
      values.isExcludedFromBackup = true
      do { try url.setResourceValues(values) } catch { throw .EIO }
    #else
      if !isSet(path) { try POSIX.setXattr(path, attribute, Array("false".utf8)) }
    #endif
  }

  static func isSet(_ path: DocumentPath) -> Bool {
    #if canImport(Darwin)
      let url = URL(fileURLWithPath: String(decoding: path.bytes, as: UTF8.self))
      return (try? url.resourceValues(forKeys: [.isExcludedFromBackupKey]))?.isExcludedFromBackup == true
    #else
      return (try? POSIX.xattr(path, attribute)) == Array("false".utf8)
    #endif
  }
}
