import Foundation
import StorageErrors

/// What became of one document.
public struct FileReport: Codable, Hashable, Sendable {
  /// How it ended.
  public enum Outcome: String, Codable, Sendable {
    /// It is at the destination, proven, and gone from the source.
    case moved
    /// It is at both.
    case copied
    /// The destination had it already, byte for byte; with `--move` it is gone from the source.
    case alreadyThere
    /// It stays, as `--on-conflict` asked.
    case skipped
    /// It stays, and `reason` says why.
    case failed
    /// The run ended before its turn.
    case notTried
  }

  /// From the source's root.
  public internal(set) var path: DocumentPath
  /// What it is.
  public internal(set) var kind: String
  /// How it ended.
  public internal(set) var outcome: Outcome
  /// From the destination's root, where that is another than `path`.
  public internal(set) var target: DocumentPath?
  /// Its size.
  public internal(set) var bytes: Int64 = 0
  /// What kind of failure it was, in StorageErrors' words.
  public internal(set) var category: Classification.Category?
  /// One line: why it was skipped or failed.
  public internal(set) var reason: String?
  /// What to do about it.
  public internal(set) var advice: String?
  /// What else is worth knowing, a line each.
  public internal(set) var notes: [String] = []

  init(_ entry: Listing.Entry, _ outcome: Outcome) {
    path = entry.path
    kind = entry.status.kind.rawValue
    bytes = entry.status.kind == .file ? entry.status.size : 0
    self.outcome = outcome
  }

  /// Of a document whose folder has not been made.
  init(_ entry: Listing.Entry, in folder: FileReport) {
    if folder.outcome == .skipped {
      self.init(entry, .skipped)
      reason = folder.reason
    } else {
      self.init(entry, .refused(.folderMissing))
    }
  }

  /// Nothing is left to do for it.
  var isSettled: Bool { outcome != .failed && outcome != .notTried }

  init(_ left: MigrationPlan.Left) {
    path = left.path
    kind = "other"
    outcome = .failed
    (category, reason, advice) = (left.category, left.reason, left.advice)
  }

  init(_ entry: Listing.Entry, _ failure: StepFailure) {
    self.init(entry, failure == .cancelled ? .notTried : .failed)
    (category, reason, advice) = (failure.category, failure.reason, failure.advice)
  }
}

/// What became of all of them.
public struct MigrationReport: Codable, Hashable, Sendable {
  /// Every document that was not left out of the plan, in the source's order; folders only where one failed.
  public internal(set) var files: [FileReport] = []
  /// Why the run ended early; nil when every document was tried.
  public internal(set) var stopped: String?

  /// How many ended so.
  public func count(_ outcome: FileReport.Outcome) -> Int { files.count { $0.outcome == outcome } }
  /// Bytes that were moved or copied.
  public var bytes: Int64 {
    files.filter { $0.outcome == .moved || $0.outcome == .copied }.reduce(0) { $0 + $1.bytes }
  }
  /// Everything that was asked for has been done.
  public var isComplete: Bool {
    stopped == nil && files.allSatisfy(\.isSettled)
  }
}

/// What a running migration tells. Called from its threads, one at a time.
///
/// As JSON an object with the key `event`, whose value is the case's name, and one key for what belongs to it.
public enum MigrationEvent: Codable, Hashable, Sendable {
  /// Before anything is changed.
  case planned(MigrationPlan)
  /// A document has ended.
  case file(FileReport)
  /// Storage has gone away, and is waited for; the sentence says which.
  case waiting(String)
  /// About ten times a second.
  case progress(MigrationProgress)
  /// Nothing follows.
  case ended(MigrationSummary)

  private enum Name: String, Codable { case planned, file, waiting, progress, ended }
  private enum CodingKeys: String, CodingKey { case event, plan, file, reason, progress, summary }

  /// From what `encode(to:)` writes.
  public init(from decoder: any Decoder) throws {
    let fields = try decoder.container(keyedBy: CodingKeys.self)
    switch try fields.decode(Name.self, forKey: .event) {
    case .planned: self = .planned(try fields.decode(MigrationPlan.self, forKey: .plan))
    case .file: self = .file(try fields.decode(FileReport.self, forKey: .file))
    case .waiting: self = .waiting(try fields.decode(String.self, forKey: .reason))
    case .progress: self = .progress(try fields.decode(MigrationProgress.self, forKey: .progress))
    case .ended: self = .ended(try fields.decode(MigrationSummary.self, forKey: .summary))
    }
  }

  /// One object.
  public func encode(to encoder: any Encoder) throws {
    var fields = encoder.container(keyedBy: CodingKeys.self)
    func put(_ name: Name, _ value: some Encodable, _ key: CodingKeys) throws {
      try fields.encode(name, forKey: .event)
      try fields.encode(value, forKey: key)
    }
    switch self {
    case .planned(let plan): try put(.planned, plan, .plan)
    case .file(let report): try put(.file, report, .file)
    case .waiting(let reason): try put(.waiting, reason, .reason)
    case .progress(let progress): try put(.progress, progress, .progress)
    case .ended(let summary): try put(.ended, summary, .summary)
    }
  }
}

/// A report in numbers.
public struct MigrationSummary: Codable, Hashable, Sendable {
  /// How many documents ended so; those that none did are left out. By the outcome's name.
  public var counts: [String: Int]
  /// Bytes that were moved or copied.
  public var bytes: Int64
  /// Why the run ended early; nil when every document was tried.
  public var stopped: String?

  init(_ report: MigrationReport) {
    counts = Dictionary(grouping: report.files, by: \.outcome.rawValue).mapValues(\.count)
    bytes = report.bytes
    stopped = report.stopped
  }
}

/// How far a migration is.
public struct MigrationProgress: Codable, Hashable, Sendable {
  /// Bytes read from the source; of a document that is tried again only once.
  public internal(set) var doneBytes: Int64 = 0
  /// Bytes of all documents.
  public internal(set) var totalBytes: Int64 = 0
  /// Documents that have ended.
  public internal(set) var doneItems = 0
  /// All documents, folders left out.
  public internal(set) var totalItems = 0
}

/// Why a step of a document could not be done.
enum StepFailure: Error, Hashable, Sendable {
  enum Side: String, Sendable { case source, destination, journal }
  case system(Errno, Side, verb: String, DocumentPath)
  case refused(Refusal)
  case cancelled
  /// The disk or mount has gone, and its path leads elsewhere.
  case gone(Side, DocumentPath)
  /// A call has not come back for too long.
  case stalled

  var reason: String {
    switch self {
    case .system(let errno, .journal, let verb, let path):
      "cannot \(verb) the journal \(path): \(errno.message.lowercasedFirst)"
    case .system(let errno, let side, let verb, let path):
      "cannot \(verb) \(path) at the \(side.rawValue): \(errno.message.lowercasedFirst)"
    case .refused(let refusal): refusal.reason
    case .cancelled: "the migration was stopped before its turn"
    case .gone(let side, let path): "the \(side.rawValue)'s disk or mount is no longer at \(path)"
    case .stalled: "a system call on it does not come back"
    }
  }
  var advice: String {
    switch self {
    case .system(let errno, _, _, _): Remedy(errno).advice
    case .refused(let refusal): refusal.advice
    case .cancelled: "run the same command again"
    case .stalled, .gone: "reconnect the storage, then run the same command again"
    }
  }
  var category: Classification.Category {
    switch self {
    case .system(let errno, _, _, _): Remedy(errno).category
    case .refused(let refusal): refusal.category
    case .cancelled: .cancelled
    case .stalled, .gone: .disconnected
    }
  }
}

/// Runs a system call, and says what it was about when it fails.
func attempt<R>(
  _ side: StepFailure.Side, _ verb: String, _ path: DocumentPath, _ body: () throws(Errno) -> R
) throws(StepFailure) -> R {
  do { return try body() } catch { throw .system(error, side, verb: verb, path) }
}
