import Foundation

/// A path, or a part of one, as the system knows it: bytes, which need not be text.
///
/// In JSON it is a string; a byte that is no UTF-8 is written as U+0000 and two hexadecimal digits, which no path can
/// hold otherwise.
public struct DocumentPath: Hashable, Sendable {
  /// Without NUL.
  package let bytes: [UInt8]

  package init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes.prefix { $0 != 0 }) }

  /// The bytes of `text` in UTF-8.
  public init(_ text: String) { self.init(text.utf8) }

  /// The path of a file URL.
  public init(_ url: URL) {
    self = url.withUnsafeFileSystemRepresentation { text in
      DocumentPath(text.map { Array(UnsafeRawBufferPointer(start: $0, count: strlen($0))) } ?? [])
    }
  }

  /// As text; nil when the bytes are no UTF-8.
  public var string: String? { String(validating: bytes, as: UTF8.self) }

  package static let root = DocumentPath([])

  package var isRoot: Bool { bytes.isEmpty }
  package var names: [[UInt8]] { bytes.split(separator: 0x2f).map(Array.init) }
  package var name: [UInt8] { names.last ?? [] }
  package var depth: Int { names.count }

  /// Without its last name, and without slashes after that; of an absolute path `/` at least.
  package var parent: DocumentPath {
    guard let end = bytes.lastIndex(where: { $0 != 0x2f }) else { return self }
    guard let slash = bytes[...end].lastIndex(of: 0x2f) else { return .root }
    return DocumentPath(slash == 0 ? bytes[...slash] : bytes[..<slash])
  }

  /// Of a relative path: the folders it lies in, the nearest first, the root left out.
  package var ancestors: [DocumentPath] {
    var folder = parent
    var all: [DocumentPath] = []
    while !folder.isRoot {
      all.append(folder)
      folder = folder.parent
    }
    return all
  }

  package func appending(_ other: DocumentPath) -> DocumentPath { appending(other.bytes) }
  package func appending(_ name: [UInt8]) -> DocumentPath {
    if name.isEmpty { return self }
    if bytes.isEmpty { return DocumentPath(name) }
    return DocumentPath(bytes.last == 0x2f ? bytes + name : bytes + [0x2f] + name)
  }
  package func appending(_ name: String) -> DocumentPath { appending(Array(name.utf8)) }

  /// The same folder, another last name.
  package func renamed(_ name: [UInt8]) -> DocumentPath { parent.appending(name) }

  /// Whether it is `other` or lies below it; both of one kind, both without `.` and `..`.
  package func isWithin(_ other: DocumentPath) -> Bool { names.starts(with: other.names) }

  /// The order in which a folder comes right before what is in it.
  package func precedesInTree(_ other: DocumentPath) -> Bool {
    bytes.lexicographicallyPrecedes(other.bytes) { ($0 == 0x2f ? 0 : $0) < ($1 == 0x2f ? 0 : $1) }
  }

  /// As a C string, valid while `body` runs.
  package func call<R>(_ body: (UnsafePointer<CChar>) -> R) -> R {
    body(bytes.map { CChar(bitPattern: $0) } + [0])
  }
}

extension DocumentPath: Comparable {
  /// By bytes.
  public static func < (a: DocumentPath, b: DocumentPath) -> Bool { a.bytes.lexicographicallyPrecedes(b.bytes) }
}

extension DocumentPath: CustomStringConvertible {
  /// For people: replacement characters for what is no UTF-8, `\xNN` for control characters.
  public var description: String {
    var text = ""
    for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars {
      if scalar.value < 0x20 || scalar.value == 0x7f {
        text += "\\x" + Self.hex(UInt8(scalar.value))
      } else {
        text.unicodeScalars.append(scalar)
      }
    }
    return text.isEmpty ? "." : text
  }

  fileprivate static func hex(_ byte: UInt8) -> String {
    byte < 16 ? "0\(String(byte, radix: 16))" : String(byte, radix: 16)
  }
}

extension DocumentPath: Codable {
  /// From the string that `encode(to:)` makes.
  public init(from decoder: any Decoder) throws {
    let text = try decoder.singleValueContainer().decode(String.self)
    var bytes: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
      if byte == 0, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) {
        bytes.append(value)
        rest = rest.dropFirst(2)
      } else {
        bytes.append(byte)
      }
    }
    self.init(bytes)
  }

  /// One string, whatever the bytes.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(text)
  }

  private var text: String {
    if let text = String(validating: bytes, as: UTF8.self) { return text }
    var text = ""
    var rest = bytes[...]
    while let first = rest.first {
      let length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4
      if let character = String(validating: rest.prefix(length), as: UTF8.self) {
        text += character
        rest = rest.dropFirst(length)
      } else {
        text += "\u{0}" + Self.hex(first)
        rest = rest.dropFirst()
      }
    }
    return text
  }
}
