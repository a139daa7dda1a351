import Foundation
import StorageErrors

/// One run of a plan: folders, then all documents, several at a time, then the folders' rest.
struct Scheduler: Sendable {
  let mover: Mover
  let events: EventSink
  private var control: RunControl { mover.control }

  func run(_ plan: MigrationPlan) -> MigrationReport {
    let folders = plan.entries.filter { $0.status.kind == .folder }
    let documents = plan.entries.filter { $0.status.kind != .folder }
    control.expect(items: documents.count, bytes: plan.files.bytes)
    removeTemporaries()
    let steps = Folders(mover: mover)
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
    let attempts = Attempts(mover: mover, events: events)
    let ended = { @Sendable (report: FileReport) in
      reports.update { $0[report.path] = report }
      events.send(.file(report))
    }
    let workers = Workers(documents, budget: mover.options.bytesInFlight) { $0.status.size }
    let allEnded = workers.run(
      threads: min(mover.options.jobs, documents.count), name: "migrate", keepsWaiting: keepsWaiting
    ) {
      entry in
      if let blocker = folders.blocker(of: entry.path, unmade) {
        ended(FileReport(entry, in: blocker))
      } else {
        ended(control.mayGoOn ? attempts.migrate(entry) : FileReport(entry, .cancelled))
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

  /// A system call cannot be given up; but nobody has to wait for it.
  private func keepsWaiting() -> Bool {
    events.send(.progress(control.progress))
    let patience = control.mayGoOn ? mover.options.patience + 60 : 5
    guard control.silence > patience else { return true }
    control.stop("a system call does not come back")
    return false
  }
}
