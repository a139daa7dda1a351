import Containers
import DocumentMigration
import Faults

/// What a running migration shows: lines of JSON, or a bar, and a line for what is left behind.
struct MigrationOutput {
  let asEvents: Bool
  let quiet: Bool
  /// Told when the migration begins.
  let notice: String?
  private var bar = ProgressBar("migrating")
  private var lastWait = ""

  init(asEvents: Bool, quiet: Bool, notice: String? = nil) {
    self.notice = notice
    self.asEvents = asEvents
    self.quiet = quiet
  }

  mutating func show(_ event: MigrationEvent) {
    if asEvents { return Console.print(JSONText.of(event)) }
    switch event {
    case .planned: if let notice { Console.error(notice) }
    case .ended: bar.clear()
    case .progress(let progress): bar.show(Progress(progress))
    case .waiting(let reason):
      // Many threads meet the same absence.
      guard reason != lastWait else { return }
      lastWait = reason
      bar.clear()
      Console.error("\(reason); waiting for it")
    case .file(let report):
      guard !quiet, let line = PlanText.line(report) else { return }
      bar.clear()
      Console.error(line)
    }
  }
}

extension Progress {
  init(_ progress: MigrationProgress) {
    self.init(
      doneBytes: progress.doneBytes, totalBytes: progress.totalBytes, doneItems: progress.doneItems,
      totalItems: progress.totalItems)
  }
}

/// Plans and reports in words.
enum PlanText {
  static func lines(_ plan: MigrationPlan) -> [String] {
    var lines = [
      "\(plan.files.items) files with \(Quantity.show(bytes: plan.files.bytes)), \(plan.folders) folders, "
        + "\(plan.symlinks) symlinks"
    ]
    if plan.brought.items > 0 { lines.append("\(plan.brought.items) more were brought by an earlier run") }
    if plan.toMaterialize.items > 0 {
      lines.append(
        "\(plan.toMaterialize.items) of them with \(Quantity.show(bytes: plan.toMaterialize.bytes)) have to be fetched")
    }
    if plan.hardLinked > 0 {
      lines.append("\(plan.hardLinked) have further names (hard links): each becomes a file of its own")
    }
    let free = plan.bytesFree.map { ", \(Quantity.show(bytes: $0)) are free" } ?? ""
    lines.append("the destination needs \(Quantity.show(bytes: plan.bytesNeeded))\(free)")
    lines += plan.collisions.map { collision in
      "taken: \(collision.path): " + (collision.mayBeTheSame ? "if it differs, it " : "") + collision.outcome
    }
    lines += plan.names.map { "name: \($0.sentence)" }
    lines += plan.left.map { "stays: \($0.path) \($0.reason); \($0.advice)" }
    lines += plan.leftovers.map {
      "left over at the destination: \($0); run the migration it belongs to again, or remove it"
    }
    return lines.map(oneLine)
  }

  /// nil for what went as it should.
  static func line(_ report: FileReport) -> String? {
    let notes = report.notes.map { "\(report.path): \($0)" }
    guard let reason = report.reason, report.outcome != .notTried else {
      return notes.isEmpty ? nil : notes.joined(separator: "; ")
    }
    return "\(report.path): \(reason)" + (report.advice.map { "; \($0)" } ?? "")
  }

  static func summary(_ report: MigrationReport) -> String {
    let counts: [(FileReport.Outcome, String)] = [
      (.moved, "moved"), (.copied, "copied"), (.alreadyThere, "there already"), (.skipped, "skipped"),
      (.failed, "failed"), (.notTried, "not tried"),
    ]
    let words = counts.filter { report.count($0.0) > 0 }.map { "\(report.count($0.0)) \($0.1)" }
    return words.isEmpty
      ? "nothing to migrate" : words.joined(separator: ", ") + "; \(Quantity.show(bytes: report.bytes)) brought over"
  }
}
