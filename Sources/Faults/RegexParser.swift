/// Regular expressions as POSIX's extended ones, over bytes: `.`, `[…]`, `\d \w \s \D \W \S`, `\xNN`, `( )`, `(?: )`,
/// `|`, `* + ? {m,n}`, `^`, `$`. A match may begin and end anywhere. Nothing that looks back.
struct RegexParser {
  private let text: [UInt8]
  private var place = 0
  private var depth = 0

  static func program(_ text: [UInt8]) throws(PathPattern.Refusal) -> ByteProgram {
    guard !text.isEmpty else { throw .init("an empty expression matches everything; leave path= out") }
    guard text.count <= 1024 else { throw .init("an expression has at most 1024 bytes") }
    var parser = RegexParser(text: text)
    var program = try parser.alternatives()
    if parser.place < text.count { throw .init("a ) closes nothing; write \\) for the character") }
    program.append(.match)
    program.isUnanchored = true
    return program
  }

  private init(text: [UInt8]) { self.text = text }

  private var peek: UInt8? { place < text.count ? text[place] : nil }

  private mutating func skip(_ byte: Unicode.Scalar) -> Bool {
    guard peek == UInt8(ascii: byte) else { return false }
    place += 1
    return true
  }

  private mutating func alternatives() throws(PathPattern.Refusal) -> ByteProgram {
    depth += 1
    defer { depth -= 1 }
    guard depth <= 50 else { throw .init("parentheses are nested more than 50 deep") }
    var branches = [try sequence()]
    while skip("|") { branches.append(try sequence()) }
    guard var program = branches.popLast() else { return ByteProgram() }
    for branch in branches.reversed() { program = try Self.either(branch, program) }
    return program
  }

  private mutating func sequence() throws(PathPattern.Refusal) -> ByteProgram {
    var program = ByteProgram()
    while let byte = peek, byte != UInt8(ascii: "|"), byte != UInt8(ascii: ")") {
      program.append(try repeated(try atom()))
      try Self.check(program)
    }
    return program
  }

  private mutating func repeated(_ atom: ByteProgram) throws(PathPattern.Refusal) -> ByteProgram {
    var program = atom
    while let byte = peek {
      switch byte {
      case UInt8(ascii: "*"): program = try Self.times(program, 0, nil)
      case UInt8(ascii: "+"): program = try Self.times(program, 1, nil)
      case UInt8(ascii: "?"): program = try Self.times(program, 0, 1)
      case UInt8(ascii: "{"):
        let (low, high) = try counts()
        program = try Self.times(program, low, high)
        continue
      default: return program
      }
      place += 1
    }
    return program
  }

  /// `{m}`, `{m,}`, `{m,n}`.
  private mutating func counts() throws(PathPattern.Refusal) -> (Int, Int?) {
    let form = PathPattern.Refusal("a { takes {3}, {3,} or {3,7}, up to 255; write \\{ for the character")
    guard let end = text[place...].firstIndex(of: UInt8(ascii: "}")) else { throw form }
    let parts = text[place + 1..<end].split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false)
    place = end + 1
    guard parts.count <= 2, let low = Self.count(parts[0]) else { throw form }
    if parts.count == 1 { return (low, low) }
    if parts[1].isEmpty { return (low, nil) }
    guard let high = Self.count(parts[1]), high >= low else { throw form }
    return (low, high)
  }

  private static func count(_ digits: ArraySlice<UInt8>) -> Int? {
    guard !digits.isEmpty, digits.count <= 3, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
    let value = digits.reduce(0) { $0 * 10 + Int($1 - 0x30) }
    return value <= 255 ? value : nil
  }

  private mutating func atom() throws(PathPattern.Refusal) -> ByteProgram {
    var program = ByteProgram()
    let byte = text[place]
    place += 1
    switch byte {
    case UInt8(ascii: "."): program.append(.any)
    case UInt8(ascii: "^"): program.append(.atStart)
    case UInt8(ascii: "$"): program.append(.atEnd)
    case UInt8(ascii: "("): return try group()
    case UInt8(ascii: "["):
      guard let set = try ByteSet(bracket: text, &place) else {
        throw .init("a [ is never closed; write \\[ for the character")
      }
      program.append(.set(set))
    case UInt8(ascii: "*"), UInt8(ascii: "+"), UInt8(ascii: "?"), UInt8(ascii: "{"):
      let sign = String(UnicodeScalar(byte))
      throw .init("nothing stands before \(sign); write \\\(sign) for the character")
    case UInt8(ascii: "\\"): program.append(try escape())
    case 0xc2...0xf4:
      // A letter beyond ASCII is repeated as a whole.
      program.append(.byte(byte))
      while let next = peek, next & 0xc0 == 0x80 {
        program.append(.byte(next))
        place += 1
      }
    default: program.append(.byte(byte))
    }
    return program
  }

  private mutating func group() throws(PathPattern.Refusal) -> ByteProgram {
    if skip("?"), !skip(":") { throw .init("of the groups with (? only (?: is known") }
    let program = try alternatives()
    guard skip(")") else { throw .init("a ( is never closed; write \\( for the character") }
    return program
  }

  private mutating func escape() throws(PathPattern.Refusal) -> ByteProgram.Step {
    guard let byte = peek else { throw .init("nothing follows the last \\") }
    place += 1
    switch byte {
    case UInt8(ascii: "d"): return .set(Self.digits)
    case UInt8(ascii: "D"): return .set(Self.digits.inverted)
    case UInt8(ascii: "w"): return .set(Self.letters)
    case UInt8(ascii: "W"): return .set(Self.letters.inverted)
    case UInt8(ascii: "s"): return .set(Self.blanks)
    case UInt8(ascii: "S"): return .set(Self.blanks.inverted)
    case UInt8(ascii: "x"):
      guard place + 2 <= text.count, let high = hexDigit(text[place]), let low = hexDigit(text[place + 1]) else {
        throw .init("\\x takes two hexadecimal digits")
      }
      place += 2
      return .byte(high << 4 | low)
    case 0x30...0x39, 0x41...0x5a, 0x61...0x7a:
      throw .init("\\\(String(UnicodeScalar(byte))) is not known; there are \\d \\w \\s \\D \\W \\S \\xNN")
    default: return .byte(byte)
    }
  }

  private static let digits = ByteSet(0x30...0x39)
  private static let letters = ByteSet(Array("_0123456789".utf8) + Array(0x41...0x5a) + Array(0x61...0x7a))
  private static let blanks = ByteSet([0x20, 0x09, 0x0a, 0x0b, 0x0c, 0x0d])

  private static func either(_ a: ByteProgram, _ b: ByteProgram) throws(PathPattern.Refusal) -> ByteProgram {
    var program = ByteProgram()
    program.append(.split(1, a.count + 2))
    program.append(a)
    program.append(.jump(a.count + 2 + b.count))
    program.append(b)
    try check(program)
    return program
  }

  private static func times(_ part: ByteProgram, _ low: Int, _ high: Int?) throws(PathPattern.Refusal) -> ByteProgram {
    // Before it is built: {255}{255} of a long part would take the memory first.
    guard part.count * max(1, high ?? low + 1) <= ByteProgram.limit else { throw tooLong }
    var program = ByteProgram()
    for _ in 0..<low { program.append(part) }
    if let high {
      for _ in low..<high {
        let split = program.append(.split(0, 0))
        program.append(part)
        program.replace(split, with: .split(split + 1, program.count))
      }
    } else {
      let split = program.append(.split(0, 0))
      program.append(part)
      program.append(.jump(split))
      program.replace(split, with: .split(split + 1, program.count))
    }
    try check(program)
    return program
  }

  private static let tooLong = PathPattern.Refusal("the expression is too long once its counts are written out")

  private static func check(_ program: ByteProgram) throws(PathPattern.Refusal) {
    guard program.count < ByteProgram.limit else { throw tooLong }
  }
}
