/// One `key=value` of a command, or a bare word, which has no key; from text or from JSON.
package struct ControlAttribute: Equatable, Sendable {
  package var key: String
  package var value: [UInt8]
  package var place: ControlPlace

  package init(_ key: String, _ value: [UInt8], at place: ControlPlace = ControlPlace()) {
    self.key = key
    self.value = value
    self.place = place
  }

  /// Where it stood makes no difference.
  package static func == (a: Self, b: Self) -> Bool { a.key == b.key && a.value == b.value }

  package var text: String { String(decoding: value, as: UTF8.self) }

  func error(_ message: String) -> ControlError { place.error(message) }
}

/// A verb and what follows it: the form that text and JSON are brought to, so that one parser reads both.
package struct ControlPhrase: Sendable {
  package var verb: String
  package var place: ControlPlace
  package var arguments: ControlArguments

  /// nil: an empty line or a comment.
  package init?(line: some Sequence<UInt8>, number: Int = 1, column: Int = 1) throws(ControlError) {
    let words: [ControlWord]
    do { words = try ControlLine.words(line) } catch {
      throw ControlPlace(line: number, column: error.column + column - 1).error(error.message)
    }
    guard let first = words.first else { return nil }
    func place(_ word: ControlWord) -> ControlPlace {
      ControlPlace(line: number, column: word.column + column - 1)
    }
    self.place = place(first)
    guard first.key == nil else {
      throw place(first).error("a command begins with a verb, not with \(first.key ?? "")=")
    }
    verb = first.text
    arguments = try ControlArguments(
      words.dropFirst().map { ControlAttribute($0.key ?? "", $0.value, at: place($0)) },
      end: ControlPlace(line: number, column: self.place.column + first.value.count))
  }

  init(verb: String, place: ControlPlace, arguments: ControlArguments) {
    self.verb = verb
    self.place = place
    self.arguments = arguments
  }
}

/// What follows a verb, taken piece by piece; what nobody takes is refused by `end`.
package struct ControlArguments: Sendable {
  package private(set) var rest: [ControlAttribute]
  /// Where something that is missing would stand.
  package let endPlace: ControlPlace

  init(_ attributes: [ControlAttribute], end: ControlPlace) throws(ControlError) {
    rest = attributes
    endPlace = end
    var keys: Set<String> = []
    for attribute in attributes where !attribute.key.isEmpty {
      guard keys.insert(attribute.key).inserted else { throw attribute.error("\(attribute.key)= is given twice") }
    }
  }

  package func missing(_ what: String) -> ControlError { (rest.first?.place ?? endPlace).error(what) }

  package mutating func take(_ key: String) -> ControlAttribute? {
    rest.firstIndex { $0.key == key }.map { rest.remove(at: $0) }
  }

  /// The first bare word.
  package mutating func word() -> ControlAttribute? { take("") }

  package mutating func takeAll() -> [ControlAttribute] {
    defer { rest = [] }
    return rest
  }

  /// A bare word or `path=`; nil when there is neither.
  package mutating func optionalPath() throws(ControlError) -> [UInt8]? {
    guard let path = word() ?? take("path") else { return nil }
    return path.value
  }

  package mutating func path() throws(ControlError) -> [UInt8] {
    if let path = try optionalPath() { return path }
    throw missing("a path is missing; quote one that holds =")
  }

  package mutating func flag(_ key: String) throws(ControlError) -> Bool {
    guard let attribute = take(key) else { return false }
    return try attribute.flag()
  }

  /// Nanoseconds.
  package mutating func duration(_ key: String) throws(ControlError) -> UInt64? {
    try take(key)?.duration()
  }

  /// Whatever is left is not wanted: `known` are the keys that would have been.
  package func end(_ known: [String] = []) throws(ControlError) {
    guard let left = rest.first else { return }
    guard left.key.isEmpty else {
      throw left.error("\(left.key)= is not wanted here\(suggestion(for: left.key, among: known))")
    }
    if known.contains(left.text) { throw left.error("\(left.text) wants a value: \(left.text)=…") }
    throw left.error(
      "\(left.text) is not wanted here\(suggestion(for: left.text, among: known)); quote what holds blanks")
  }
}

extension ControlAttribute {
  package func flag() throws(ControlError) -> Bool {
    switch text {
    case "1", "true", "yes", "on": return true
    case "0", "false", "no", "off": return false
    default: throw error("\(key)= is 0 or 1, not \(text)")
    }
  }

  /// Nanoseconds.
  package func duration() throws(ControlError) -> UInt64 {
    guard let nanoseconds = Quantity.nanoseconds(text) else {
      throw error("\(key)=\(text) is no time; write 30s, 500ms, 2m")
    }
    return nanoseconds
  }

  func count(_ range: ClosedRange<Int>) throws(ControlError) -> Int {
    guard let number = decimal(text), range.contains(number) else {
      let bounds = range.upperBound == .max ? "from \(range.lowerBound)" : "\(range.lowerBound) to \(range.upperBound)"
      throw error("\(key)=\(text) is no number \(bounds)")
    }
    return number
  }

  /// Bytes, as 64K or 10MiB.
  func bytes(from least: Int64, to most: Int64 = .max) throws(ControlError) -> Int64 {
    guard let bytes = Quantity.bytes(text) else { throw error("\(key)=\(text) is no size; write 512, 64K, 10MiB") }
    guard bytes >= least else { throw error("\(key)=\(text) is too small; it is \(least) at least") }
    guard bytes <= most else { throw error("\(key)=\(text) is too large; it is \(most) at most") }
    return bytes
  }
}

/// Digits alone, without sign.
func decimal(_ text: some StringProtocol) -> Int? {
  guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
  return Int(text)
}
