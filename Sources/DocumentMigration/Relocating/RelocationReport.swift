import StorageErrors

/// What becomes of one file, or of a database with its sidecars.
public struct UnitReport: Codable, Hashable, Sendable {
  /// How it ended; in a plan, how it would.
  public enum Outcome: String, Codable, Sendable {
    /// It is at its new place, and no longer in Documents.
    case relocated
    /// It was there before.
    case alreadyThere
    /// It is in neither place: the system has purged it, or it never came. The app has to download it again.
    case toBeDownloadedAgain
    /// It stays in Documents, and backups leave it out.
    case excludedFromBackup
    /// It stays in Documents, as `--on-conflict` asked.
    case skipped
    /// It stays in Documents, and `reason` says why.
    case failed
  }

  /// From Documents.
  public internal(set) var path: DocumentPath
  /// How it ended.
  public internal(set) var outcome: Outcome
  /// Where it is now, from the app's home; nil where it has not moved.
  public internal(set) var target: DocumentPath?
  /// Bytes of all its files.
  public internal(set) var bytes: Int64 = 0
  /// The files of the unit that were in Documents, from there: the database first.
  public internal(set) var members: [DocumentPath] = []
  /// What kind of failure it was, in StorageErrors' words.
  public internal(set) var category: Classification.Category?
  /// One line: why it was skipped or failed.
  public internal(set) var reason: String?
  /// What to do about it.
  public internal(set) var advice: String?

  mutating func fail(_ failure: StepFailure) {
    outcome = .failed
    (category, reason, advice) = (failure.category, failure.reason, failure.advice)
  }
}

extension UnitReport {
  init(_ path: DocumentPath, _ failure: StepFailure) {
    self.init(path: path, outcome: .failed)
    fail(failure)
  }
}

/// What a relocation has done, or would do.
public struct RelocationReport: Codable, Hashable, Sendable {
  /// By path.
  public internal(set) var units: [UnitReport] = []
  /// Rules with wildcards that match nothing and never did, as they were given.
  public internal(set) var rulesWithoutMatch: [String] = []

  /// How many ended so.
  public func count(_ outcome: UnitReport.Outcome) -> Int { units.count { $0.outcome == outcome } }
  /// Nothing failed, and nothing has to be downloaded again.
  public var isComplete: Bool { count(.failed) == 0 && count(.toBeDownloadedAgain) == 0 }
}
