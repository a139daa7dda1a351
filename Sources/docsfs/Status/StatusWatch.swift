import Containers
import Glibc

/// `status --watch`: a frame, or a line of JSON, each second until an interrupt, the end of whoever reads it, or of what
/// is watched.
struct StatusWatch {
  private let paths: [FilePath]
  private let isJSON: Bool
  private let screen: WatchScreen?
  private var meters: [String: RateMeter] = [:]
  /// Mounts that were there, and are not.
  private var gone: [String] = []
  private var known: Set<String> = []

  init(_ paths: [FilePath], isJSON: Bool) {
    self.paths = paths
    self.isJSON = isJSON
    screen = Console.isTerminal && !isJSON ? WatchScreen() : nil
  }

  mutating func run() throws(Failure) -> Int32 {
    endOnSignals()
    defer { screen?.leave() }
    while true {
      // What was named has to be there; of what was not, that it has gone is shown.
      var outcome = Outcome(isQuiet: true)
      var report = try StatusReport(paths, &outcome)
      if let failure = outcome.first {
        screen?.leave()
        throw explained(failure)
      }
      measure(&report)
      noteGone(report)
      guard show(report) else { return ExitCode.done }
      sleep(1)
    }
  }

  /// A mount that was there has gone.
  private func explained(_ failure: Failure) -> Failure {
    guard let table = try? MountTable.current() else { return failure }
    let gone = known.subtracting(table.docsfs.map(\.mountpoint.description)).sorted()
    return gone.isEmpty ? failure : Failure("\(gone[0]) is no longer mounted", failure.exitCode)
  }

  private func endOnSignals() {
    EndSignals.block()
    let screen = screen
    // A terminal that takes nothing any more keeps nobody: the second signal does not wait for it.
    EndSignals.serve(
      first: { _ in
        startDetached("end") {
          screen?.leave()
          _exit(ExitCode.done)
        }
      },
      again: { _ in _exit(ExitCode.done) })
  }

  private mutating func measure(_ report: inout StatusReport) {
    for index in report.mounts.indices {
      guard let status = report.mounts[index].status else { continue }
      let mountpoint = report.mounts[index].mountpoint
      report.mounts[index].rates = meters[mountpoint, default: RateMeter()].add(
        status, sent: report.mounts[index].traffic?.sentBytes ?? 0, by: report.mounts[index].daemon?.pid)
    }
  }

  private mutating func noteGone(_ report: StatusReport) {
    let present = Set(report.mounts.map(\.mountpoint))
    let newlyGone = known.subtracting(present).subtracting(gone).sorted()
    if screen == nil { for mountpoint in newlyGone { Console.error("\(mountpoint) is no longer mounted") } }
    gone = (gone + newlyGone).filter { !present.contains($0) }
    known.formUnion(present)
  }

  /// False when nobody reads it any more.
  private func show(_ report: StatusReport) -> Bool {
    if isJSON { return writeAll(Array(JSONText.of(report).utf8) + [0x0a], to: STDOUT_FILENO) }
    var lines = Array(report.mounts.map(\.watchLines).joined(separator: [""])) + report.itemLines
    lines += gone.map { "\($0) is no longer mounted" }
    if lines.isEmpty { lines = report.lines }
    if let screen { return screen.show(lines) }
    return writeAll(Array(lines.map { oneLine($0) + "\n" }.joined().utf8) + [0x0a], to: STDOUT_FILENO)
  }
}
