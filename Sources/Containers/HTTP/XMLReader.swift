import CExpat

/// What an XML text says, in order. Names are as `namespace|local`, or just the local name without a namespace.
enum XMLEvent: Equatable {
  case start(String)
  /// With the character data that stood directly in the element.
  case end(String, text: String)
}

/// Reads XML that a server sends, piece by piece, by expat: hostile input. A document type is refused, so that no entity
/// is ever expanded; depth and the length of each text are bounded; what is no XML is an error, never an end.
final class XMLReader {
  private static let deepest = 64
  private static let longestText = 64 << 10

  private let parser: XML_Parser
  private let what: String
  fileprivate var events: [XMLEvent] = []
  fileprivate var texts: [[UInt8]] = []
  fileprivate var refusal: String?

  /// `what` begins the messages: "cannot list a".
  init(_ what: String) throws(ContainerError) {
    guard let parser = XML_ParserCreateNS("UTF-8", XML_Char(UInt8(ascii: "|"))) else {
      throw ContainerError(.system(.ENOMEM), "\(what): out of memory")
    }
    self.parser = parser
    self.what = what
    XML_SetUserData(parser, Unmanaged.passUnretained(self).toOpaque())
    XML_SetElementHandler(parser, began, ended)
    XML_SetCharacterDataHandler(parser, said)
    XML_SetStartDoctypeDeclHandler(parser, declared)
  }

  deinit { XML_ParserFree(parser) }

  /// What the next piece completes.
  func feed(_ bytes: UnsafeRawBufferPointer) throws(ContainerError) -> [XMLEvent] {
    try parse(bytes, isLast: false)
  }

  /// After the last piece; throws when the text is not complete.
  func finish() throws(ContainerError) -> [XMLEvent] {
    try parse(UnsafeRawBufferPointer(start: nil, count: 0), isLast: true)
  }

  static func read(_ bytes: [UInt8], _ what: String) throws(ContainerError) -> [XMLEvent] {
    let reader = try XMLReader(what)
    var events: [XMLEvent] = []
    try bytes.give { piece throws(ContainerError) in events = try reader.feed(piece) }
    return events + (try reader.finish())
  }

  private func parse(_ bytes: UnsafeRawBufferPointer, isLast: Bool) throws(ContainerError) -> [XMLEvent] {
    let text = bytes.assumingMemoryBound(to: CChar.self).baseAddress
    let status = XML_Parse(parser, text, Int32(bytes.count), isLast ? 1 : 0)
    if let refusal { throw ContainerError(.inconsistent, "\(what): the server's reply \(refusal)") }
    guard status == XML_STATUS_OK else {
      let reason = XML_ErrorString(XML_GetErrorCode(parser)).map { String(cString: $0) } ?? "unknown"
      throw ContainerError(.inconsistent, "\(what): the server's reply is no complete XML (\(reason))")
    }
    defer { events = [] }
    return events
  }

  fileprivate func refuse(_ why: String) {
    refusal = why
    XML_StopParser(parser, 0)
  }

  fileprivate func begin(_ name: String) {
    guard texts.count < Self.deepest else { return refuse("is nested too deeply") }
    texts.append([])
    events.append(.start(name))
  }

  fileprivate func end(_ name: String) {
    guard let text = texts.popLast() else { return }
    events.append(.end(name, text: String(decoding: text, as: UTF8.self)))
  }

  fileprivate func say(_ bytes: UnsafeBufferPointer<CChar>) {
    guard let last = texts.indices.last else { return }
    guard texts[last].count + bytes.count <= Self.longestText else { return refuse("has too long a text in it") }
    texts[last].append(contentsOf: UnsafeRawBufferPointer(bytes))
  }
}

// MARK: - Callbacks

private func reader(_ context: UnsafeMutableRawPointer?) -> XMLReader? {
  context.map { Unmanaged<XMLReader>.fromOpaque($0).takeUnretainedValue() }
}

private func began(
  _ context: UnsafeMutableRawPointer?, _ name: UnsafePointer<XML_Char>?,
  _ attributes: UnsafeMutablePointer<UnsafePointer<XML_Char>?>?
) {
  if let name { reader(context)?.begin(String(cString: name)) }
}

private func ended(_ context: UnsafeMutableRawPointer?, _ name: UnsafePointer<XML_Char>?) {
  if let name { reader(context)?.end(String(cString: name)) }
}

private func said(_ context: UnsafeMutableRawPointer?, _ text: UnsafePointer<XML_Char>?, _ count: Int32) {
  reader(context)?.say(UnsafeBufferPointer(start: text, count: Int(count)))
}

private func declared(
  _ context: UnsafeMutableRawPointer?, _ name: UnsafePointer<XML_Char>?, _ system: UnsafePointer<XML_Char>?,
  _ publicID: UnsafePointer<XML_Char>?, _ hasSubset: Int32
) {
  reader(context)?.refuse("has a document type, which none of these replies has")
}
