import CSQLite

/// The catalog's schema, as steps that are named and only ever appended. `PRAGMA user_version` counts the steps
/// that a file has seen; a file with more of them was made by a newer docsfs.
enum Schema {
  static let steps: [(name: String, sql: String)] = [
    (
      "items",
      """
      CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
      CREATE TABLE items (
        id         INTEGER PRIMARY KEY,
        parent     INTEGER NOT NULL,
        name       BLOB NOT NULL,
        kind       INTEGER NOT NULL,
        mode       INTEGER NOT NULL,
        uid        INTEGER NOT NULL,
        gid        INTEGER NOT NULL,
        size       INTEGER NOT NULL,
        accessed   INTEGER NOT NULL,
        modified   INTEGER NOT NULL,
        changed    INTEGER NOT NULL,
        target     BLOB,
        xattrs     BLOB,
        content    INTEGER NOT NULL,
        extents    BLOB,
        bytes      INTEGER NOT NULL,
        used       INTEGER NOT NULL,
        flags      INTEGER NOT NULL,
        pending    INTEGER,
        r_parent   INTEGER,
        r_name     BLOB,
        r_version  BLOB,
        r_identity BLOB,
        r_size     INTEGER,
        job_parent INTEGER,
        job_name   BLOB,
        job_digest BLOB,
        job_size   INTEGER,
        error      BLOB
      );
      CREATE INDEX items_of_folder ON items (parent);
      CREATE INDEX items_remote ON items (r_parent, r_name) WHERE r_parent IS NOT NULL;
      CREATE INDEX items_identity ON items (r_identity) WHERE r_identity IS NOT NULL;
      CREATE INDEX journal ON items (pending) WHERE pending IS NOT NULL;
      CREATE INDEX cache ON items (used) WHERE bytes > 0;
      """
    ),
    // Commits are in a log before they are here; a docsfs that does not know that would pass them over.
    ("commit log", "INSERT INTO facts VALUES ('applied', 0)"),
  ]

  enum Problem: Error {
    case newer(Int)
    case sqlite(SQLiteError)
  }

  /// Brings a file to the newest step, each in a transaction of its own.
  static func upgrade(_ connection: Connection) throws(Problem) {
    do {
      var version = 0
      try connection.query("PRAGMA user_version") { version = Int($0.integer(0)) }
      guard version <= steps.count else { throw Problem.newer(version) }
      for (index, step) in steps.enumerated().dropFirst(version) {
        try connection.transaction { () throws(SQLiteError) in
          try connection.execute(step.sql)
          try connection.execute("PRAGMA user_version = \(index + 1)")
        }
      }
    } catch let problem as Problem {
      throw problem
    } catch let error as SQLiteError {
      throw .sqlite(error)
    } catch {
      throw .sqlite(SQLiteError(code: SQLITE_ERROR, message: "\(error)"))
    }
  }
}
