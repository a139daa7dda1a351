import Foundation
import StorageErrors

/// `.name.icloud`: what iOS, and macOS before 14, showed in the place of a document whose bytes are in the cloud only.
enum Stub: Hashable, Sendable {
  /// Stands for the document of this name, in the same folder.
  case of([UInt8])
  /// Named as a stub, but its content is none, or tells another name.
  case damaged

  private static let prefix = Array(".".utf8)
  private static let suffix = Array(".icloud".utf8)
  /// A stub is a property list of three values; real ones have about 200 bytes.
  private static let limit = 65_536

  /// The name that a stub's name stands for; nil when it is no stub's name.
  static func realName(_ name: [UInt8]) -> [UInt8]? {
    guard name.count > prefix.count + suffix.count, name.starts(with: prefix),
      name.suffix(suffix.count) == suffix[...]
    else { return nil }
    return Array(name.dropFirst(prefix.count).dropLast(suffix.count))
  }

  /// Binary or XML; keys that are not known are passed over. nil when `name` is no stub's name.
  static func parse(_ name: [UInt8], _ content: [UInt8]) -> Stub? {
    guard let real = realName(name) else { return nil }
    guard
      let list = try? PropertyListSerialization.propertyList(from: Data(content), format: nil) as? [String: Any],
      let told = list["NSURLNameKey"] as? String
    else { return .damaged }
    // iOS tells the name composed, whatever form the file's name has.
    let shown = String(decoding: real, as: UTF8.self)
    return told.precomposedStringWithCanonicalMapping == shown.precomposedStringWithCanonicalMapping
      ? .of(real) : .damaged
  }

  static func read(_ path: DocumentPath) throws(Errno) -> Stub? {
    guard realName(path.name) != nil else { return nil }
    let file = try Descriptor(path, O_RDONLY | O_NONBLOCK)
    do { return parse(path.name, try file.contents(limit: limit)) } catch {
      if error == .EFBIG { return .damaged }
      throw error
    }
  }
}
