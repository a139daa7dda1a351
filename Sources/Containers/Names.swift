import StorageErrors

/// One name in a folder: 1 to 255 bytes, any but `/` and NUL, neither `.` nor `..`. Bytes are kept as given.
///
/// A name from a container is hostile until it has passed this initialiser.
package struct ItemName: Hashable, Sendable, Comparable {
  package let bytes: [UInt8]

  /// Throws ENAMETOOLONG over 255 bytes, EINVAL for what is no name.
  package init(_ bytes: some Sequence<UInt8>) throws(Errno) {
    let bytes = Array(bytes)
    guard bytes.count <= 255 else { throw .ENAMETOOLONG }
    guard !bytes.isEmpty, bytes != [0x2e], bytes != [0x2e, 0x2e], !bytes.contains(0x2f), !bytes.contains(0)
    else { throw .EINVAL }
    self.bytes = bytes
  }

  package init(_ text: String) throws(Errno) { try self.init(text.utf8) }

  /// For the root only, which has no name.
  private init() { bytes = [] }
  package static let root = ItemName()

  package static func < (a: ItemName, b: ItemName) -> Bool { a.bytes.lexicographicallyPrecedes(b.bytes) }
}

extension ItemName: CustomStringConvertible {
  /// For messages: bytes that are no UTF-8 appear as replacement characters, control characters as `\xNN`.
  package var description: String {
    var text = ""
    for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars {
      if scalar.value < 0x20 || scalar.value == 0x7f {
        let hex = String(scalar.value, radix: 16)
        text += "\\x" + (hex.count == 1 ? "0" + hex : hex)
      } else {
        text.unicodeScalars.append(scalar)
      }
    }
    return text
  }
}

/// A place in a container: the names from its root. The empty path is the root.
package struct ContainerPath: Hashable, Sendable {
  package var names: [ItemName]

  package init(_ names: [ItemName] = []) { self.names = names }
  package static let root = ContainerPath()

  package var isRoot: Bool { names.isEmpty }
  package var last: ItemName? { names.last }
  package var parent: ContainerPath { ContainerPath(Array(names.dropLast())) }
  package func appending(_ name: ItemName) -> ContainerPath { ContainerPath(names + [name]) }

  /// The names joined by `/`, without one in front.
  package var bytes: [UInt8] { Array(names.map(\.bytes).joined(separator: [0x2f])) }
}

extension ContainerPath: CustomStringConvertible {
  package var description: String { isRoot ? "/" : names.map(\.description).joined(separator: "/") }
}

/// The container's identity of an item's content: equal versions have equal bytes. Opaque outside its container.
package struct Version: Hashable, Sendable {
  package let bytes: [UInt8]
  package init(_ bytes: [UInt8]) { self.bytes = bytes }
}

/// An identity that survives renames, where a container has one (a file handle). Opaque outside its container.
package struct RemoteIdentity: Hashable, Sendable {
  package let bytes: [UInt8]
  package init(_ bytes: [UInt8]) { self.bytes = bytes }
}

/// Which items docsfs knows. Others (FIFOs, sockets, devices) are not shown and never opened.
package enum ItemKind: UInt8, Sendable {
  case file = 1
  case folder = 2
  case symlink = 3
}

/// Nanoseconds since 1970, UTC, as `struct timespec` counts. Covers the years 1678 to 2262.
package struct Timestamp: Hashable, Sendable, Comparable {
  package let nanoseconds: Int64
  package init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }
  package static func < (a: Timestamp, b: Timestamp) -> Bool { a.nanoseconds < b.nanoseconds }
}
