/// What `path=` and `exe=` compare with: a glob or a regular expression over the bytes of a path. It never changes; a
/// class, because a rule is copied for each call that it is compared with.
package final class PathPattern: Equatable, Sendable {
  /// As written: a glob, or `re:` and a regular expression.
  package let source: [UInt8]
  private let subject: Subject
  private let program: ByteProgram?
  /// The whole path or name that a glob without wildcards stands for.
  private let literal: [UInt8]?
  /// What every match begins and ends with: most paths are told apart by these, without the program.
  private let head: [UInt8]
  private let tail: [UInt8]

  private enum Subject { case path, lastName }

  package static func == (a: PathPattern, b: PathPattern) -> Bool { a.source == b.source }

  /// Why a pattern was refused, as a sentence.
  struct Refusal: Error {
    var message: String
    init(_ message: String) { self.message = message }
  }

  init(_ source: [UInt8]) throws(Refusal) {
    self.source = source
    if source.starts(with: Array("re:".utf8)) {
      subject = .path
      (literal, head, tail) = (nil, [], [])
      program = try RegexParser.program(Array(source.dropFirst(3)))
      return
    }
    let glob = try Glob(source)
    subject = glob.isWholePath ? .path : .lastName
    (literal, head, tail) = (glob.literal, glob.head, glob.tail)
    program = literal == nil ? try glob.program() : nil
  }

  /// Whether it is the mount's root, written as such.
  var isRoot: Bool { literal == [0x2f] }

  package func matches(_ path: [UInt8]) -> Bool {
    let text: ArraySlice<UInt8> =
      switch subject {
      case .path: path[...]
      case .lastName: path[((path.lastIndex(of: 0x2f) ?? -1) + 1)...]
      }
    if let literal { return text.elementsEqual(literal) }
    guard text.count >= head.count + tail.count, text.starts(with: head), text.suffix(tail.count).elementsEqual(tail)
    else { return false }
    return program?.matches(text) ?? false
  }
}

/// `*` any bytes but `/`, `**` any bytes, `**/` no or any folders, `?` one byte but `/`, `[a-z]`, `[!a-z]`, `\` takes
/// the next byte as it stands.
private struct Glob {
  enum Token {
    case byte(UInt8)
    case one(ByteSet)
    case star
    case starStar
    case folders
  }
  private(set) var tokens: [Token] = []
  let isWholePath: Bool

  private static let noSlash = ByteSet([0x2f]).inverted
  private static let longest = 1024

  init(_ source: [UInt8]) throws(PathPattern.Refusal) {
    guard !source.isEmpty else { throw .init("an empty pattern matches nothing") }
    guard source.count <= Self.longest else { throw .init("a pattern has at most \(Self.longest) bytes") }
    isWholePath = source.contains(0x2f)
    let text = isWholePath && source.first != 0x2f ? [0x2f] + source : source
    if isWholePath { try Self.refuseImpossible(text) }
    var place = 0
    while place < text.count { tokens.append(try Self.token(text, &place)) }
  }

  /// Names that no path from the root has.
  private static func refuseImpossible(_ text: [UInt8]) throws(PathPattern.Refusal) {
    guard text != [0x2f] else { return }
    let names = text.dropFirst().split(separator: 0x2f, omittingEmptySubsequences: false)
    for (index, name) in names.enumerated() {
      if name.isEmpty {
        throw .init(
          index == names.count - 1
            ? "no path ends with /; leave it out, or write /** for all that is below" : "no path holds //")
      }
      if name.elementsEqual([0x2e]) || name.elementsEqual([0x2e, 0x2e]) {
        throw .init("no path holds . or .. as a name; write it from the mount's root")
      }
    }
  }

  private static func token(_ text: [UInt8], _ place: inout Int) throws(PathPattern.Refusal) -> Token {
    let start = place
    place += 1
    switch text[start] {
    case UInt8(ascii: "*"):
      guard place < text.count, text[place] == UInt8(ascii: "*") else { return .star }
      while place < text.count, text[place] == UInt8(ascii: "*") { place += 1 }
      let beginsName = start == 0 || text[start - 1] == 0x2f
      guard beginsName, place < text.count, text[place] == 0x2f else { return .starStar }
      place += 1
      return .folders
    case UInt8(ascii: "?"): return .one(noSlash)
    case UInt8(ascii: "["):
      guard let set = try ByteSet(bracket: text, &place) else {
        throw .init("a [ is never closed; write \\[ for the character")
      }
      return .one(set.subtracting(0x2f))
    case UInt8(ascii: "\\"):
      guard place < text.count else { throw .init("nothing follows the last \\") }
      place += 1
      return .byte(text[place - 1])
    case let byte: return .byte(byte)
    }
  }

  var literal: [UInt8]? { head.count == tokens.count ? head : nil }
  /// Up to the first wildcard, and behind the last.
  var head: [UInt8] { Self.bytes(tokens) }
  var tail: [UInt8] { Self.bytes(tokens.reversed()).reversed() }

  private static func bytes(_ tokens: some Sequence<Token>) -> [UInt8] {
    var bytes: [UInt8] = []
    for token in tokens {
      guard case .byte(let byte) = token else { break }
      bytes.append(byte)
    }
    return bytes
  }

  func program() throws(PathPattern.Refusal) -> ByteProgram {
    var program = ByteProgram()
    func loop(_ step: ByteProgram.Step) {
      let split = program.append(.split(0, 0))
      program.append(step)
      program.append(.jump(split))
      program.replace(split, with: .split(split + 1, split + 3))
    }
    for token in tokens {
      switch token {
      case .byte(let byte): program.append(.byte(byte))
      case .one(let set): program.append(.set(set))
      case .star: loop(.set(Self.noSlash))
      case .starStar: loop(.any)
      case .folders:
        let split = program.append(.split(0, 0))
        loop(.any)
        program.append(.byte(0x2f))
        program.replace(split, with: .split(split + 1, program.count))
      }
    }
    program.append(.match)
    guard program.count <= ByteProgram.limit else { throw .init("the pattern holds too many wildcards") }
    return program
  }
}

extension ByteSet {
  /// `[…]` whose `[` is before `place`: bytes, ranges, `!` or `^` in front for all others, `\` before a byte as it stands.
  /// nil: it is never closed.
  init?(bracket text: [UInt8], _ place: inout Int) throws(PathPattern.Refusal) {
    var set = ByteSet()
    var isInverted = false
    if place < text.count, [UInt8(ascii: "!"), UInt8(ascii: "^")].contains(text[place]) {
      isInverted = true
      place += 1
    }
    let first = place
    func member() throws(PathPattern.Refusal) -> UInt8? {
      guard place < text.count else { return nil }
      if text[place] == UInt8(ascii: "\\") { place += 1 }
      guard place < text.count else { return nil }
      place += 1
      guard text[place - 1] < 0x80 else { throw .init("[…] takes ASCII only; a letter beyond it is several bytes") }
      return text[place - 1]
    }
    while place < text.count {
      if text[place] == UInt8(ascii: "]"), place > first {
        place += 1
        self = isInverted ? set.inverted : set
        return
      }
      guard let low = try member() else { return nil }
      var high = low
      if place + 1 < text.count, text[place] == UInt8(ascii: "-"), text[place + 1] != UInt8(ascii: "]") {
        place += 1
        guard let end = try member() else { return nil }
        guard end >= low else { throw .init("a range in […] ends before it begins") }
        high = end
      }
      for byte in low...high { set.insert(byte) }
    }
    return nil
  }

  func subtracting(_ byte: UInt8) -> ByteSet {
    ByteSet((0...255).map { UInt8($0) }.filter { $0 != byte && contains($0) })
  }
}
