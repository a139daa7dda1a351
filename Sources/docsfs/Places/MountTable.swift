import StorageErrors

/// A line of /proc/self/mountinfo.
struct MountEntry: Equatable, Sendable {
  /// Major and minor number, `0:45`.
  var device: String
  var mountpoint: FilePath
  /// What of the file system is mounted there; `/` unless it is a bind mount.
  var root: FilePath
  var type: String
  var source: FilePath

  var isDocsfs: Bool { type == "fuse.docsfs" }

  /// A docsfs mount's source is its state directory.
  var stateDirectory: FilePath { source }
}

/// What is mounted, in the order in which it was: what lies on top comes last.
struct MountTable: Sendable {
  var entries: [MountEntry]

  init(entries: [MountEntry]) { self.entries = entries }

  init(parsing text: [UInt8]) { entries = text.split(separator: 0x0a).compactMap(Self.entry) }

  static func current() throws(Failure) -> MountTable {
    let path = FilePath("/proc/self/mountinfo")
    do { return MountTable(parsing: try path.contents()) } catch { throw Failure("cannot read", path, error) }
  }

  /// The mount on top at exactly `path`.
  func mount(at path: FilePath) -> MountEntry? { entries.last { $0.mountpoint == path } }

  /// The mount that `path` lies in: the longest mountpoint, of equals the last.
  func mount(holding path: FilePath) -> MountEntry? {
    entries.filter { path.isWithin($0.mountpoint) }.enumerated()
      .max {
        ($0.element.mountpoint.names.count, $0.offset) < ($1.element.mountpoint.names.count, $1.offset)
      }?
      .element
  }

  var docsfs: [MountEntry] { entries.filter { $0.isDocsfs && $0 == mount(at: $0.mountpoint) } }

  private static func entry(_ line: ArraySlice<UInt8>) -> MountEntry? {
    let fields = line.split(separator: 0x20, omittingEmptySubsequences: true).map(Array.init)
    guard fields.count >= 9, let dash = fields.dropFirst(6).firstIndex(of: [0x2d]), dash + 2 < fields.count
    else { return nil }
    return MountEntry(
      device: String(decoding: fields[2], as: UTF8.self),
      mountpoint: FilePath(unescaped(fields[4])), root: FilePath(unescaped(fields[3])),
      type: String(decoding: fields[dash + 1], as: UTF8.self), source: FilePath(unescaped(fields[dash + 2])))
  }

  /// The kernel writes blank, tab, line end and backslash as `\NNN`, octal.
  static func unescaped(_ field: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    var index = 0
    while index < field.count {
      let digits = field[(index + 1)...].prefix(3)
      if field[index] == 0x5c, digits.count == 3, digits.allSatisfy({ (0x30...0x37).contains($0) }) {
        result.append(UInt8(truncatingIfNeeded: digits.reduce(0) { $0 << 3 | Int($1 - 0x30) }))
        index += 4
      } else {
        result.append(field[index])
        index += 1
      }
    }
    return result
  }
}
