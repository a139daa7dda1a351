import Foundation
import StorageErrors

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

/// The file that makes a migration resumable: a line of JSON for each thing that a later run has to know. See
/// docs/decisions/migration-journal.md.
///
/// Only one process has a journal at a time.
final class Journal<Record: Codable & Sendable>: @unchecked Sendable {  // all under `condition`
  private let condition = NSCondition()
  private let file: Descriptor
  private let lock: Descriptor
  private var appended = 0
  private var synced = 0
  private var isSyncing = false
  private var failure: Errno?
  let path: DocumentPath

  /// Opens or makes `NAME.journal` in `folder`. `keeping` is given what was there and says what of it still counts; the
  /// rest is dropped. Journals that share a `lock` keep each other out.
  init(
    _ name: String, lock lockName: String? = nil, in folder: DocumentPath, keeping: ([Record]) -> [Record]
  ) throws(MigrationError) {
    path = Self.path(name, in: folder)
    do throws(Errno) {
      try Self.makeFolders(folder)
      lock = try Descriptor(folder.appending((lockName ?? name) + ".lock"), O_RDWR | O_CREAT)
      guard flock(lock.fd, LOCK_EX | LOCK_NB) == 0 else { throw .EAGAIN }
      let records = keeping(try Self.read(path))
      file = try Self.rewrite(path, records, in: folder)
    } catch {
      if error == .EAGAIN {
        throw MigrationError(.busy, "another migration of these folders is running; wait for its end")
      }
      throw MigrationError(
        .journal, "the journal \(path): \(error.message.lowercasedFirst); name another folder with --journal")
    }
  }

  static func path(_ name: String, in folder: DocumentPath) -> DocumentPath { folder.appending(name + ".journal") }

  /// In the file, so that it outlives this process; `durable` waits until it outlives a power loss too.
  func append(_ record: Record, durable: Bool = false) throws(Errno) {
    let line = Self.line(record)
    condition.lock()
    defer { condition.unlock() }
    if let failure { throw failure }
    do { try file.append(line) } catch {
      // Half a line may stand there now, and nothing may follow it.
      failure = error
      throw error
    }
    appended += 1
    if durable { try sync(appended) }
  }

  /// One fsync serves all who wait at that moment. Called, and returns, with the lock held.
  private func sync(_ number: Int) throws(Errno) {
    while synced < number {
      if let failure { throw failure }
      if isSyncing {
        condition.wait()
        continue
      }
      isSyncing = true
      let reached = appended
      condition.unlock()
      let result = Result { () throws(Errno) in try file.sync() }
      condition.lock()
      isSyncing = false
      switch result {
      case .success: synced = reached
      case .failure(let error): failure = error
      }
      condition.broadcast()
    }
  }

  /// Somebody else may have it. The last thread that holds it may live on for a moment.
  func unlock() { flock(lock.fd, LOCK_UN) }

  /// Nothing is left to resume.
  func remove() { try? POSIX.remove(path) }

  private static func line(_ record: Record) -> [UInt8] {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    // Records are structures of strings and numbers, which JSON has.
    let data = (try? encoder.encode(record)) ?? Data()
    return Array(data) + [0x0a]
  }

  /// What is in the journal now, without having it; nothing when there is none.
  static func read(_ path: DocumentPath) throws(Errno) -> [Record] {
    let bytes: [UInt8]
    do { bytes = try Descriptor(path, O_RDONLY).contents(limit: Int.max) } catch {
      if error == .ENOENT { return [] }
      throw error
    }
    let decoder = JSONDecoder()
    // A line that a kill has cut off at the end says nothing, and what it was about has not begun.
    return bytes.split(separator: 0x0a).compactMap { try? decoder.decode(Record.self, from: Data($0)) }
  }

  private static func rewrite(_ path: DocumentPath, _ records: [Record], in folder: DocumentPath) throws(Errno)
    -> Descriptor
  {
    let new = DocumentPath(path.bytes + Array(".new".utf8))
    let file = try Descriptor(new, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND)
    try file.append(records.flatMap(line))
    try file.sync()
    try POSIX.rename(new, over: path)
    try POSIX.syncFolder(folder)
    return file
  }

  /// mkdir -p, mode 0700.
  private static func makeFolders(_ path: DocumentPath) throws(Errno) {
    do { try POSIX.makeFolder(path) } catch {
      if error == .EEXIST { return }
      guard error == .ENOENT, !path.parent.isRoot, path.parent != path else { throw error }
      try makeFolders(path.parent)
      try POSIX.makeFolder(path)
    }
  }
}
