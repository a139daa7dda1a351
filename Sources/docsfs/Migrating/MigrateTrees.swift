import CLinux
import Containers
import DocumentMigration
import Faults
import StorageErrors

/// `to-cloud` and `to-local`.
enum MigrateTrees {
  static func run(
    _ verb: String, _ source: DocumentPath, _ destination: DocumentPath, _ arguments: ParsedArguments
  ) throws(Failure) -> Int32 {
    let resolver = try PathResolver.current()
    let (from, to) = (resolver.mount(source), resolver.mount(destination))
    if verb == "to-cloud" ? from != nil && to == nil : from == nil && to != nil {
      let other = verb == "to-cloud" ? "to-local" : "to-cloud"
      throw .usage("migrate \(verb): the cloud is on the wrong side; did you mean \(other)?")
    }
    let options = try options(arguments)
    EndSignals.block()
    let migration = Migration(source: source, destination: destination, options: options)
    if arguments.has("dry-run") { return try plan(migration, arguments) }
    EndSignals.serve(
      first: { _ in migration.cancel() },
      // What is half done, the next run tidies up.
      again: { _ in _exit(ExitCode.tryAgain) })
    let isNoMount = verb == "to-cloud" && to == nil
    let notice = isNoMount ? "\(destination) is in no mount of docsfs; it is taken for external storage" : nil
    let code = try run(migration, verb, arguments, notice: notice)
    if let to, !arguments.has("json"), !arguments.has("events") {
      Console.print("docsfs sync \(to.mountpoint) waits until all is uploaded")
    }
    return code
  }

  private static func options(_ arguments: ParsedArguments) throws(Failure) -> Migration.Options {
    guard arguments.has("move") != arguments.has("keep") else {
      throw .usage("migrate: say whether SRC goes (--move) or stays (--keep)")
    }
    var options = Migration.Options(arguments.has("move") ? .move : .keep)
    options.onConflict = try arguments.choice("on-conflict", .fail)
    options.jobs = try arguments.count("jobs", options.jobs)
    options.bytesInFlight = try arguments.size("buffer", options.bytesInFlight)
    options.patience = try arguments.seconds("patience") ?? options.patience
    options.journal = arguments.path("journal")
    options.crashPoint = CrashPoint.fromEnvironment()
    return options
  }

  private static func plan(_ migration: Migration, _ arguments: ParsedArguments) throws(Failure) -> Int32 {
    let plan: MigrationPlan
    do { plan = try migration.plan() } catch { throw Failure(error) }
    if arguments.has("json") {
      Console.print(JSONText.of(plan))
    } else {
      PlanText.lines(plan).forEach { Console.print($0) }
    }
    return ExitCode.done
  }

  private static func run(
    _ migration: Migration, _ verb: String, _ arguments: ParsedArguments, notice: String?
  ) throws(Failure) -> Int32 {
    let output = Guarded(
      MigrationOutput(asEvents: arguments.has("events"), quiet: arguments.has("json"), notice: notice))
    let report: MigrationReport
    do {
      // One event at a time comes, so nobody waits for this lock.
      report = try migration.run { event in output.withLock { $0.show(event) } }
    } catch { throw Failure(error) }
    if arguments.has("json") { Console.print(JSONText.of(report)) }
    let code = exitCode(report)
    if !arguments.has("json"), !arguments.has("events") { Console.print(PlanText.summary(report)) }
    if let stopped = report.stopped {
      Console.error("migrate \(verb): \(stopped); nothing is lost, and the same command goes on")
    }
    return code
  }

  static func exitCode(_ report: MigrationReport) -> Int32 {
    if report.isComplete { return ExitCode.done }
    let failures = report.files.filter { $0.outcome == .failed }
    let passes: [Classification.Category] = [.disconnected, .staleHandle, .busy, .providerUnavailable, .cancelled]
    let allPass = failures.allSatisfy { failure in passes.contains { $0 == failure.category } }
    if report.stopped != nil, allPass { return ExitCode.tryAgain }
    if report.count(.moved) + report.count(.copied) + report.count(.alreadyThere) > 0 { return ExitCode.partly }
    return allPass ? ExitCode.tryAgain : ExitCode.failed
  }
}

extension PathResolver {
  fileprivate func mount(_ path: DocumentPath) -> MountEntry? { place(FilePath(path.bytes))?.mount }
}

/// Kills this process at a step, for tests of what a kill leaves behind: `DOCSFS_MIGRATE_CRASH=STEP[:N]`, at the N-th
/// time. In debug builds only.
enum CrashPoint {
  static func fromEnvironment() -> (@Sendable (String, DocumentPath) -> Void)? {
    #if DEBUG
      guard let text = getenv("DOCSFS_MIGRATE_CRASH").map({ String(cString: $0) }) else { return nil }
      let words = text.split(separator: ":")
      let left = Guarded(words.count > 1 ? Int(words[1]) ?? 1 : 1)
      return { step, _ in
        guard step == words.first.map(String.init) else { return }
        let isNow = left.withLock { left in
          left -= 1
          return left == 0
        }
        if isNow { kill(getpid(), SIGKILL) }
      }
    #else
      return nil
    #endif
  }
}
