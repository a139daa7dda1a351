import Foundation
import StorageErrors

/// Brings one document from the source to the destination, a step at a time.
///
/// Killed between any two steps, or within one, the document is whole at the source, or at the destination, or at both;
/// and a later run comes to the same end, because every step looks at what is there.
struct Mover: Sendable {
  let source: Root
  let destination: Root
  let options: Migration.Options
  let ledger: Ledger
  let control: RunControl
  /// Both names for as long as the unit that a document belongs to is not all there.
  var linksInsteadOfRenaming = false

  /// The whole way; see `Step` for its order.
  func run(_ entry: Listing.Entry, read: @escaping (Int64) -> Void) throws(StepFailure) -> FileReport {
    switch try walk(.look, entry, read: read, until: { _ in false }) {
    case .done(let report): return report
    default: throw .cancelled
    }
  }

  /// From `step` on to the end, or to the first step that `until` names.
  func walk(
    _ step: Step, _ entry: Listing.Entry, read: @escaping (Int64) -> Void = { _ in }, until: (Step) -> Bool
  ) throws(StepFailure) -> Step {
    var step = step
    while true {
      if case .done = step { return step }
      if until(step) { return step }
      try control.checkpoint()
      options.crashPoint?(step.name, entry.path)
      step = try advance(step, entry, read)
    }
  }

  private func advance(
    _ step: Step, _ entry: Listing.Entry, _ read: @escaping (Int64) -> Void
  ) throws(StepFailure) -> Step {
    switch step {
    case .look: try look(entry)
    case .compare(let subject, let other): try compare(subject, other)
    case .rename(let subject): try rename(subject)
    case .link(let subject): try link(subject)
    case .copy(let subject): try copy(subject, read)
    case .attributes(let copy): try setAttributes(copy)
    case .sync(let copy): try sync(copy)
    case .verify(let copy): try verify(copy)
    case .place(let copy): try place(copy)
    case .syncFolder(let placed): try syncFolder(placed)
    case .release(let placed): try release(placed)
    case .done: step
    }
  }

  // MARK: What is there

  private func look(_ entry: Listing.Entry) throws(StepFailure) -> Step {
    try source.check(.source)
    try destination.check(.destination)
    let known = ledger[entry.path]
    guard let status = try found(at: .source, entry.path) else { return try gone(entry, known) }
    guard status.kind == entry.status.kind else { throw .refused(.keepsChanging) }
    let own = entry.target ?? entry.path
    var subject = Step.Subject(
      entry: entry, status: status, target: own,
      wasPlaceholder: entry.isPlaceholder || !known.isReleased && known.begun?.wasPlaceholder == true)
    if let placed = known.placed, let there = try found(at: .destination, placed.target),
      there.stamp.isUntouched(since: placed.destination)
    {
      subject.target = placed.target
      if placed.source == status.stamp { return resumed(subject, known, there.stamp) }
      // It changed after it was copied, and nobody has touched the copy.
      if !known.isReleased {
        subject.replacing = there.stamp
        return bring(subject)
      }
    }
    subject.target = known.placed?.target ?? known.begun?.target ?? own
    if subject.target != own, try found(at: .destination, subject.target) == nil { subject.target = own }
    guard let there = try found(at: .destination, subject.target) else { return bring(subject) }
    return .compare(subject, with: there)
  }

  private func resumed(_ subject: Step.Subject, _ known: Ledger.Document, _ proven: Stamp) -> Step {
    let isFinished = known.isReleased && options.disposition == .keep
    let outcome: FileReport.Outcome =
      known.isReleased ? .alreadyThere : options.disposition == .move ? .moved : .copied
    return isFinished
      ? .done(report(subject, outcome)) : .syncFolder(Step.Placed(subject: subject, outcome: outcome, proven: proven))
  }

  /// The source has gone: removed by an earlier run of ours, or by somebody else.
  private func gone(_ entry: Listing.Entry, _ known: Ledger.Document) throws(StepFailure) -> Step {
    guard let placed = known.placed, try found(at: .destination, placed.target) != nil else {
      throw .refused(.vanished)
    }
    dropCopy(of: entry.path)
    try ledger.note(.released(path: entry.path, kept: false))
    var report = FileReport(entry, options.disposition == .move ? .moved : .alreadyThere)
    if placed.target != entry.path { report.target = placed.target }
    return .done(report)
  }

  private func bring(_ subject: Step.Subject) -> Step {
    guard options.disposition == .move, subject.status.device == destination.device else { return .copy(subject) }
    guard linksInsteadOfRenaming else { return .rename(subject) }
    // A second name cannot take another one's place.
    return subject.replacing == nil ? .link(subject) : .copy(subject)
  }

  private func compare(_ subject: Step.Subject, _ there: FileStatus) throws(StepFailure) -> Step {
    if try isSame(subject, there) {
      return .syncFolder(Step.Placed(subject: subject, outcome: .alreadyThere, proven: there.stamp))
    }
    switch Decision.onConflict(subject.status, there, options.onConflict) {
    case .refuse(let refusal):
      evictIfKept(subject.entry)
      throw .refused(refusal)
    case .skip(let reason):
      evictIfKept(subject.entry)
      dropCopy(of: subject.entry.path)
      var report = report(subject, .skipped)
      report.reason = reason
      return .done(report)
    case .replace(let stamp):
      var subject = subject
      subject.replacing = stamp
      return bring(subject)
    case .keepBoth:
      var subject = subject
      subject.number += 1
      subject.target = subject.entry.path.renamed(
        KeepBothName.make(subject.entry.path.name, subject.number, longest: 255))
      guard let other = try found(at: .destination, subject.target) else { return bring(subject) }
      return .compare(subject, with: other)
    }
  }

  private func isSame(_ subject: Step.Subject, _ there: FileStatus) throws(StepFailure) -> Bool {
    guard subject.status.kind == there.kind else { return false }
    if subject.status.isSameFile(as: there) {
      try refuseOneEntry(subject)
      return true
    }
    if there.kind == .symlink {
      return try link(.source, source[subject.entry.path]) == link(.destination, destination[subject.target])
    }
    guard there.kind == .file, subject.status.size == there.size else { return false }
    let a = try open(.source, source[subject.entry.path])
    let b = try open(.destination, destination[subject.target])
    let files = FileCopy { _ throws(StepFailure) in try control.checkpoint() }
    let size = there.size
    let here = try files.digest(of: a, size: size, side: .source, path: source[subject.entry.path])
    guard try here == files.digest(of: b, size: size, side: .destination, path: destination[subject.target]) else {
      return false
    }
    // It may be the copy of a run that was killed before it was down at the medium.
    try attempt(.destination, "sync", destination[subject.target]) { () throws(Errno) in try b.sync() }
    return true
  }

  /// Two names of one file may become one. One name that is reached by two paths (a bind mount within the tree) may not:
  /// there would be none left.
  private func refuseOneEntry(_ subject: Step.Subject) throws(StepFailure) {
    guard let here = try found(at: .source, subject.entry.path.parent),
      let there = try found(at: .destination, subject.target.parent)
    else { return }
    if here.isSameFile(as: there), subject.entry.path.name == subject.target.name { throw .refused(.oneEntry) }
  }

  // MARK: Within one file system

  private func rename(_ subject: Step.Subject) throws(StepFailure) -> Step {
    let from = source[subject.entry.path]
    let to = destination[subject.target]
    do {
      try put(from, at: to, replacing: subject.replacing)
    } catch {
      // One device number, but not one file system for a rename (a bind mount, a subvolume).
      if case .system(.EXDEV, _, _, _) = error { return .copy(subject) }
      throw blaming(error, subject)
    }
    return .syncFolder(Step.Placed(subject: subject, outcome: .moved, proven: nil))
  }

  /// A rename takes a name away as well as it gives one: one that may not leave its folder is the source's trouble.
  private func blaming(_ failure: StepFailure, _ subject: Step.Subject) -> StepFailure {
    guard case .system(let errno, .destination, _, _) = failure, [.EACCES, .EPERM, .EROFS].contains(errno),
      !POSIX.mayWrite(source[subject.entry.path.parent])
    else { return failure }
    return .system(errno, .source, verb: "remove", source[subject.entry.path])
  }

  private func link(_ subject: Step.Subject) throws(StepFailure) -> Step {
    let from = source[subject.entry.path]
    let to = destination[subject.target]
    do throws(Errno) { try POSIX.link(from, to) } catch {
      // A mount of docsfs and FAT have no hard links; then both are whole by a copy.
      if [.EPERM, .EXDEV, .EOPNOTSUPP].contains(error) { return .copy(subject) }
      throw .system(error, .destination, verb: "link", to)
    }
    // The second name counts as a change of the file.
    guard let now = try found(at: .source, subject.entry.path), now.stamp.isUntouched(since: subject.status.stamp)
    else {
      throw .refused(.keepsChanging)
    }
    var subject = subject
    subject.status = now
    return .syncFolder(Step.Placed(subject: subject, outcome: .moved, proven: now.stamp))
  }

  /// Gives `from` the name `to`. Never over anything but what was decided to be replaced.
  func put(_ from: DocumentPath, at to: DocumentPath, replacing: Stamp?) throws(StepFailure) {
    if let replacing {
      let there = try attempt(.destination, "look at", to) { () throws(Errno) in try POSIX.statusIfPresent(to) }
      guard there.map({ $0.stamp.isUntouched(since: replacing) }) ?? true else { throw .refused(.keepsChanging) }
    }
    try attempt(.destination, "rename", to) { () throws(Errno) in
      if replacing == nil { try POSIX.rename(from, toNew: to) } else { try POSIX.rename(from, over: to) }
    }
  }

  // MARK: Both

  private func syncFolder(_ placed: Step.Placed) throws(StepFailure) -> Step {
    let folder = destination[placed.subject.target.parent]
    try attempt(.destination, "sync the folder", folder) { () throws(Errno) in try POSIX.syncFolder(folder) }
    return .release(placed)
  }

  private func release(_ placed: Step.Placed) throws(StepFailure) -> Step {
    var placed = placed
    // It may have come to its place without this attempt's copy.
    dropCopy(of: placed.subject.entry.path)
    if let proven = placed.proven {
      switch options.disposition {
      case .move: try removeSource(placed.subject, proven)
      case .keep:
        if let note = evict(placed.subject) { placed.notes.append(note) }
        if placed.outcome == .alreadyThere { try remember(placed.subject, proven) }
      }
      try ledger.note(.released(path: placed.subject.entry.path, kept: options.disposition == .keep))
    }
    var report = report(placed.subject, placed.outcome)
    report.notes = placed.notes
    return .done(report)
  }

  /// What was found to be there already need not be read once more.
  private func remember(_ subject: Step.Subject, _ proven: Stamp) throws(StepFailure) {
    try ledger.note(
      .placed(path: subject.entry.path, target: subject.target, source: subject.status.stamp, destination: proven))
  }

  private func removeSource(_ subject: Step.Subject, _ proven: Stamp) throws(StepFailure) {
    // What is proven has to be there still, and on the disk or mount that it was proven on.
    try destination.check(.destination)
    guard let there = try found(at: .destination, subject.target), there.stamp.isUntouched(since: proven) else {
      throw .refused(.keepsChanging)
    }
    let path = source[subject.entry.path]
    let isStill = { () throws(Errno) in try POSIX.statusIfPresent(path)?.stamp == subject.status.stamp }
    func remove() throws(Errno) -> Bool {
      guard try isStill() else { return false }
      try POSIX.remove(path)
      return true
    }
    // On a mount of docsfs opening would fetch what is not needed any more, and there are no leases.
    let canLease = subject.status.kind == .file && !source.placeholders.areShown
    let isRemoved = try attempt(.source, "remove", path) { () throws(Errno) -> Bool? in
      guard canLease, let file = try? Descriptor(path, O_RDONLY | O_NONBLOCK) else { return try remove() }
      return try file.withoutWriters(remove)
    }
    guard let isRemoved else { throw .refused(.openForWriting) }
    guard isRemoved else { throw .refused(.keepsChanging) }
  }

  /// A word for the report when it could not be.
  private func evict(_ subject: Step.Subject) -> String? {
    guard subject.wasPlaceholder else { return nil }
    return source.eviction.evict(source[subject.entry.path]).map { "it stays materialized: \($0)" }
  }

  /// Away with what a document that was given up has left.
  func tidy(_ entry: Listing.Entry) {
    guard ledger[entry.path].isUnderWay else { return }
    evictIfKept(entry)
    dropCopy(of: entry.path)
  }

  /// A temporary file that will not be placed. What cannot be removed now, a later run removes: the journal knows it.
  private func dropCopy(of path: DocumentPath) {
    let known = ledger[path]
    guard known.isUnderWay, let begun = known.begun else { return }
    do throws(Errno) { try POSIX.removeIfPresent(destination[begun.temporary]) } catch { return }
    try? ledger.note(.dropped(path: path))
  }

  /// What was read of a placeholder that stays was for nothing.
  private func evictIfKept(_ entry: Listing.Entry) {
    if options.disposition == .keep, entry.isPlaceholder { _ = source.eviction.evict(source[entry.path]) }
  }

  // MARK: Calls

  func found(at side: StepFailure.Side, _ path: DocumentPath) throws(StepFailure) -> FileStatus? {
    let path = (side == .source ? source : destination)[path]
    return try attempt(side, "look at", path) { () throws(Errno) in try POSIX.statusIfPresent(path) }
  }
  func open(_ side: StepFailure.Side, _ path: DocumentPath) throws(StepFailure) -> Descriptor {
    // Without waiting, should a FIFO have come into its place.
    try attempt(side, "open", path) { () throws(Errno) in try Descriptor(path, O_RDONLY | O_NONBLOCK) }
  }
  func link(_ side: StepFailure.Side, _ path: DocumentPath) throws(StepFailure) -> [UInt8] {
    try attempt(side, "read the link", path) { () throws(Errno) in try POSIX.readLink(path) }
  }

  private func report(_ subject: Step.Subject, _ outcome: FileReport.Outcome) -> FileReport {
    var report = FileReport(subject.entry, outcome)
    if subject.target != subject.entry.path { report.target = subject.target }
    return report
  }
}

extension Stamp {
  /// The content is what it was. Its time of change may have moved on: an upload, a chmod and a rename count there too.
  func isUntouched(since earlier: Stamp) -> Bool {
    inode == earlier.inode && size == earlier.size && modified == earlier.modified
  }
}
