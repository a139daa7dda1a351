import CLinux
import CSQLite
import Containers
import Glibc
import StorageErrors

/// The rows that one commit writes.
struct CatalogChanges: Sendable {
  var records: [ItemRecord] = []
  var removed: [ItemID] = []
  var facts: [String: Int64] = [:]
  var isEmpty: Bool { records.isEmpty && removed.isEmpty && facts.isEmpty }
}

/// The items, extents and jobs: a SQLite database, and before it a log of commits. A commit is in the log when it is
/// answered, and survives kill -9; `sync` makes all commits before it safe against power loss. The database follows, and
/// is read when it has caught up. Reached only through closures on its connections.
final class Catalog: Sendable {
  private let log: Guarded<CommitLog>
  private let backlog = Backlog()
  private let writer: Guarded<Connection>
  private let readers: [Guarded<Connection>]
  private let walFile: ContentFile
  private let directory: String

  /// Size of the write-ahead log from which a checkpoint pays.
  private static let checkpointBytes: Int64 = 4 << 20

  init(directory: String) throws(VolumeError) {
    self.directory = directory
    let path = directory + "/catalog.db"
    log = Guarded(try CommitLog(directory: directory))
    do {
      let connection = try Self.openWriter(path)
      var readers: [Guarded<Connection>] = []
      for _ in 0..<2 {
        let reader = try Connection(path: path, readOnly: true)
        try reader.execute("PRAGMA cache_size = -8192")
        readers.append(Guarded(reader))
      }
      self.readers = readers
      writer = Guarded(connection)
    } catch let problem as Schema.Problem {
      throw Self.explain(problem, path)
    } catch let error as SQLiteError {
      throw Self.explain(.sqlite(error), path)
    } catch {
      throw VolumeError("\(path): \(error)")
    }
    let fd = lx_open(path + "-wal", O_RDONLY, 0)
    guard fd >= 0 else { throw VolumeError("\(path)-wal: \(Errno.current)") }
    walFile = ContentFile(fd: fd)
    // The names of both files must survive power loss before anything that is in them can.
    let folder = lx_open(directory, O_RDONLY | O_DIRECTORY, 0)
    guard folder >= 0 else { throw VolumeError("\(directory): \(Errno.current)") }
    let synced = fsync(folder)
    Glibc.close(folder)
    guard synced == 0 else { throw VolumeError("\(directory): \(Errno.current)") }
    try catchUp(path)
  }

  deinit { backlog.stop() }

  /// Brings what a process before this one committed into the database, before the log is written anew.
  private func catchUp(_ path: String) throws(VolumeError) {
    do throws(Errno) {
      let applied = UInt64(bitPattern: try fact(Self.appliedFact) ?? 0)
      let (left, last) = log.withLock { log in (log.entries(after: applied), log.sequence) }
      try replay(left)
      // What lies behind a gap is passed over for good: new commits count on from there.
      if last > left.last?.sequence ?? applied { try passOver(upTo: last) }
      guard fdatasync(walFile.fd) == 0 else { throw Errno.current }
    } catch {
      if error == .ENOSPC {
        throw VolumeError("\(path): no space left on the disk that holds the state; free some and mount again")
      }
      throw VolumeError("\(path): the commits of the last mount cannot be brought into it: \(error.message)")
    }
    let last = log.withLock { $0.sequence }
    // The thread lives until `close`, and as long as it does nobody else has the directory.
    backlog.start(from: last) { [writer, log, walFile] changes, last in
      if let errno = Self.apply(changes, last, writer) { return errno }
      let retired = log.withLock { log in
        log.retireIfFull()
        return log.retired
      }
      if let retired, retired <= last, fdatasync(walFile.fd) == 0 { log.withLock { $0.reuse() } }
      return nil
    }
  }

  /// Writes commits that were only in the log into the database.
  func replay(_ entries: [CommitLog.Entry]) throws(Errno) {
    guard let last = entries.last else { return }
    do throws(SQLiteError) {
      try writer.withLock { connection throws(SQLiteError) in
        try connection.transaction { () throws(SQLiteError) in
          for entry in entries { try Self.replay(entry, connection) }
          try connection.setFact(Self.appliedFact, Int64(bitPattern: last.sequence))
        }
      }
    } catch {
      Log.error("commits of the log could not be replayed", ["commits": entries.count, "error": error])
      throw error.primary == SQLITE_FULL ? .ENOSPC : .EIO
    }
  }

  private func passOver(upTo last: UInt64) throws(Errno) {
    Log.warning("commits behind a missing one are passed over", ["last": last])
    do throws(SQLiteError) {
      try writer.withLock { connection throws(SQLiteError) in
        try connection.setFact(Self.appliedFact, Int64(bitPattern: last))
      }
    } catch {
      throw error.primary == SQLITE_FULL ? .ENOSPC : .EIO
    }
  }

  private static func replay(_ entry: CommitLog.Entry, _ connection: Connection) throws(SQLiteError) {
    var decoder = CommitDecoder(entry.payload)
    let upsert = try connection.statement(ItemRecord.upsert)
    for _ in 0..<(decoder.number() ?? 0) {
      defer { upsert.reset() }
      for column in 1...ItemRecord.columnCount {
        guard let value = decoder.value() else { throw SQLiteError(code: SQLITE_CORRUPT, message: "a row ends early") }
        upsert.bind(Int32(column), value)
      }
      try connection.run(upsert)
    }
    for _ in 0..<(decoder.number() ?? 0) {
      if let id = decoder.number() { try connection.remove(ItemID(UInt64(bitPattern: Int64(id)))) }
    }
    for _ in 0..<(decoder.number() ?? 0) {
      if let name = decoder.bytes(), let value = decoder.number() {
        try connection.setFact(String(decoding: name, as: UTF8.self), Int64(value))
      }
    }
  }

  /// The last commit of the log that the database has.
  static let appliedFact = "applied"

  private static func openWriter(_ path: String) throws -> Connection {
    let connection = try Connection(path: path, readOnly: false)
    try connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0")
    try connection.execute("PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY")
    try Schema.upgrade(connection)
    // A first frame, so that the log exists from here on.
    try connection.query("INSERT OR REPLACE INTO facts VALUES ('opened', unixepoch())")
    return connection
  }

  private static func explain(_ problem: Schema.Problem, _ path: String) -> VolumeError {
    switch problem {
    case .newer(let version):
      return VolumeError(
        "\(path) was made by a newer docsfs (schema \(version), this one knows \(Schema.steps.count)); use that one")
    case .sqlite(let error):
      switch error.primary {
      case SQLITE_CORRUPT, SQLITE_NOTADB:
        return VolumeError("\(path) is damaged (\(error.message)); it was left as it is: run docsfs doctor")
      case SQLITE_FULL:
        return VolumeError("\(path): no space left on the disk that holds the state; free some and mount again")
      default: return VolumeError("\(path): \(error)")
      }
    }
  }

  /// Takes all of `changes`, or nothing. Not for two threads at once.
  func commit(_ changes: CatalogChanges) -> Errno? {
    if let failure = backlog.failure { return failure }
    let payload = CommitEncoder.encode(changes)
    let (errno, sequence) = log.withLock { log in (log.append(payload), log.sequence) }
    if let errno {
      Log.error("a commit failed", ["rows": changes.records.count, "error": errno])
      return errno
    }
    backlog.add(sequence, changes)
    return nil
  }

  /// Writes all of `changes`, and that it has all commits up to `last`, in one transaction.
  private static func apply(_ changes: CatalogChanges, _ last: UInt64, _ writer: Guarded<Connection>) -> Errno? {
    writer.withLock { connection -> Errno? in
      do throws(SQLiteError) {
        try connection.transaction { () throws(SQLiteError) in
          let upsert = try connection.statement(ItemRecord.upsert)
          for record in changes.records {
            record.bind(upsert)
            defer { upsert.reset() }
            try connection.run(upsert)
          }
          for id in changes.removed { try connection.remove(id) }
          for (name, value) in changes.facts { try connection.setFact(name, value) }
          try connection.setFact(appliedFact, Int64(bitPattern: last))
        }
        return nil
      } catch {
        Log.error("the database does not take what is in the log", ["rows": changes.records.count, "error": error])
        return error.primary == SQLITE_FULL ? .ENOSPC : .EIO
      }
    }
  }

  /// The database has no room for what is in the log.
  var lacksRoom: Bool { backlog.failure == .ENOSPC }

  /// Waits until the database has all commits.
  func flush() throws(Errno) { try backlog.drain() }

  /// Makes every commit that has returned safe against power loss.
  func sync() -> Errno? {
    for file in log.withLock({ $0.unsettledFiles }) where fdatasync(file.fd) != 0 { return Errno.current }
    return nil
  }

  /// Brings everything into the database, safe against power loss. The last call.
  func close() {
    backlog.stop()
    writer.withLock { $0.checkpoint(SQLITE_CHECKPOINT_TRUNCATE) }
    _ = sync()
    _ = fdatasync(walFile.fd)
  }

  /// Moves the log into the database when it has grown; run on a thread of its own.
  func checkpointIfLarge() {
    var info = stat()
    guard fstat(walFile.fd, &info) == 0, Int64(info.st_size) > Self.checkpointBytes else { return }
    let checkpointer = try? Connection(path: directory + "/catalog.db", readOnly: false)
    checkpointer?.checkpoint(SQLITE_CHECKPOINT_PASSIVE)
    // A log that passive checkpoints cannot restart grows for ever: writers wait once, for what little is left.
    if Int64(info.st_size) > 8 * Self.checkpointBytes {
      writer.withLock { $0.checkpoint(SQLITE_CHECKPOINT_TRUNCATE) }
    }
  }

  private func read<R>(_ body: (Connection) throws(SQLiteError) -> R) throws(Errno) -> R {
    try backlog.drain()
    let reader = readers[Int(truncatingIfNeeded: lx_gettid()) & 1]
    do throws(SQLiteError) {
      return try reader.withLock { connection throws(SQLiteError) in try body(connection) }
    } catch {
      Log.error("the catalog cannot be read", ["error": error])
      throw .EIO
    }
  }

  private func records(_ condition: String, _ values: [SQLValue]) throws(Errno) -> [ItemRecord] {
    try read { connection throws(SQLiteError) in
      var result: [ItemRecord] = []
      try connection.query("SELECT \(ItemRecord.columns) FROM items WHERE \(condition)", values) { row in
        if let record = ItemRecord(row) {
          result.append(record)
        } else {
          Log.error("a damaged row was passed over; run docsfs doctor", ["item": row.integer(0)])
        }
      }
      return result
    }
  }

  func record(_ id: ItemID) throws(Errno) -> ItemRecord? {
    try records("id = ?", [.integer(Int64(bitPattern: id.rawValue))]).first
  }
  /// The items of a folder, those deleted here left out.
  func children(_ folder: ItemID) throws(Errno) -> [ItemRecord] {
    try records("parent = ? AND flags & 1 = 0", [.integer(Int64(bitPattern: folder.rawValue))])
  }
  /// What is still to be uploaded, oldest first.
  func journal() throws(Errno) -> [ItemRecord] { try records("pending IS NOT NULL ORDER BY pending", []) }

  func records(identity: RemoteIdentity) throws(Errno) -> [ItemRecord] {
    try records("r_identity = ?", [.blob(identity.bytes)])
  }
  /// The least recently used items with local bytes that are not to be uploaded.
  func evictable(limit: Int, after used: Int64) throws(Errno) -> [ItemRecord] {
    try records(
      "bytes > 0 AND pending IS NULL AND flags & 5 = 0 AND used >= ? ORDER BY used LIMIT ?",
      [.integer(used), .integer(Int64(limit))])
  }
  func listedFolders() throws(Errno) -> [ItemID] {
    try read { connection throws(SQLiteError) in
      var result: [ItemID] = []
      try connection.query("SELECT id FROM items WHERE kind = 2 AND flags & 3 = 2") {
        result.append(ItemID(UInt64(bitPattern: $0.integer(0))))
      }
      return result
    }
  }
  /// How many items are in the tree below `id`, itself included.
  func subtreeCount(_ id: ItemID) throws(Errno) -> Int {
    try read { connection throws(SQLiteError) in
      var count = 0
      try connection.query(
        """
        WITH RECURSIVE tree(id) AS (VALUES (?) UNION ALL SELECT items.id FROM items JOIN tree ON items.parent = tree.id)
        SELECT count(*) FROM tree
        """, [.integer(Int64(bitPattern: id.rawValue))]
      ) { count = Int($0.integer(0)) }
      return count
    }
  }
  func pinned() throws(Errno) -> [ItemRecord] { try records("flags & 4 = 4", []) }

  private func fact(_ name: String) throws(Errno) -> Int64? {
    try read { connection throws(SQLiteError) in
      var result: Int64?
      try connection.query("SELECT value FROM facts WHERE name = ?", [.text(name)]) { result = $0.integer(0) }
      return result
    }
  }

  func facts() throws(Errno) -> [String: Int64] {
    try read { connection throws(SQLiteError) in
      var result: [String: Int64] = [:]
      try connection.query("SELECT name, value FROM facts") { row in
        result[String(decoding: row.bytes(0), as: UTF8.self)] = row.integer(1)
      }
      return result
    }
  }

  func text(_ name: String) throws(Errno) -> String? {
    try read { connection throws(SQLiteError) in
      var result: String?
      try connection.query("SELECT value FROM facts WHERE name = ?", [.text(name)]) { row in
        result = String(decoding: row.bytes(0), as: UTF8.self)
      }
      return result
    }
  }
  func setText(_ name: String, _ value: String) throws(VolumeError) {
    do throws(SQLiteError) {
      try writer.withLock { connection throws(SQLiteError) in
        try connection.query("INSERT OR REPLACE INTO facts VALUES (?, ?)", [.text(name), .text(value)])
      }
    } catch {
      throw VolumeError("\(directory)/catalog.db: \(error)")
    }
  }
  /// The numbers of the content files that belong to an item.
  func contentNumbers() throws(Errno) -> Set<Int64> {
    try read { connection throws(SQLiteError) in
      var result: Set<Int64> = []
      try connection.query("SELECT content FROM items WHERE content <> 0") { result.insert($0.integer(0)) }
      return result
    }
  }

  /// Items, local bytes, and those not to be given up, over the whole catalog.
  func totals() throws(Errno) -> (items: Int, bytes: Int64, dirtyBytes: Int64) {
    try read { connection throws(SQLiteError) in
      var result = (items: 0, bytes: Int64(0), dirtyBytes: Int64(0))
      try connection.query("SELECT count(*) FROM items") { result.items = Int($0.integer(0)) }
      try connection.query(
        "SELECT coalesce(sum(bytes), 0), coalesce(sum(CASE WHEN flags & 16 THEN bytes ELSE 0 END), 0)"
          + " FROM items WHERE bytes > 0"
      ) {
        result.bytes = $0.integer(0)
        result.dirtyBytes = $0.integer(1)
      }
      return result
    }
  }

  /// Calls `body` with every record, in order of ids, a thousand at a time.
  func forEach(_ body: (ItemRecord) -> Void) throws(Errno) {
    var last: Int64 = 0
    while true {
      let page = try records("id > ? ORDER BY id LIMIT 1000", [.integer(last)])
      guard let end = page.last else { return }
      page.forEach(body)
      last = Int64(bitPattern: end.id.rawValue)
    }
  }
}

extension Connection {
  fileprivate func setFact(_ name: String, _ value: Int64) throws(SQLiteError) {
    try query("INSERT OR REPLACE INTO facts VALUES (?, ?)", [.text(name), .integer(value)])
  }

  fileprivate func remove(_ id: ItemID) throws(SQLiteError) {
    try query("DELETE FROM items WHERE id = ?", [.integer(Int64(bitPattern: id.rawValue))])
  }
}
