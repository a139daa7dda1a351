import Foundation

/// A name, or several, that some system could not hold. Linux itself takes any bytes.
public struct NameProblem: Codable, Hashable, Sendable {
  /// What is wrong with it.
  public enum Kind: String, Codable, Sendable {
    /// Differ in upper and lower case only: one name to APFS as a Mac has it, NTFS and FAT.
    case caseTwins
    /// The same text composed (NFC) and decomposed (NFD): one name to APFS and HFS+.
    case normalizationTwins
    /// One of `< > : " | ? * \` or a control character: not for NTFS, FAT and SMB; `:` not for Apple's Finder.
    case reservedCharacters
    /// `CON`, `NUL`, `COM1` …, with or without an ending: not for Windows.
    case reservedName
    /// Ends in a dot or a blank: Windows cuts it off.
    case trailingDotOrBlank
    /// More bytes than the destination takes.
    case tooLong
    /// Bytes that are no UTF-8: not for APFS, iCloud and NTFS.
    case notText
  }

  /// What is wrong.
  public var kind: Kind
  /// From the root; twins together, those of the destination among them.
  public var paths: [DocumentPath]

  /// All problems of `source`'s names; twins are looked for in the union of both sides' folders.
  static func find(source: [DocumentPath], destination: [DocumentPath], longest: Int) -> [NameProblem] {
    source.flatMap { path in alone(path.name, longest).map { NameProblem(kind: $0, paths: [path]) } }
      + twins(Set(source), Set(source).union(destination))
  }

  private static func twins(_ source: Set<DocumentPath>, _ all: Set<DocumentPath>) -> [NameProblem] {
    // Strings are equal when they are canonically equivalent, whatever their bytes.
    struct Key: Hashable {
      var folder: DocumentPath
      var name: String
    }
    var groups: [Key: [DocumentPath]] = [:]
    for path in all {
      guard let name = String(validating: path.name, as: UTF8.self) else { continue }
      groups[Key(folder: path.parent, name: name.lowercased()), default: []].append(path)
    }
    return groups.values.filter { $0.count > 1 && $0.contains { source.contains($0) } }
      .map { NameProblem(kind: kind(ofTwins: $0), paths: $0.sorted()) }
      .sorted { $0.paths[0] < $1.paths[0] }
  }

  private static func kind(ofTwins paths: [DocumentPath]) -> Kind {
    let texts = Set(paths.map { String(decoding: $0.name, as: UTF8.self) })
    return texts.count < paths.count ? .normalizationTwins : .caseTwins
  }

  private static func alone(_ name: [UInt8], _ longest: Int) -> [Kind] {
    var kinds: [Kind] = []
    if name.count > longest { kinds.append(.tooLong) }
    guard let text = String(validating: name, as: UTF8.self) else { return kinds + [.notText] }
    if text.unicodeScalars.contains(where: { $0.value < 0x20 || reservedCharacters.contains($0) }) {
      kinds.append(.reservedCharacters)
    }
    if reservedNames.contains(text.prefix { $0 != "." }.uppercased()) { kinds.append(.reservedName) }
    if text.hasSuffix(".") || text.hasSuffix(" ") { kinds.append(.trailingDotOrBlank) }
    return kinds
  }

  private static let reservedCharacters = Set("<>:\"|?*\\".unicodeScalars)
  private static let reservedNames = Set(
    ["CON", "PRN", "AUX", "NUL"] + (1...9).flatMap { ["COM\($0)", "LPT\($0)"] })

  /// One sentence for people.
  public var sentence: String {
    let names = paths.map(\.description).joined(separator: " and ")
    return switch kind {
    case .caseTwins: "\(names) differ in case only: a Mac or Windows takes them for one"
    case .normalizationTwins: "\(names) are one text in two Unicode forms: a Mac takes them for one"
    case .reservedCharacters: "\(names) has a character that Windows or SMB does not allow"
    case .reservedName: "\(names) is a name that Windows keeps for itself"
    case .trailingDotOrBlank: "\(names) ends in a dot or a blank, which Windows cuts off"
    case .tooLong: "\(names) is longer than the destination's names may be"
    case .notText: "\(names) is no UTF-8, which Apple's systems and Windows do not allow"
    }
  }
}
