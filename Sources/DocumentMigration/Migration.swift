import Foundation
import StorageErrors

/// Moves, or copies, the documents of one folder into another, so that each is whole in one of them at every moment.
///
/// The folders may be local, on external storage, or in a mount that shows a cloud: the engine uses system calls and
/// extended attributes, and nothing else. Calls block, on purpose: the system calls below them do, for as long as a
/// network takes, and would stall Swift's thread pool. Call from a thread of your own; `cancel()` from any.
///
///     let migration = Migration(source: documents, destination: cloud, options: .init(.move))
///     let report = try migration.run { event in … }
///     for file in report.files where file.outcome == .failed { … }
///
/// A run that was cancelled, or whose process died, is continued by running the same migration again.
public final class Migration: Sendable {
  /// What becomes of the source.
  public enum Disposition: String, Codable, Sendable {
    /// A document goes once the destination is proven to have it.
    case move
    /// It stays, untouched: nothing is written, renamed or stamped there.
    case keep
  }

  /// What becomes of a document whose name the destination has with another content.
  public enum ConflictPolicy: String, Codable, CaseIterable, Sendable {
    /// It stays, and is reported as failed.
    case fail
    /// It stays, and all is well.
    case skip
    /// It gets another name: `name 2.ext`.
    case keepBoth = "keep-both"
    /// It replaces the destination's.
    case replace
    /// It replaces the destination's if it was modified later; else it stays.
    case newer
  }

  /// How a migration goes about it.
  public struct Options: Sendable {
    /// What becomes of the source.
    public var disposition: Disposition
    /// What becomes of names that are taken.
    public var onConflict = ConflictPolicy.fail
    /// Documents under way at a time. Over a network most of them wait.
    public var jobs = 24
    /// The sizes of the documents under way add up to no more than this, in bytes, unless one alone is larger: what
    /// materializes at the source at a time.
    public var bytesInFlight: Int64 = 1 << 30
    /// Seconds to wait for storage that has gone away.
    public var patience = 60.0
    /// The folder for the journal; nil: `Migration.defaultJournalFolder`. Neither in the source nor in the destination.
    public var journal: DocumentPath?
    /// Seconds beyond the patience after which a system call counts as lost.
    package var stall = 60.0
    /// Called before each step, with its name and the document's path; for tests that kill the process there.
    package var crashPoint: (@Sendable (String, DocumentPath) -> Void)?

    /// What becomes of the source has to be said; the rest has defaults.
    public init(_ disposition: Disposition) { self.disposition = disposition }
  }

  private let source: DocumentPath
  private let destination: DocumentPath
  private let options: Options
  private let control = RunControl()

  /// Nothing is looked at before `plan()` or `run(events:)`.
  public convenience init(source: URL, destination: URL, options: Options) {
    self.init(source: DocumentPath(source), destination: DocumentPath(destination), options: options)
  }

  /// As with URLs, for paths that need not be text.
  public init(source: DocumentPath, destination: DocumentPath, options: Options) {
    self.source = source
    self.destination = destination
    self.options = options
  }

  /// What a run would do now. Changes nothing, and materializes nothing.
  ///
  /// - Throws: `MigrationError` when the folders cannot be listed, or cannot be migrated into each other.
  public func plan() throws(MigrationError) -> MigrationPlan {
    let trees = try Trees(source, destination)
    return try planned(trees, Ledger.peek(trees.name, in: try journalFolder(trees)))
  }

  /// Carries it out, as far as it can be, and goes on where an earlier run ended. Once for each `Migration`.
  ///
  /// - Throws: `MigrationError` when it cannot begin. What goes wrong with single documents is in the report.
  public func run(
    events: @escaping @Sendable (MigrationEvent) -> Void = { _ in }
  ) throws(MigrationError) -> MigrationReport {
    let trees = try Trees(source, destination)
    let ledger = try Ledger(trees.name, lock: trees.pair, in: try journalFolder(trees))
    // Threads that were given up hold on to their journal.
    defer { if control.running.isEmpty { ledger.close() } }
    let plan = try planned(trees, ledger.snapshot)
    let sink = EventSink(events)
    sink.send(.planned(plan))
    try checkRoom(plan, trees)
    return Scheduler(mover: try mover(trees, ledger), events: sink).run(plan)
  }

  private func mover(_ trees: Trees, _ ledger: Ledger) throws(MigrationError) -> Mover {
    let source: Root
    let destination: Root
    do throws(Errno) {
      if !trees.destinationIsThere { try POSIX.makeFolder(trees.destination, mode: 0o777) }
      source = try Root(trees.source)
      destination = try Root(trees.destination)
    } catch { throw MigrationError(.storage, "\(trees.destination): \(error.message.lowercasedFirst)") }
    let isKnown: Bool
    do throws(StepFailure) {
      isKnown = try ledger.knows(.init(source: source.fileSystem, destination: destination.fileSystem))
    } catch { throw MigrationError(.journal, error.reason) }
    guard isKnown else {
      throw MigrationError(
        .missing,
        "\(trees.source) or \(trees.destination) is on another file system than in the run before; mount what is "
          + "missing, or remove \(ledger.path) to begin anew")
    }
    return Mover(source: source, destination: destination, options: options, ledger: ledger, control: control)
  }

  /// Ends a run, or one that is still to come, as soon as each thread has come to the end of its system call. What is half
  /// done is tidied up.
  public func cancel() { control.cancel() }

  // MARK: Before it begins

  private func planned(_ trees: Trees, _ known: Ledger.State) throws(MigrationError) -> MigrationPlan {
    let control = control
    let isCancelled = { @Sendable in control.isCancelled }
    let source = try list(Walker(root: trees.source, isCancelled: isCancelled))
    var there = Listing()
    if trees.destinationIsThere {
      // Only what both sides have is of interest.
      let common = Set(source.entries.filter { $0.status.kind == .folder }.map(\.path))
      there = try list(Walker(root: trees.destination, which: { common.contains($0) }, isCancelled: isCancelled))
    }
    let place = trees.destinationIsThere ? trees.destination : trees.destination.parent
    var planner = Planner(options: options, longestName: POSIX.longestName(place), known: known.documents)
    planner.renames = options.disposition == .move && areOneFileSystem(trees.source, place)
    var plan = planner.plan(source, onto: there)
    plan.bytesFree = try? POSIX.room(place)
    return plan
  }

  private func list(_ walker: Walker) throws(MigrationError) -> Listing {
    do throws(Errno) { return try walker.list() } catch {
      throw MigrationError(.storage, "cannot list \(walker.root): \(error.message.lowercasedFirst)")
    }
  }

  private func areOneFileSystem(_ a: DocumentPath, _ b: DocumentPath) -> Bool {
    guard let a = try? POSIX.status(a), let b = try? POSIX.status(b) else { return false }
    return a.device == b.device
  }

  private func checkRoom(_ plan: MigrationPlan, _ trees: Trees) throws(MigrationError) {
    guard let free = plan.bytesFree, plan.bytesNeeded > free else { return }
    throw MigrationError(
      .noRoom,
      "\(trees.destination) has room for \(free) bytes, and \(plan.bytesNeeded) are needed; make room, then run again"
    )
  }

  private func journalFolder(_ trees: Trees) throws(MigrationError) -> DocumentPath {
    try options.journal?.checkNamed("journal's folder")
    let folder: DocumentPath
    if let given = options.journal { folder = given } else { folder = try Self.defaultJournalFolder() }
    let resolved = POSIX.resolvedAsFarAsThere(folder)
    if resolved.isWithin(trees.source) || resolved.isWithin(trees.destination) {
      throw MigrationError(.unfit, "the journal's folder \(folder) lies among the documents; name another")
    }
    return folder
  }

  /// `$XDG_STATE_HOME/docsfs/migrations`, by default `~/.local/state/docsfs/migrations`; on Apple's systems
  /// `docsfs/migrations` in Application Support.
  public static func defaultJournalFolder() throws(MigrationError) -> DocumentPath {
    #if canImport(Darwin)
      let url = URL.applicationSupportDirectory
      return DocumentPath(url).appending("docsfs").appending("migrations")
    #else
      let variables = ProcessInfo.processInfo.environment
      if let state = variables["XDG_STATE_HOME"], state.hasPrefix("/") {
        return DocumentPath(state).appending("docsfs").appending("migrations")
      }
      guard let home = variables["HOME"], home.hasPrefix("/") else {
        throw MigrationError(.journal, "your home folder is not known; set HOME, or name a folder for the journal")
      }
      return DocumentPath(home).appending(".local/state/docsfs/migrations")
    #endif
  }
}
