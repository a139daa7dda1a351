import CLinux
import Containers
import Faults
import StorageErrors

/// `docsfs sweep`: a command, run once for every call that it makes in a mount, with just that call failing.
enum SweepCommand {
  static let spec = CommandSpec(
    name: "sweep", arguments: "-- CMD [ARG...]",
    summary: "Run a command once for each of its calls, with that call failing, and tell what gets lost.",
    details: """
      Each run has a fresh mount: {mount} in CMD stands for its path, which is in $DOCSFS_MOUNT too. Files and folders \
      among CMD's arguments are the sources: each run has copies of its own, so yours are left alone. (The script behind \
      an interpreter is none.) {out} stands for an empty folder outside of the mount, {source} for the copy of the first source.

      A first run without faults records the calls of each operation. Then, for each errno, the first call of each operation \
      fails, in the next run the second, until none is left.

      Without --invariant: every file of the sources, and of --with, must be whole where it was, or where the first run brought \
      it; without such a file nothing can be lost, and only hangs are found. An --invariant is a shell's line in which the same words are replaced; ending with 0 it holds.

      Exit code 1 when an invariant broke or a run hung; they are named.
      """,
    options: [
      OptionSpec("errno", "e", argument: "NAME[,NAME...]", "How calls fail; EIO,ENOSPC,ESTALE without it"),
      OptionSpec("ops", nil, argument: "OP[,OP...]", "Only these operations, or groups as of docsfs fault --help"),
      OptionSpec("invariant", "i", argument: "CMD", "What must hold after each run"),
      OptionSpec("with", nil, argument: "DIR", "Fill each volume with a copy of DIR, as placeholders"),
      OptionSpec("options", "o", argument: "OPT[,OPT...]", "Mount options, as of docsfs mount"),
      OptionSpec("jobs", "J", argument: "N", "So many runs side by side"),
      OptionSpec("timeout", "t", argument: "SECONDS", "A run that takes longer hangs, and is killed; 60 without it"),
      OptionSpec("json", "j", argument: "FILE", "Write all runs as JSON; - is standard output, without the table"),
      OptionSpec("junit", nil, argument: "FILE", "Write all runs as JUnit's XML"),
    ], counts: 1...Int.max, stopsAtFirstArgument: true, run: run)

  static func run(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    let plan = try SweepPlan(arguments)
    EndSignals.block()
    let children = SweepChildren()
    EndSignals.serve(first: { _ in children.interrupt() }, again: { _ in children.interrupt() })
    let folder = try TemporaryFolder()
    let report = Result { () throws(Failure) in try Sweep(plan: plan, folder: folder.path, children: children).run() }
    // A mount that could not be ended is still in there.
    if case .failure(let failure) = report, failure.exitCode == ExitCode.tryAgain { throw failure }
    try folder.remove()
    return try tell(try report.get(), arguments)
  }

  private static func tell(_ report: SweepReport, _ arguments: ParsedArguments) throws(Failure) -> Int32 {
    if let file = arguments.value("junit") { try write(report.junit, to: FilePath(file)) }
    let json = arguments.value("json").map { FilePath($0) }
    if let json, json.text != "-" { try write(report.json + "\n", to: json) }
    if json?.text == "-" { Console.print(report.json) } else { report.printTable() }
    return report.broken.isEmpty && report.hung.isEmpty ? ExitCode.done : ExitCode.failed
  }

  private static func write(_ text: String, to file: FilePath) throws(Failure) {
    let descriptor = file.call { lx_open($0, O_WRONLY | O_CREAT | O_TRUNC, 0o644) }
    guard descriptor >= 0 else { throw Failure("cannot write", file, .current) }
    defer { close(descriptor) }
    guard writeAll(Array(text.utf8), to: descriptor) else { throw Failure("cannot write", file, .current) }
  }
}

/// The runs of one sweep.
struct Sweep: Sendable {
  let plan: SweepPlan
  let folder: FilePath
  let children: SweepChildren

  func run() throws(Failure) -> SweepReport {
    var files = try SweepRun.originals(plan)
    let first = try perform(nil, "first", &files)
    try check(first)
    let queue = SweepQueue(recorded: first.recorded, plan)
    guard !queue.isEmpty else { throw Failure(nothingToFail(first)) }
    try runAll(queue, files)
    return SweepReport(
      command: plan.command, outcomes: try queue.outcomes(), files: plan.invariant == nil ? files.count : nil)
  }

  private func perform(_ fault: SweepFault?, _ name: String, _ files: inout LostFiles) throws(Failure) -> SweepOutcome {
    if children.isInterrupted { throw Failure("interrupted", 130) }
    let folder = try folder.makingFolder(name)
    let outcome = try SweepRun(plan: plan, folder: folder, child: children).perform(fault, &files)
    try folder.removeTree()
    return outcome
  }

  /// What fails without a fault says nothing with one.
  private func check(_ first: SweepOutcome) throws(Failure) {
    guard let status = first.status else {
      throw Failure(
        "the command takes longer than \(Int(plan.timeout)) s even without a fault; give more with --timeout")
    }
    guard status == 0 else {
      throw Failure("the command ends with \(status) even without a fault: \(first.errors.last ?? "it says nothing")")
    }
    guard !first.isBroken else {
      throw Failure(
        "the invariant does not hold even without a fault: \(first.loss)"
          + (plan.invariant == nil ? " is whole nowhere; say with --invariant what must hold" : ""))
    }
  }

  private func nothingToFail(_ first: SweepOutcome) -> String {
    if first.recorded.isEmpty { return "the command did nothing in the mount; {mount} stands for the mount's path" }
    let done = FaultOperations(first.recorded.keys).names
    return "the command does nothing of that; it does \(done)"
  }

  /// On threads of their own, as many as there are jobs.
  private func runAll(_ queue: SweepQueue, _ files: LostFiles) throws(Failure) {
    let left = Guarded(plan.jobs)
    for _ in 0..<plan.jobs {
      let starts = startDetached("sweep") {
        work(queue, files)
        left.signal { $0 -= 1 }
      }
      if !starts { left.signal { $0 -= 1 } }
    }
    while !left.wait(until: Clock.now() + 500_000_000, { $0 == 0 }) { show(queue.progress) }
    if Console.errorIsTerminal { Console.write("\r\u{1b}[K", to: STDERR_FILENO) }
  }

  private func work(_ queue: SweepQueue, _ files: LostFiles) {
    while let fault = queue.take() {
      var files = files
      let name = "\(fault.operation.rawValue)-\(fault.ordinal)-\(fault.errno.name)"
      queue.done(fault, Result { () throws(Failure) in try perform(fault, name, &files) })
    }
  }

  private func show(_ progress: (done: Int, total: Int)) {
    guard Console.errorIsTerminal else { return }
    Console.write("\r\(progress.done) of about \(progress.total) runs\u{1b}[K", to: STDERR_FILENO)
  }
}
