/// A JSON value and where it begins. FoundationEssentials' reader gives no places for what is well formed JSON and yet
/// no command, so this small one does.
struct JSONValue {
  var content: JSONContent
  var place: ControlPlace
}

indirect enum JSONContent {
  case string([UInt8])
  case number(String)
  case bool(Bool)
  case null
  case array([JSONValue])
  case object([JSONMember])
}

struct JSONMember {
  var key: String
  var value: JSONValue
}

/// RFC 8259, with bytes that are no UTF-8 allowed in strings, because paths are bytes.
struct JSONReader {
  private let text: [UInt8]
  private var index = 0
  private var here: ControlPlace
  private var depth = 0
  private static let deepest = 16

  /// The one value that `text` is.
  static func value(_ text: [UInt8], at place: ControlPlace) throws(ControlError) -> JSONValue {
    var reader = JSONReader(text: text, here: place)
    let value = try reader.value()
    reader.skipBlanks()
    guard reader.index == text.count else { throw reader.here.error("something stands behind the command") }
    return value
  }

  private init(text: [UInt8], here: ControlPlace) {
    self.text = text
    self.here = here
  }

  private var peek: UInt8? { index < text.count ? text[index] : nil }

  private mutating func advance() {
    if text[index] == 0x0a {
      here = ControlPlace(line: here.line + 1, column: 1)
    } else {
      here.column += 1
    }
    index += 1
  }

  private mutating func skipBlanks() {
    while let byte = peek, [0x20, 0x09, 0x0a, 0x0d].contains(byte) { advance() }
  }

  private mutating func skip(_ sign: Unicode.Scalar) -> Bool {
    skipBlanks()
    guard peek == UInt8(ascii: sign) else { return false }
    advance()
    return true
  }

  private mutating func need(_ sign: Unicode.Scalar, _ what: String) throws(ControlError) {
    guard skip(sign) else { throw here.error("\(sign) is missing \(what)") }
  }

  private mutating func value() throws(ControlError) -> JSONValue {
    skipBlanks()
    depth += 1
    defer { depth -= 1 }
    let place = here
    guard depth <= Self.deepest else { throw place.error("nested more than \(Self.deepest) deep") }
    guard let byte = peek else { throw place.error("a value is missing") }
    switch byte {
    case UInt8(ascii: "{"): return JSONValue(content: .object(try members()), place: place)
    case UInt8(ascii: "["): return JSONValue(content: .array(try elements()), place: place)
    case UInt8(ascii: "\""): return JSONValue(content: .string(try string()), place: place)
    case UInt8(ascii: "-"), 0x30...0x39: return JSONValue(content: .number(number()), place: place)
    default: return JSONValue(content: try word(), place: place)
    }
  }

  private mutating func members() throws(ControlError) -> [JSONMember] {
    advance()
    var members: [JSONMember] = []
    var keys: Set<String> = []
    if skip("}") { return members }
    repeat {
      skipBlanks()
      let place = here
      guard peek == UInt8(ascii: "\"") else { throw place.error("a key in double quotes is missing") }
      let key = String(decoding: try string(), as: UTF8.self)
      guard keys.insert(key).inserted else { throw place.error("\(key) is given twice") }
      try need(":", "behind the key \(key)")
      members.append(JSONMember(key: key, value: try value()))
    } while skip(",")
    try need("}", "or a comma")
    return members
  }

  private mutating func elements() throws(ControlError) -> [JSONValue] {
    advance()
    var elements: [JSONValue] = []
    if skip("]") { return elements }
    repeat { elements.append(try value()) } while skip(",")
    try need("]", "or a comma")
    return elements
  }

  /// As it stands: the keys' own parsers know what a number is.
  private mutating func number() -> String {
    let start = index
    while let byte = peek, (0x30...0x39).contains(byte) || Array("+-.eE".utf8).contains(byte) { advance() }
    return String(decoding: text[start..<index], as: UTF8.self)
  }

  private mutating func word() throws(ControlError) -> JSONContent {
    let place = here
    let start = index
    while let byte = peek, (0x61...0x7a).contains(byte | 0x20) { advance() }
    switch String(decoding: text[start..<index], as: UTF8.self) {
    case "true": return .bool(true)
    case "false": return .bool(false)
    case "null": return .null
    case "": throw place.error("a value is missing here")
    case let other: throw place.error("\(other) is no value; texts stand in double quotes")
    }
  }

  private mutating func string() throws(ControlError) -> [UInt8] {
    let start = here
    advance()
    var bytes: [UInt8] = []
    while let byte = peek {
      guard byte >= 0x20 else { throw here.error("a control character in a text is written \\n, \\t or \\u00NN") }
      let place = here
      advance()
      switch byte {
      case UInt8(ascii: "\""): return bytes
      case UInt8(ascii: "\\"): try escape(into: &bytes, place)
      default: bytes.append(byte)
      }
    }
    throw start.error("this text is never closed")
  }

  private mutating func escape(into bytes: inout [UInt8], _ place: ControlPlace) throws(ControlError) {
    guard let byte = peek else { throw place.error("nothing follows this backslash") }
    advance()
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): bytes.append(byte)
    case UInt8(ascii: "b"): bytes.append(0x08)
    case UInt8(ascii: "f"): bytes.append(0x0c)
    case UInt8(ascii: "n"): bytes.append(0x0a)
    case UInt8(ascii: "r"): bytes.append(0x0d)
    case UInt8(ascii: "t"): bytes.append(0x09)
    case UInt8(ascii: "u"): bytes += Array(String(Character(try scalar(place))).utf8)
    default: throw place.error("\\\(UnicodeScalar(byte)) is no JSON; a backslash is written twice")
    }
  }

  private mutating func scalar(_ place: ControlPlace) throws(ControlError) -> Unicode.Scalar {
    let first = try unit(place)
    guard first != 0 else { throw place.error("no path or value holds a NUL") }
    if let scalar = Unicode.Scalar(first) { return scalar }
    guard first < 0xdc00, peek == UInt8(ascii: "\\") else { throw place.error("half of a surrogate pair") }
    advance()
    guard peek == UInt8(ascii: "u") else { throw place.error("half of a surrogate pair") }
    advance()
    let second = try unit(place)
    guard (0xdc00...0xdfff).contains(second),
      let scalar = Unicode.Scalar(0x10000 + (first - 0xd800) << 10 + (second - 0xdc00))
    else { throw place.error("half of a surrogate pair") }
    return scalar
  }

  private mutating func unit(_ place: ControlPlace) throws(ControlError) -> UInt32 {
    var unit: UInt32 = 0
    for _ in 0..<4 {
      guard let byte = peek, let digit = hexDigit(byte) else { throw place.error("\\u takes four hexadecimal digits") }
      unit = unit << 4 | UInt32(digit)
      advance()
    }
    return unit
  }
}

extension JSONValue {
  /// The attributes that the same command has as text: those of an object by their keys; a single value is a bare word.
  func attributes() throws(ControlError) -> [ControlAttribute] {
    switch content {
    case .object(let members):
      var attributes: [ControlAttribute] = []
      for member in members { attributes.append(try member.value.attribute(member.key)) }
      return attributes
    case .bool(true): return []
    default: return [try attribute("")]
    }
  }

  private func attribute(_ key: String) throws(ControlError) -> ControlAttribute {
    switch content {
    case .string(let bytes): return ControlAttribute(key, bytes, at: place)
    case .number(let text): return ControlAttribute(key, Array(text.utf8), at: place)
    case .bool(let flag): return ControlAttribute(key, Array((flag ? "1" : "0").utf8), at: place)
    case .array(let values):
      var parts: [[UInt8]] = []
      for value in values { parts.append(try value.attribute(key).value) }
      return ControlAttribute(key, Array(parts.joined(separator: [UInt8(ascii: ",")])), at: place)
    case .null, .object: throw place.error("a text, a number, true or false is wanted here")
    }
  }
}
