/// One word of a control line. `key=value` has a key; a word that begins with a quote has none, whatever it holds.
package struct ControlWord: Equatable, Sendable {
  /// Where it begins, in bytes from 1.
  package var column: Int
  package var key: String?
  package var value: [UInt8]

  package init(column: Int, key: String? = nil, value: [UInt8]) {
    self.column = column
    self.key = key
    self.value = value
  }

  package var text: String { String(decoding: value, as: UTF8.self) }
}

/// Why a control line was refused, and where: `column` counts bytes from 1.
package struct ControlSyntaxError: Error, Equatable, Sendable, CustomStringConvertible {
  package var column: Int
  package var message: String
  package init(column: Int, _ message: String) {
    self.column = column
    self.message = message
  }
  package var description: String { "column \(column): \(message)" }
}

/// The words of one line of the control grammar: split at blanks, `#` at a word's start ends the line,
/// `"…"` with `\"`, `\\`, `\n`, `\t`, `\xNN` inside, `'…'` as it stands. Bytes are kept as given.
package enum ControlLine {
  package static func words(_ line: some Sequence<UInt8>) throws(ControlSyntaxError) -> [ControlWord] {
    var scanner = Scanner(bytes: Array(line))
    var words: [ControlWord] = []
    while let word = try scanner.nextWord() { words.append(word) }
    return words
  }

  /// `bytes` as they stand where that is plain, else quoted.
  package static func word(_ bytes: some Collection<UInt8>) -> String {
    let isPlain = bytes.allSatisfy { byte in
      (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte)
        || plainSigns.contains(byte)
    }
    return isPlain && !bytes.isEmpty ? String(decoding: bytes, as: UTF8.self) : quoted(bytes)
  }
  private static let plainSigns = Array("/.,:;*?[]!+-_~@%^{}()|&".utf8)

  /// `bytes` as one word that `words` reads back unchanged.
  package static func quoted(_ bytes: some Sequence<UInt8>) -> String {
    var text = "\""
    for byte in bytes {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"):
        text += "\\" + String(UnicodeScalar(byte))
      case 0x20..<0x7f:
        text.unicodeScalars.append(UnicodeScalar(byte))
      default:
        let hex = String(byte, radix: 16)
        text += "\\x" + (hex.count == 1 ? "0" + hex : hex)
      }
    }
    return text + "\""
  }
}

private struct Scanner {
  let bytes: [UInt8]
  var place = 0

  var peek: UInt8? { place < bytes.count ? bytes[place] : nil }

  mutating func nextWord() throws(ControlSyntaxError) -> ControlWord? {
    while let byte = peek, isBlank(byte) { place += 1 }
    guard let first = peek, first != UInt8(ascii: "#") else { return nil }
    let column = place + 1
    var word = ControlWord(column: column, value: [])
    let mayHaveKey = !isQuote(first)
    while let byte = peek, !isBlank(byte) {
      if isQuote(byte) {
        try quotedPart(into: &word.value)
      } else if byte == UInt8(ascii: "="), mayHaveKey, word.key == nil, isKey(word.value) {
        word.key = String(decoding: word.value, as: UTF8.self)
        word.value = []
        place += 1
      } else {
        try unquoted(byte, into: &word.value)
      }
    }
    return word
  }

  /// Bytes that are no UTF-8 stand in quotes: outside they are more likely a mistake than a name.
  private mutating func unquoted(_ byte: UInt8, into value: inout [UInt8]) throws(ControlSyntaxError) {
    let length = byte < 0x80 ? 1 : utf8Length(bytes[place...])
    guard length > 0 else {
      throw ControlSyntaxError(column: place + 1, "this byte is no UTF-8; write \\xNN inside double quotes")
    }
    try refuseNUL(byte)
    value += bytes[place..<place + length]
    place += length
  }

  private func refuseNUL(_ byte: UInt8, at index: Int? = nil) throws(ControlSyntaxError) {
    guard byte != 0 else { throw ControlSyntaxError(column: (index ?? place) + 1, "no path or value holds a NUL") }
  }

  private mutating func quotedPart(into value: inout [UInt8]) throws(ControlSyntaxError) {
    let column = place + 1
    let quote = bytes[place]
    place += 1
    while let byte = peek {
      place += 1
      if byte == quote { return }
      try refuseNUL(byte, at: place - 1)
      if byte == UInt8(ascii: "\\"), quote == UInt8(ascii: "\"") {
        value.append(try escape())
      } else {
        value.append(byte)
      }
    }
    throw ControlSyntaxError(column: column, "this quote is never closed")
  }

  private mutating func escape() throws(ControlSyntaxError) -> UInt8 {
    let column = place
    guard let byte = peek else { throw ControlSyntaxError(column: column, "nothing follows this backslash") }
    place += 1
    switch byte {
    case UInt8(ascii: "n"): return 0x0a
    case UInt8(ascii: "t"): return 0x09
    case UInt8(ascii: "x"):
      guard place + 2 <= bytes.count, let high = hexDigit(bytes[place]), let low = hexDigit(bytes[place + 1])
      else {
        throw ControlSyntaxError(column: column, "\\x takes two hexadecimal digits")
      }
      try refuseNUL(high << 4 | low, at: place - 2)
      place += 2
      return high << 4 | low
    default:
      try refuseNUL(byte, at: place - 1)
      return byte
    }
  }
}

private func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0d || byte == 0x0a }
private func isQuote(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") }

/// Keys are lower-case words, so that a path such as `/a=b` is none.
private func isKey(_ bytes: [UInt8]) -> Bool {
  !bytes.isEmpty && bytes.allSatisfy { (0x61...0x7a).contains($0) || $0 == 0x5f || $0 == 0x2d }
}

/// Bytes of the scalar that they begin with, at most 4; 0: no UTF-8.
func utf8Length(_ bytes: ArraySlice<UInt8>) -> Int {
  var decoder = UTF8()
  var iterator = bytes.prefix(4).makeIterator()
  guard case .scalarValue(let scalar) = decoder.decode(&iterator) else { return 0 }
  return UTF8.width(scalar)
}

func hexDigit(_ byte: UInt8) -> UInt8? {
  switch byte {
  case 0x30...0x39: byte - 0x30
  case 0x41...0x46: byte - 0x41 + 10
  case 0x61...0x66: byte - 0x61 + 10
  default: nil
  }
}
