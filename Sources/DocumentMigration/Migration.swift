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
    /// Drops the local bytes of a document that the storage shows at this path; gives a reason when it cannot. Called,
    /// with `.keep`, for what was a placeholder before. On Apple's systems `FileManager.evictUbiquitousItem(at:)` does it.
    public var evict: (@Sendable (DocumentPath) -> String?)?
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
    let folders = try Folders(self)
    return try planned(folders, Ledger.peek(folders.name, in: try journalFolder(folders)))
  }

  /// Carries it out, as far as it can be, and goes on where an earlier run ended. Once for each `Migration`.
  ///
  /// - Throws: `MigrationError` when it cannot begin. What goes wrong with single documents is in the report.
  public func run(
    events: @escaping @Sendable (MigrationEvent) -> Void = { _ in }
  ) throws(MigrationError) -> MigrationReport {
    let folders = try Folders(self)
    let ledger = try Ledger(folders.name, in: try journalFolder(folders))
    // Threads that were given up hold on to their journal.
    defer { if control.running.isEmpty { ledger.close() } }
    let plan = try planned(folders, ledger.snapshot)
    let sink = EventSink(events)
    sink.send(.planned(plan))
    try checkRoom(plan, folders)
    return Scheduler(mover: try mover(folders, ledger), events: sink).run(plan)
  }

  private func mover(_ folders: Folders, _ ledger: Ledger) throws(MigrationError) -> Mover {
    let source: Root
    let destination: Root
    do throws(Errno) {
      if !folders.destinationIsThere { try POSIX.makeFolder(folders.destination, mode: 0o777) }
      source = try Root(folders.source)
      destination = try Root(folders.destination)
    } catch { throw MigrationError(.storage, "\(folders.destination): \(error.message.lowercasedFirst)") }
    let isKnown: Bool
    do throws(StepFailure) {
      isKnown = try ledger.knows(.init(source: source.fileSystem, destination: destination.fileSystem))
    } catch { throw MigrationError(.journal, error.reason) }
    guard isKnown else {
      throw MigrationError(
        .missing,
        "\(folders.source) or \(folders.destination) is on another file system than in the run before; mount what is "
          + "missing, or remove \(ledger.path) to begin anew")
    }
    return Mover(source: source, destination: destination, options: options, ledger: ledger, control: control)
  }

  /// Ends a run, or one that is still to come, as soon as each thread has come to the end of its system call. What is half
  /// done is tidied up.
  public func cancel() { control.cancel() }

  // MARK: Before it begins

  /// The two roots, resolved.
  private struct Folders {
    var source: DocumentPath
    var destination: DocumentPath
    var destinationIsThere: Bool

    init(_ migration: Migration) throws(MigrationError) {
      source = try Self.folder(migration.source, "source")
      do throws(Errno) {
        if try POSIX.statusIfPresent(migration.destination) != nil {
          destination = try POSIX.resolved(migration.destination)
          destinationIsThere = true
        } else {
          // Only the last folder is made: where more is missing, a disk or a mount may be.
          destination = try POSIX.resolved(
            migration.destination.parent.isRoot ? DocumentPath(".") : migration.destination.parent
          )
          .appending(migration.destination.name)
          destinationIsThere = false
        }
      } catch {
        throw MigrationError(
          .missing,
          "the destination \(migration.destination): \(error.message.lowercasedFirst); is its disk or mount there?")
      }
      if destinationIsThere { _ = try Self.folder(destination, "destination") }
      try checkApart()
    }

    private static func folder(_ path: DocumentPath, _ what: String) throws(MigrationError) -> DocumentPath {
      let resolved: DocumentPath
      let kind: FileStatus.Kind
      do throws(Errno) {
        resolved = try POSIX.resolved(path)
        kind = try POSIX.status(resolved).kind
      } catch {
        throw MigrationError(
          error == .ENOENT ? .missing : .storage, "the \(what) \(path): \(error.message.lowercasedFirst)")
      }
      guard kind == .folder else { throw MigrationError(.unfit, "the \(what) \(path) is no folder") }
      return resolved
    }

    private func checkApart() throws(MigrationError) {
      if destination.isWithin(source) || source.isWithin(destination) || isSameFolder {
        throw MigrationError(
          .unfit, "\(source) and \(destination) lie within each other; choose folders that are apart")
      }
    }

    /// By another path, as a bind mount gives one.
    private var isSameFolder: Bool {
      guard let a = try? POSIX.status(source), let b = try? POSIX.status(destination) else { return false }
      return a.device == b.device && a.inode == b.inode
    }

    /// Of the journal: readable, and another for each pair of folders.
    var name: String {
      let last = String(decoding: source.name, as: UTF8.self).unicodeScalars.filter {
        $0.isASCII && ($0.properties.isAlphabetic || ("0"..."9").contains($0) || "._-".unicodeScalars.contains($0))
      }
      return String(String.UnicodeScalarView(last)).prefix(32) + "-"
        + shortDigest(source.bytes + [0] + destination.bytes)
    }
  }

  private func planned(_ folders: Folders, _ known: Ledger.State) throws(MigrationError) -> MigrationPlan {
    let control = control
    let isCancelled = { @Sendable in control.isCancelled }
    let source = try list(Walker(root: folders.source, isCancelled: isCancelled))
    var there = Listing()
    if folders.destinationIsThere {
      // Only what both sides have is of interest.
      let common = Set(source.entries.filter { $0.status.kind == .folder }.map(\.path))
      there = try list(Walker(root: folders.destination, which: { common.contains($0) }, isCancelled: isCancelled))
    }
    let place = folders.destinationIsThere ? folders.destination : folders.destination.parent
    var planner = Planner(options: options, longestName: POSIX.longestName(place), known: known.documents)
    planner.renames = options.disposition == .move && areOneFileSystem(folders.source, place)
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

  private func checkRoom(_ plan: MigrationPlan, _ folders: Folders) throws(MigrationError) {
    guard let free = plan.bytesFree, plan.bytesNeeded > free else { return }
    throw MigrationError(
      .noRoom,
      "\(folders.destination) has room for \(free) bytes, and \(plan.bytesNeeded) are needed; make room, then run again"
    )
  }

  private func journalFolder(_ folders: Folders) throws(MigrationError) -> DocumentPath {
    let folder: DocumentPath
    if let given = options.journal { folder = given } else { folder = try Self.defaultJournalFolder() }
    let resolved = POSIX.resolvedAsFarAsThere(folder)
    if resolved.isWithin(folders.source) || resolved.isWithin(folders.destination) {
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
