import Containers

/// A place in a tree: a folder and a name in it.
struct Place: Hashable, Sendable {
  var folder: ItemID
  var name: ItemName
}

/// What the container has of an item, as far as we know: where, and which version. The version is the base of
/// local edits and the precondition of their upload.
struct RemoteState: Sendable, Equatable {
  var place: Place
  var version: Version
  var identity: RemoteIdentity?
  var size: Int64
}

/// What the last upload set out to do, recorded before it went out: what is found at the container at that place,
/// with those bytes, is that upload's success and nobody else's work.
struct UploadJob: Sendable, Equatable {
  var place: Place
  /// SHA-256 of the bytes; empty where none were sent.
  var digest: [UInt8]
  var size: Int64
}

/// An item as the catalog keeps it.
struct ItemRecord: Sendable {
  struct Flags: OptionSet, Sendable {
    let rawValue: Int64
    /// Gone here; stays until it is gone at the container too.
    static let deleted = Flags(rawValue: 1)
    /// All entries of this folder are known.
    static let listed = Flags(rawValue: 2)
    static let pinned = Flags(rawValue: 4)
    /// All bytes are local.
    static let whole = Flags(rawValue: 8)
    /// The content is to be uploaded. The content file, not `size` and `modified`, is true after a crash.
    static let contentDirty = Flags(rawValue: 16)
    /// Mode, times or xattrs are to be uploaded.
    static let attributesDirty = Flags(rawValue: 32)
    /// The container has a newer version than the one that local edits started from.
    static let remoteNewer = Flags(rawValue: 64)
    /// This is the copy that kept local edits aside from somebody else's version.
    static let conflict = Flags(rawValue: 128)
    /// Programs may be writing the content file without our hearing of it: after a crash it counts as dirty.
    static let lent = Flags(rawValue: 256)
  }

  var id: ItemID
  /// The folder and the name here. The root's folder is 0.
  var place: Place
  var kind: ItemKind
  /// The low 12 bits of st_mode.
  var mode: UInt32
  var uid: UInt32
  var gid: UInt32
  var size: Int64
  var accessed: Timestamp
  var modified: Timestamp
  var changed: Timestamp
  var target: [UInt8]?
  var xattrs: [[UInt8]: [UInt8]] = [:]
  /// The number of the content file; 0: none.
  var content: Int64 = 0
  /// Which ranges are local, while not all are.
  var extents = RangeSet()
  /// Local bytes, for the cache's limit.
  var bytes: Int64 = 0
  /// When the content was last used, seconds since 1970.
  var used: Int64 = 0
  var flags: Flags = []
  /// Since when something is to be uploaded, in ns since 1970.
  var pending: Int64?
  var remote: RemoteState?
  var job: UploadJob?
  /// Why the last upload failed, for people.
  var error: String?

  var isDirty: Bool { flags.contains(.contentDirty) }
}

extension ItemRecord {
  static let columns = """
    id, parent, name, kind, mode, uid, gid, size, accessed, modified, changed, target, xattrs, content, extents,
    bytes, used, flags, pending, r_parent, r_name, r_version, r_identity, r_size, job_parent, job_name,
    job_digest, job_size, error
    """
  static let columnCount = 29
  /// An update, not a replacement: only the indexes of columns that have changed are written.
  static let upsert: String = {
    let names = columns.split { $0 == "," || $0.isWhitespace }.map(String.init)
    let places = Array(repeating: "?", count: names.count).joined(separator: ", ")
    let sets = names.dropFirst().map { "\($0) = excluded.\($0)" }.joined(separator: ", ")
    return "INSERT INTO items (\(columns)) VALUES (\(places)) ON CONFLICT (id) DO UPDATE SET \(sets)"
  }()

  func bind(_ s: some RowSink) {
    s.bind(1, Int64(bitPattern: id.rawValue))
    s.bind(2, Int64(bitPattern: place.folder.rawValue))
    s.bind(3, place.name.bytes)
    s.bind(4, Int64(kind.rawValue))
    s.bind(5, Int64(mode))
    s.bind(6, Int64(uid))
    s.bind(7, Int64(gid))
    s.bind(8, size)
    s.bind(9, accessed.nanoseconds)
    s.bind(10, modified.nanoseconds)
    s.bind(11, changed.nanoseconds)
    s.bind(12, target)
    s.bind(13, xattrs.isEmpty ? nil : XattrCoding.encode(xattrs))
    s.bind(14, content)
    s.bind(15, extents.isEmpty ? nil : extents.encoded)
    s.bind(16, bytes)
    s.bind(17, used)
    s.bind(18, flags.rawValue)
    if let pending { s.bind(19, pending) } else { s.bind(19, nil) }
    if let remote {
      s.bind(20, Int64(bitPattern: remote.place.folder.rawValue))
      s.bind(21, remote.place.name.bytes)
      s.bind(22, remote.version.bytes)
      s.bind(23, remote.identity?.bytes)
      s.bind(24, remote.size)
    } else {
      for index in Int32(20)...24 { s.bind(index, nil) }
    }
    if let job {
      s.bind(25, Int64(bitPattern: job.place.folder.rawValue))
      s.bind(26, job.place.name.bytes)
      s.bind(27, job.digest)
      s.bind(28, job.size)
    } else {
      for index in Int32(25)...28 { s.bind(index, nil) }
    }
    s.bind(29, error.map { Array($0.utf8) })
  }

  /// nil when the row is damaged: an unknown kind, or a name that is none.
  init?(_ s: Statement) {
    guard let kind = ItemKind(rawValue: UInt8(truncatingIfNeeded: s.integer(3))) else { return nil }
    let id = ItemID(UInt64(bitPattern: s.integer(0)))
    let bytes = s.bytes(2)
    let name: ItemName
    if id == .root {
      name = .root
    } else {
      guard let valid = try? ItemName(bytes) else { return nil }
      name = valid
    }
    let place = Place(folder: ItemID(UInt64(bitPattern: s.integer(1))), name: name)
    self.init(
      id: id, place: place, kind: kind, mode: UInt32(truncatingIfNeeded: s.integer(4)),
      uid: UInt32(truncatingIfNeeded: s.integer(5)), gid: UInt32(truncatingIfNeeded: s.integer(6)),
      size: s.integer(7), accessed: Timestamp(nanoseconds: s.integer(8)),
      modified: Timestamp(nanoseconds: s.integer(9)), changed: Timestamp(nanoseconds: s.integer(10)))
    target = s.optionalBytes(11)
    if let encoded = s.optionalBytes(12) {
      guard let decoded = XattrCoding.decode(encoded) else { return nil }
      xattrs = decoded
    }
    content = s.integer(13)
    if let encoded = s.optionalBytes(14) {
      guard let ranges = RangeSet(encoded: encoded) else { return nil }
      extents = ranges
    }
    self.bytes = s.integer(15)
    used = s.integer(16)
    flags = Flags(rawValue: s.integer(17))
    pending = s.isNull(18) ? nil : s.integer(18)
    if !s.isNull(19) {
      guard let remote = Self.remote(s, localName: name) else { return nil }
      self.remote = remote
    }
    if let bytes = s.optionalBytes(25) {
      guard let jobName = try? ItemName(bytes) else { return nil }
      let place = Place(folder: ItemID(UInt64(bitPattern: s.integer(24))), name: jobName)
      job = UploadJob(place: place, digest: s.bytes(26), size: s.integer(27))
    }
    error = s.optionalBytes(28).map { String(decoding: $0, as: UTF8.self) }
    guard size >= 0, id.rawValue != 0 else { return nil }
  }

  private static func remote(_ s: Statement, localName: ItemName) -> RemoteState? {
    let bytes = s.bytes(20)
    // Almost always the same name: share its memory.
    var name = localName
    if bytes != localName.bytes {
      guard let other = bytes.isEmpty ? ItemName.root : try? ItemName(bytes) else { return nil }
      name = other
    }
    return RemoteState(
      place: Place(folder: ItemID(UInt64(bitPattern: s.integer(19))), name: name),
      version: Version(s.bytes(21)), identity: s.optionalBytes(22).map { RemoteIdentity($0) }, size: s.integer(23))
  }
}

/// Extended attributes as one blob: for each the length of its name and value (4 bytes, little-endian), then both.
enum XattrCoding {
  static func encode(_ xattrs: [[UInt8]: [UInt8]]) -> [UInt8] {
    var out: [UInt8] = []
    for (name, value) in xattrs.sorted(by: { $0.key.lexicographicallyPrecedes($1.key) }) {
      for bytes in [name, value] {
        withUnsafeBytes(of: UInt32(bytes.count).littleEndian) { out.append(contentsOf: $0) }
        out.append(contentsOf: bytes)
      }
    }
    return out
  }

  static func decode(_ blob: [UInt8]) -> [[UInt8]: [UInt8]]? {
    var rest = blob[...]
    var result: [[UInt8]: [UInt8]] = [:]
    func take() -> [UInt8]? {
      guard rest.count >= 4 else { return nil }
      let count = rest.prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
      rest = rest.dropFirst(4)
      guard rest.count >= count else { return nil }
      defer { rest = rest.dropFirst(count) }
      return Array(rest.prefix(count))
    }
    while !rest.isEmpty {
      guard let name = take(), let value = take() else { return nil }
      result[name] = value
    }
    return result
  }
}
