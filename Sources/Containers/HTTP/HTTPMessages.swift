import Glibc

/// One HTTP request. `url` is complete and percent-encoded; it holds no secrets.
struct HTTPRequest {
  enum Body {
    case none
    case bytes([UInt8])
    case source(any UploadSource, Range<Int64>)

    var size: Int64 {
      switch self {
      case .none: 0
      case .bytes(let bytes): Int64(bytes.count)
      case .source(_, let range): range.upperBound - range.lowerBound
      }
    }
  }

  var method: String
  var url: String
  var headers: [(name: String, value: String)] = []
  var body: Body = .none
  var credentials = HTTPCredentials.none
  /// Where the server may point elsewhere: never for signed requests, whose signature names their place.
  var followsRedirects = false
  /// What it is for, in messages: "cannot upload a.txt".
  var what: String

  init(_ method: String, _ url: String, what: String, headers: [(name: String, value: String)] = []) {
    self.method = method
    self.url = url
    self.what = what
    self.headers = headers
  }

  /// With its port, for messages.
  var host: Substring { url.split(separator: "/", omittingEmptySubsequences: false).dropFirst(2).first ?? "" }
  /// The URL without its query.
  var place: Substring { url.prefix { $0 != "?" } }
}

struct HTTPResponse {
  var status = 0
  /// By lower-case name; repeated ones are one, with commas.
  var headers: [String: String] = [:]
  /// What was not given to a sink.
  var body: [UInt8] = []

  var isSuccess: Bool { (200..<300).contains(status) }
  subscript(_ header: String) -> String? { headers[header] }

  /// Seconds that the server wants to be left alone for. The form with a date is taken for a minute.
  var retryAfter: Double? {
    guard let text = headers["retry-after"] else { return nil }
    guard let seconds = Double(text), seconds.isFinite else { return 60 }
    return max(0, seconds)
  }

  func error(_ what: String) -> ContainerError { HTTPStatus.error(status, what, retryAfter: retryAfter) }
}

/// How a request proves who sends it. Never shown in a message.
enum HTTPCredentials: Sendable {
  case none
  case basic(user: String, password: String)
  case digest(user: String, password: String)
  case bearer(String)
}

/// A text for a URL's path: everything but the unreserved characters and `/` is encoded, byte by byte.
func percentEncoded(path bytes: [UInt8]) -> String { percentEncoded(bytes, alsoPlain: 0x2f) }

/// A text for a URL's query or one segment of its path.
func percentEncoded(_ text: String) -> String { percentEncoded(Array(text.utf8), alsoPlain: nil) }

private func percentEncoded(_ bytes: [UInt8], alsoPlain: UInt8?) -> String {
  var text: [UInt8] = []
  text.reserveCapacity(bytes.count)
  for byte in bytes {
    switch byte {
    case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2d, 0x2e, 0x5f, 0x7e: text.append(byte)
    case alsoPlain: text.append(byte)
    default: text += [0x25, upperHex(byte >> 4), upperHex(byte & 15)]
    }
  }
  return String(decoding: text, as: UTF8.self)
}

private func upperHex(_ digit: UInt8) -> UInt8 { digit < 10 ? 0x30 + digit : 0x41 + digit - 10 }

/// nil for what is badly encoded.
func percentDecoded(_ text: some Collection<UInt8>) -> [UInt8]? {
  var decoded: [UInt8] = []
  decoded.reserveCapacity(text.count)
  var rest = text[...]
  while let byte = rest.popFirst() {
    guard byte == 0x25 else {
      decoded.append(byte)
      continue
    }
    guard let high = rest.popFirst().flatMap(hexValue), let low = rest.popFirst().flatMap(hexValue) else { return nil }
    decoded.append(high << 4 | low)
  }
  return decoded
}

/// Two digits a byte; nil for what is none.
func hexDecoded(_ text: some Collection<UInt8>) -> [UInt8]? {
  let digits = text.compactMap(hexValue)
  guard digits.count == text.count, digits.count % 2 == 0 else { return nil }
  return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

private func hexValue(_ byte: UInt8) -> UInt8? {
  switch byte {
  case 0x30...0x39: byte - 0x30
  case 0x41...0x46: byte - 0x41 + 10
  case 0x61...0x66: byte - 0x61 + 10
  default: nil
  }
}

/// `Mon, 30 Nov 2026 18:46:05 GMT` as seconds since 1970; nil for what is none.
func seconds(ofHTTPDate text: String) -> Int? {
  let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
  let words = text.split { " ,:".contains($0) }
  guard words.count >= 7, let month = months.firstIndex(where: { $0 == words[2] }) else { return nil }
  return seconds([words[3], Substring(String(month + 1)), words[1]] + words[4..<7])
}

/// `2026-11-30T18:46:05.123Z` as seconds since 1970; nil for what is none.
func seconds(ofISODate text: String) -> Int? {
  let words = text.utf8.split { !(0x30...0x39).contains($0) }.map { Substring($0) }
  return words.count >= 6 ? seconds(Array(words.prefix(6))) : nil
}

/// Year, month, day, hour, minute, second.
private func seconds(_ words: [Substring]) -> Int? {
  let numbers = words.compactMap { Int32($0) }
  guard numbers.count == 6 else { return nil }
  var parts = tm()
  (parts.tm_year, parts.tm_mon, parts.tm_mday) = (numbers[0] - 1900, numbers[1] - 1, numbers[2])
  (parts.tm_hour, parts.tm_min, parts.tm_sec) = (numbers[3], numbers[4], numbers[5])
  return Int(timegm(&parts))
}
