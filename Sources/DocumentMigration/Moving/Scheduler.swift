import Foundation
import StorageErrors

/// One run of a plan: folders, then all documents, several at a time, then the folders' rest.
struct Scheduler: Sendable {
  let mover: Mover
  let events: EventSink
  private var control: RunControl { mover.control }
  private var retries: Retries {
    Retries(
      control: control, patience: mover.options.patience, source: mover.source.path,
      destination: mover.destination.path, events: events)
  }

  func run(_ plan: MigrationPlan) -> MigrationReport {
    let folders = plan.entries.filter { $0.status.kind == .folder }
    let documents = plan.entries.filter { $0.status.kind != .folder }
    let bytes = documents.reduce(0) { $0 + ($1.status.kind == .file ? $1.status.size : 0) }
    control.expect(items: documents.count, bytes: bytes)
    removeTemporaries()
    let steps = Folders(mover: mover, retries: retries)
    let unmade = steps.make(folders)
    let left = plan.left.map { FileReport($0) } + unmade.values
    for report in left { events.send(.file(report)) }
    let reports = migrate(documents, steps, unmade)
    let made = folders.filter { unmade[$0.path] == nil && steps.blocker(of: $0.path, unmade) == nil }
    let unfinished = control.mayGoOn ? steps.finish(made, left + reports) : []
    for report in unfinished { events.send(.file(report)) }
    var report = MigrationReport()
    report.files = (left + reports + unfinished).sorted { $0.path.precedesInTree($1.path) }
    report.stopped = control.stopReason
    events.send(.ended(MigrationSummary(report)))
    return report
  }

  /// Of documents that an earlier run began; of some the source may be gone.
  private func removeTemporaries() {
    for begun in mover.ledger.underWay where TemporaryName.isOne(begun.temporary.name) {
      try? POSIX.removeIfPresent(mover.destination[begun.temporary])
    }
  }

  private func migrate(
    _ documents: [Listing.Entry], _ folders: Folders, _ unmade: [DocumentPath: FileReport]
  ) -> [FileReport] {
    let reports = Locked<[DocumentPath: FileReport]>([:])
    let retries = retries
    let ended = { @Sendable (report: FileReport) in
      reports.update { $0[report.path] = report }
      events.send(.file(report))
    }
    let workers = Workers(documents, budget: mover.options.bytesInFlight) { $0.status.size }
    let allEnded = workers.run(
      threads: min(mover.options.jobs, documents.count), name: "migrate", keepsWaiting: keepsWaiting
    ) { entry in
      if let blocker = folders.blocker(of: entry.path, unmade) {
        ended(FileReport(entry, in: blocker))
      } else {
        ended(control.mayGoOn ? migrate(entry, retries) : FileReport(entry, .cancelled))
      }
      return []
    }
    return reports.update { reports in
      if !allEnded {
        for entry in control.running where reports[entry.path] == nil {
          reports[entry.path] = FileReport(entry, .stalled)
        }
      }
      return documents.map { reports[$0.path] ?? FileReport($0, .cancelled) }
    }
  }

  private func migrate(_ entry: Listing.Entry, _ retries: Retries) -> FileReport {
    var counted: Int64 = 0
    control.began(entry)
    defer { control.ended(entry, counted: counted) }
    // A second attempt reads again what is counted already.
    let read = { (bytes: Int64) in
      let new = min(bytes, entry.status.size - counted)
      guard new > 0 else { return }
      counted += new
      control.read(new)
    }
    do {
      return try retries.run { () throws(StepFailure) in try mover.run(entry, read: read) }
    } catch {
      mover.tidy(entry)
      return FileReport(entry, error)
    }
  }

  /// A system call cannot be given up; but nobody has to wait for it.
  private func keepsWaiting() -> Bool {
    events.send(.progress(control.progress))
    let patience = control.mayGoOn ? mover.options.patience + mover.options.stall : 5
    guard control.isStuck(after: patience) else { return true }
    control.stop("a system call does not come back")
    return false
  }
}
