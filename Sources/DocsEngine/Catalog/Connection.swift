import CSQLite

/// What SQLite answered when it refused: its extended code and its own words.
struct SQLiteError: Error, CustomStringConvertible {
  var code: Int32
  var message: String
  var primary: Int32 { code & 0xff }
  var description: String { "\(message) (SQLite \(code))" }
}

/// One connection with its prepared statements. Not for two threads at once; `Database` sees to that.
final class Connection {
  private let handle: OpaquePointer
  private var statements: [String: Statement] = [:]

  init(path: String, readOnly: Bool) throws(SQLiteError) {
    var opened: OpaquePointer?
    let flags =
      (readOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) | SQLITE_OPEN_NOMUTEX
      | SQLITE_OPEN_EXRESCODE
    let code = sqlite3_open_v2(path, &opened, flags, nil)
    guard code == SQLITE_OK, let opened else {
      let text = opened.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
      sqlite3_close_v2(opened)
      throw SQLiteError(code: code, message: text)
    }
    handle = opened
    sqlite3_busy_timeout(handle, 10_000)
  }

  deinit {
    for statement in statements.values { statement.finalize() }
    sqlite3_close_v2(handle)
  }

  private var failure: SQLiteError {
    SQLiteError(code: sqlite3_extended_errcode(handle), message: String(cString: sqlite3_errmsg(handle)))
  }

  /// Runs statements that give no rows and take no values.
  func execute(_ sql: String) throws(SQLiteError) {
    guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else { throw failure }
  }

  /// The statement of `sql`, prepared once and kept.
  func statement(_ sql: String) throws(SQLiteError) -> Statement {
    if let known = statements[sql] { return known }
    var prepared: OpaquePointer?
    guard sqlite3_prepare_v3(handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &prepared, nil) == SQLITE_OK,
      let prepared
    else { throw failure }
    let statement = Statement(prepared)
    statements[sql] = statement
    return statement
  }

  /// Runs `sql` with `values`, giving each row to `row`.
  func query(_ sql: String, _ values: [SQLValue] = [], row: (Statement) -> Void = { _ in }) throws(SQLiteError) {
    let statement = try statement(sql)
    defer { statement.reset() }
    for (index, value) in values.enumerated() { statement.bind(Int32(index + 1), value) }
    try run(statement, row: row)
  }

  /// Steps a statement whose values are bound to its end. The caller resets it.
  func run(_ statement: Statement, row: (Statement) -> Void = { _ in }) throws(SQLiteError) {
    while true {
      switch sqlite3_step(statement.handle) {
      case SQLITE_ROW: row(statement)
      case SQLITE_DONE: return
      default: throw failure
      }
    }
  }

  /// All of `body`, or nothing.
  func transaction<R>(_ body: () throws(SQLiteError) -> R) throws(SQLiteError) -> R {
    try query("BEGIN IMMEDIATE")
    do {
      let result = try body()
      try query("COMMIT")
      return result
    } catch {
      try? query("ROLLBACK")
      throw error
    }
  }

  func checkpoint(_ mode: Int32) {
    sqlite3_wal_checkpoint_v2(handle, nil, mode, nil, nil)
  }
}

enum SQLValue {
  case integer(Int64)
  case blob([UInt8])
  case text(String)
  case null
}

/// A prepared statement: columns count from 0, parameters from 1.
final class Statement {
  let handle: OpaquePointer
  init(_ handle: OpaquePointer) { self.handle = handle }

  func finalize() { sqlite3_finalize(handle) }
  func reset() {
    sqlite3_reset(handle)
    sqlite3_clear_bindings(handle)
  }

  func bind(_ index: Int32, _ value: SQLValue) {
    switch value {
    case .integer(let number): sqlite3_bind_int64(handle, index, number)
    case .blob(let bytes): bind(index, bytes)
    case .text(let text): sqlite3_bind_text(handle, index, text, -1, Self.transient)
    case .null: sqlite3_bind_null(handle, index)
    }
  }
  func bind(_ index: Int32, _ number: Int64) { sqlite3_bind_int64(handle, index, number) }
  func bind(_ index: Int32, _ bytes: [UInt8]?) {
    guard let bytes else {
      sqlite3_bind_null(handle, index)
      return
    }
    _ = bytes.withUnsafeBytes { raw in
      // An empty blob needs an address that is not NULL, or it would be bound as NULL.
      raw.isEmpty
        ? sqlite3_bind_zeroblob(handle, index, 0)
        : sqlite3_bind_blob(handle, index, raw.baseAddress, Int32(raw.count), Self.transient)
    }
  }

  func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }
  func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }
  func bytes(_ column: Int32) -> [UInt8] {
    guard let start = sqlite3_column_blob(handle, column) else { return [] }
    return Array(UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(handle, column))))
  }
  func optionalBytes(_ column: Int32) -> [UInt8]? { isNull(column) ? nil : bytes(column) }

  /// SQLITE_TRANSIENT: SQLite copies what is bound.
  private static let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
}
