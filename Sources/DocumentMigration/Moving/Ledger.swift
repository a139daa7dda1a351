import StorageErrors

/// What the journal of a migration holds. Paths are from the roots.
enum MigrationRecord: Codable, Sendable {
  /// The file systems that the two trees lie on, by their types.
  case roots(source: UInt64, destination: UInt64)
  /// A folder is about to be made; it gets these attributes when all is in it.
  case made(path: DocumentPath, mode: UInt32, modified: Int64)
  /// The folder has its attributes.
  case finished(path: DocumentPath)
  /// `temporary` is about to be made; it becomes `target`.
  case began(path: DocumentPath, temporary: DocumentPath, target: DocumentPath, wasPlaceholder: Bool)
  /// `target` is proven. The source was `source` then, and the target is `destination`.
  case placed(path: DocumentPath, target: DocumentPath, source: Stamp, destination: Stamp)
  /// The source has been dealt with.
  case released(path: DocumentPath, kept: Bool)
  /// It was given up, and its temporary file is gone.
  case dropped(path: DocumentPath)
  /// A relocation brought this unit to `target`.
  case relocated(path: DocumentPath, target: DocumentPath)
}

/// The journal, and what it says of each document.
final class Ledger: Sendable {
  struct Document: Hashable, Sendable {
    struct Begun: Hashable, Sendable {
      var temporary: DocumentPath
      var target: DocumentPath
      var wasPlaceholder: Bool
    }
    struct Placed: Hashable, Sendable {
      var target: DocumentPath
      var source: Stamp
      var destination: Stamp
    }
    var begun: Begun?
    /// Of this attempt, or of an earlier one that is done over.
    var placed: Placed?
    /// Begun, and not placed since: its temporary file may be there.
    var isUnderWay = false
    /// With `--keep`; what was released by `--move` is forgotten.
    var isReleased = false
  }
  struct Folder: Hashable, Sendable {
    var mode: UInt32
    /// Nanoseconds since 1970.
    var modified: Int64
  }

  struct Roots: Hashable, Sendable {
    var source: UInt64
    var destination: UInt64
  }

  struct State: Sendable {
    var roots: Roots?
    var documents: [DocumentPath: Document] = [:]
    /// Made by this migration, and not yet with their attributes.
    var folders: [DocumentPath: Folder] = [:]
    /// Where relocations have brought their units.
    var relocated: [DocumentPath: DocumentPath] = [:]
  }

  private let journal: Journal<MigrationRecord>
  private let state: Locked<State>
  /// What the names of its temporary files are made from: no other journal's are the same, also of the same trees.
  let seed: [UInt8]
  var path: DocumentPath { journal.path }

  init(_ name: String, lock: String? = nil, in folder: DocumentPath) throws(MigrationError) {
    var state = State()
    journal = try Journal(name, lock: lock, in: folder) { records in
      for record in records { state.take(record) }
      return state.records
    }
    self.state = Locked(state)
    seed = POSIX.resolvedAsFarAsThere(journal.path).bytes
  }

  /// What a journal says that nobody need have, for plans.
  static func peek(_ name: String, in folder: DocumentPath) -> State {
    var state = State()
    for record in (try? Journal<MigrationRecord>.read(Journal<MigrationRecord>.path(name, in: folder))) ?? [] {
      state.take(record)
    }
    return state
  }

  var snapshot: State { state.update { $0 } }
  subscript(_ path: DocumentPath) -> Document { state.update { $0.documents[path] ?? Document() } }
  func folder(_ path: DocumentPath) -> Folder? { state.update { $0.folders[path] } }

  /// Their temporary files may be there.
  var underWay: [Document.Begun] {
    state.update { $0.documents.values.compactMap { $0.isUnderWay ? $0.begun : nil } }
  }

  func note(_ record: MigrationRecord, durable: Bool = false) throws(StepFailure) {
    try attempt(.journal, "write", journal.path) { () throws(Errno) in
      try journal.append(record, durable: durable)
    }
    state.update { $0.take(record) }
  }

  /// Whether an earlier run found the trees on such file systems too; true for the first one.
  func knows(_ roots: Roots) throws(StepFailure) -> Bool {
    if let known = state.update({ $0.roots }) { return known == roots }
    try note(.roots(source: roots.source, destination: roots.destination))
    return true
  }

  /// At a run's end: another one may have the journal. One with nothing to resume and nothing to remember goes.
  func close() {
    if state.update({ $0.documents.isEmpty && $0.folders.isEmpty && $0.relocated.isEmpty }) { journal.remove() }
    journal.unlock()
  }
}

extension Ledger.State {
  mutating func take(_ record: MigrationRecord) {
    switch record {
    case .roots(let source, let destination): roots = .init(source: source, destination: destination)
    case .made(let path, let mode, let modified): folders[path] = Ledger.Folder(mode: mode, modified: modified)
    case .finished(let path): folders[path] = nil
    case .began(let path, let temporary, let target, let wasPlaceholder):
      // A placeholder that an earlier attempt materialized is still to be evicted.
      let earlier = documents[path].map { !$0.isReleased && $0.begun?.wasPlaceholder == true } ?? false
      documents[path, default: .init()].begun = .init(
        temporary: temporary, target: target, wasPlaceholder: wasPlaceholder || earlier)
      documents[path]?.isUnderWay = true
      documents[path]?.isReleased = false
    case .placed(let path, let target, let source, let destination):
      documents[path, default: .init()].placed = .init(target: target, source: source, destination: destination)
      documents[path]?.isReleased = false
      documents[path]?.isUnderWay = false
    case .released(let path, let kept):
      if kept {
        documents[path]?.isReleased = true
      } else if documents[path]?.isUnderWay == true {
        documents[path]?.placed = nil
      } else {
        documents[path] = nil
      }
    case .dropped(let path):
      documents[path]?.isUnderWay = false
      if documents[path]?.placed == nil { documents[path] = nil }
    case .relocated(let path, let target): relocated[path] = target
    }
  }

  /// As few records as say the same.
  var records: [MigrationRecord] {
    var records = folders.map { MigrationRecord.made(path: $0, mode: $1.mode, modified: $1.modified) }
    if let roots { records.append(.roots(source: roots.source, destination: roots.destination)) }
    records += relocated.map { .relocated(path: $0, target: $1) }
    for (path, document) in documents {
      let began = document.begun.map {
        MigrationRecord.began(
          path: path, temporary: $0.temporary, target: $0.target, wasPlaceholder: $0.wasPlaceholder)
      }
      if !document.isUnderWay, let began { records.append(began) }
      if let placed = document.placed {
        records.append(
          .placed(path: path, target: placed.target, source: placed.source, destination: placed.destination))
      }
      if document.isReleased { records.append(.released(path: path, kept: true)) }
      if document.isUnderWay, let began { records.append(began) }
    }
    return records
  }
}
