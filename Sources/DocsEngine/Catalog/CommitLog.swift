import CLinux
import Containers
import Glibc
import StorageErrors

/// Commits on their way into the database: each is one write(2), which survives kill -9, and one fdatasync makes all of
/// them safe against power loss. What the database has of them is used again, so that a file has all its blocks and
/// an fsync waits for no change of its size.
///
/// Two files take turns. A file is used again from its start only when the database has all of it, safe against power
/// loss: `retire` takes the other one into use, `reuse` gives the retired one free.
struct CommitLog {
  /// One commit as it lies in a file.
  struct Entry: Sendable {
    var sequence: UInt64
    var payload: [UInt8]
  }

  /// What one file may hold before the other one is taken.
  private static let turn: Int64 = 4 << 20
  private static let headSize = 24

  private let files: [ContentFile]
  private var current = 0
  private var position: Int64 = 0
  /// Of the last commit that was written.
  private(set) var sequence: UInt64
  /// The last commit in the file that waits for the database.
  private(set) var retired: UInt64?

  /// Opens or makes both files; nothing is overwritten before the first `append`.
  init(directory: String) throws(VolumeError) {
    var files: [ContentFile] = []
    for path in Self.paths(directory) {
      let fd = lx_open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600)
      guard fd >= 0 else { throw VolumeError("\(path): \(Errno.current)") }
      files.append(ContentFile(fd: fd))
    }
    self.files = files
    sequence = 0
  }

  static func paths(_ directory: String) -> [String] { [1, 2].map { "\(directory)/catalog.log\($0)" } }

  /// The commits that the database does not have yet: those that follow on `applied` without a gap.
  mutating func entries(after applied: UInt64) -> [Entry] {
    let found = files.flatMap { Self.read($0) }.sorted { $0.sequence < $1.sequence }
    var left: [Entry] = []
    for entry in found where entry.sequence == applied + UInt64(left.count) + 1 { left.append(entry) }
    sequence = max(applied, found.last?.sequence ?? 0)
    return left
  }

  /// From the start up to the first that is torn, or of an earlier turn.
  private static func read(_ file: ContentFile) -> [Entry] {
    var info = stat()
    guard fstat(file.fd, &info) == 0, info.st_size > 0 else { return [] }
    var bytes = [UInt8](repeating: 0, count: Int(info.st_size))
    guard pread(file.fd, &bytes, bytes.count, 0) == bytes.count else { return [] }
    var entries: [Entry] = []
    var at = 0
    while at + headSize <= bytes.count {
      let (length, sequence) = bytes.withUnsafeBytes {
        (
          $0.loadUnaligned(fromByteOffset: at, as: Int.self),
          $0.loadUnaligned(fromByteOffset: at + 8, as: UInt64.self)
        )
      }
      guard length > 0, length <= bytes.count - at - headSize, entries.last.map({ $0.sequence + 1 == sequence }) ?? true
      else { break }
      let payload = Array(bytes[(at + headSize)..<(at + headSize + length)])
      guard Array(bytes[(at + 16)..<(at + headSize)]) == sum(sequence, payload) else { break }
      entries.append(Entry(sequence: sequence, payload: payload))
      at += headSize + length
    }
    return entries
  }

  /// Eight bytes that tell a torn commit from a whole one.
  private static func sum(_ sequence: UInt64, _ payload: [UInt8]) -> [UInt8] {
    let digest = Digest()
    withUnsafeBytes(of: sequence) { digest.update($0) }
    payload.withUnsafeBytes { digest.update($0) }
    return Array(digest.finish().prefix(8))
  }

  /// Writes one commit; when that fails there is none.
  mutating func append(_ payload: [UInt8]) -> Errno? {
    var entry: [UInt8] = []
    entry.reserveCapacity(Self.headSize + payload.count)
    withUnsafeBytes(of: UInt64(payload.count)) { entry.append(contentsOf: $0) }
    withUnsafeBytes(of: sequence + 1) { entry.append(contentsOf: $0) }
    entry.append(contentsOf: Self.sum(sequence + 1, payload))
    entry.append(contentsOf: payload)
    do throws(Errno) {
      try writeAll(files[current].fd, entry, at: position)
    } catch {
      return error
    }
    position += Int64(entry.count)
    sequence += 1
    return nil
  }

  /// Takes the other file into use once this one is full.
  mutating func retireIfFull() {
    guard retired == nil, position > Self.turn else { return }
    retired = sequence
    current = 1 - current
    position = 0
  }

  /// The database has all of the retired file, safe against power loss.
  mutating func reuse() { retired = nil }

  /// The files that hold what the database may not have yet.
  var unsettledFiles: [ContentFile] { retired == nil ? [files[current]] : files }
}

// MARK: Commits as bytes

/// Takes the columns of a row, in order.
protocol RowSink: AnyObject {
  func bind(_ index: Int32, _ number: Int64)
  func bind(_ index: Int32, _ bytes: [UInt8]?)
}

extension Statement: RowSink {}

/// A commit as bytes: the rows, the ids of removed items, the facts; each list with its count first.
final class CommitEncoder: RowSink {
  private var bytes: [UInt8] = []

  static func encode(_ changes: CatalogChanges) -> [UInt8] {
    let encoder = CommitEncoder()
    encoder.bytes.reserveCapacity(changes.records.count * 400 + 64)
    encoder.put(changes.records.count)
    for record in changes.records { record.bind(encoder) }
    encoder.put(changes.removed.count)
    for id in changes.removed { encoder.put(Int(bitPattern: UInt(id.rawValue))) }
    encoder.put(changes.facts.count)
    for (name, value) in changes.facts {
      encoder.put(Array(name.utf8))
      encoder.put(Int(value))
    }
    return encoder.bytes
  }

  func bind(_ index: Int32, _ number: Int64) {
    bytes.append(1)
    put(Int(number))
  }

  func bind(_ index: Int32, _ value: [UInt8]?) {
    bytes.append(value == nil ? 0 : 2)
    if let value { put(value) }
  }

  private func put(_ number: Int) { withUnsafeBytes(of: number) { bytes.append(contentsOf: $0) } }
  private func put(_ value: [UInt8]) {
    put(value.count)
    bytes.append(contentsOf: value)
  }
}

/// What `CommitEncoder` wrote. nil where it ends too soon, which a matching sum does not let happen.
struct CommitDecoder {
  private var rest: ArraySlice<UInt8>

  init(_ payload: [UInt8]) { rest = payload[...] }

  mutating func number() -> Int? {
    guard rest.count >= 8 else { return nil }
    let value = rest.withUnsafeBytes { $0.loadUnaligned(as: Int.self) }
    rest = rest.dropFirst(8)
    return value
  }

  mutating func bytes() -> [UInt8]? {
    guard let count = number(), count >= 0, rest.count >= count else { return nil }
    defer { rest = rest.dropFirst(count) }
    return Array(rest.prefix(count))
  }

  /// One column of a row.
  mutating func value() -> SQLValue? {
    switch rest.popFirst() {
    case 0: .null
    case 1: number().map { .integer(Int64($0)) }
    case 2: bytes().map { .blob($0) }
    default: nil
    }
  }
}
