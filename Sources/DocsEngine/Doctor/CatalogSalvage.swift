import CLinux
import CSQLite
import Containers
import Glibc
import StorageErrors

/// A catalog that SQLite itself finds damaged: what can be read goes into a new one, the old one is kept.
enum CatalogSalvage {
  /// What is wrong with the file; nil when nothing is. A missing catalog is made anew by the next mount.
  static func check(_ directory: String) throws(VolumeError) -> String? {
    let path = directory + "/catalog.db"
    guard access(path, F_OK) == 0 else { throw VolumeError("\(directory): there is no catalog", exitCode: 69) }
    do throws(SQLiteError) {
      let connection = try Connection(path: path, readOnly: false)
      var words: [String] = []
      try connection.query("PRAGMA integrity_check(5)") { words.append(String(decoding: $0.bytes(0), as: UTF8.self)) }
      return words == ["ok"] ? nil : words.joined(separator: "; ").replacingNewlines
    } catch {
      guard error.primary == SQLITE_CORRUPT || error.primary == SQLITE_NOTADB else {
        throw VolumeError("\(path): \(error)")
      }
      return error.message
    }
  }

  static func salvage(_ directory: String) throws(VolumeError) {
    let path = directory + "/catalog.db"
    let kept = path + ".damaged-\(time(nil))"
    var records: [ItemRecord] = []
    var facts: [(String, SQLValue)] = []
    if let old = try? Connection(path: path, readOnly: false) {
      records = readable(old)
      try? old.query("SELECT name, value FROM facts") { row in
        let name = String(decoding: row.bytes(0), as: UTF8.self)
        facts.append(
          (name, name == "container" ? .text(String(decoding: row.bytes(1), as: UTF8.self)) : .integer(row.integer(1))))
      }
    }
    var applied: UInt64 = 0
    for case (Catalog.appliedFact, .integer(let value)) in facts { applied = UInt64(bitPattern: value) }
    var log = try CommitLog(directory: directory)
    let left = log.entries(after: applied)
    guard Glibc.rename(path, kept) == 0 else { throw VolumeError("\(path): \(Errno.current)") }
    for suffix in ["-wal", "-shm"] { _ = Glibc.rename(path + suffix, kept + suffix) }
    let new = try Catalog(directory: directory)
    var changes = CatalogChanges(records: records)
    for case (let name, .integer(let value)) in facts where name != Catalog.appliedFact { changes.facts[name] = value }
    let highest = records.map { Int64(bitPattern: $0.id.rawValue) }.max() ?? 1
    changes.facts["nextItem"] = max(changes.facts["nextItem"] ?? 0, highest + 1_000_000)
    let content = records.map(\.content).max() ?? 0
    changes.facts["nextContent"] = max(changes.facts["nextContent"] ?? 0, content + 1_000_000)
    if let errno = new.commit(changes) { throw VolumeError("\(path): \(errno)") }
    for case (let name, .text(let value)) in facts { try new.setText(name, value) }
    do throws(Errno) {
      // What the old file did not have yet is newer than all that it had.
      try new.flush()
      try new.replay(left)
    } catch {
      throw VolumeError("\(path): \(error)")
    }
    new.close()
  }

  /// Every row that can still be read, from both ends: a damaged page hides only what is in it.
  private static func readable(_ connection: Connection) -> [ItemRecord] {
    var found: [ItemID: ItemRecord] = [:]
    for order in ["ASC", "DESC"] {
      try? connection.query("SELECT \(ItemRecord.columns) FROM items NOT INDEXED ORDER BY id \(order)") { row in
        if let record = ItemRecord(row) { found[record.id] = record }
      }
    }
    return Array(found.values)
  }
}

extension String {
  fileprivate var replacingNewlines: String { String(map { $0.isNewline ? " " : $0 }) }
}
