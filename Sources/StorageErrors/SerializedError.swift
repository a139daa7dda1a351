import Foundation

/// An error that can be written down, as JSON say, and read on another system.
///
///     {"domain": "NSPOSIXErrorDomain", "code": 70, "platform": "darwin"}
///
/// `userInfo` and `underlying` may be left out, and `platform` below an error that has one.
public struct SerializedError: Error, Hashable, Sendable {
  /// Such as `NSPOSIXErrorDomain`.
  public var domain: String
  /// In the numbers of `platform`, if it is an errno.
  public var code: Int
  /// Where the error comes from.
  public var platform: Platform
  /// What of the original's `userInfo` is text, or a URL: the file, and the descriptions.
  public var userInfo: [String: String]
  /// The errors below: the one of `NSUnderlyingErrorKey`, or those of `NSMultipleUnderlyingErrorsKey`, or all of both.
  public var underlying: [SerializedError]

  /// Makes one from its parts.
  public init(
    domain: String, code: Int, platform: Platform = .current, userInfo: [String: String] = [:],
    underlying: [SerializedError] = []
  ) {
    self.domain = domain
    self.code = code
    self.platform = platform
    self.userInfo = userInfo
    self.underlying = underlying
  }

  /// Writes down `error`, and what lies below it: 256 errors deep, and 1,024 in all; a circle ends there.
  /// `platform`: whose numbers an errno in it is in.
  public init(_ error: any Error, platform: Platform = .current) {
    var budget = 1024
    self.init(error, platform, depth: 0, &budget)
  }

  private init(_ error: any Error, _ platform: Platform, depth: Int, _ budget: inout Int) {
    let facts = ErrorFacts(error, platform: platform)
    self.init(domain: facts.domain, code: facts.code, platform: facts.platform)
    userInfo = (error as? SerializedError)?.userInfo ?? Self.texts(of: facts)
    budget -= 1
    for (_, error) in facts.underlying where depth < underlyingLimit && budget > 0 {
      underlying.append(SerializedError(error, facts.platform, depth: depth + 1, &budget))
    }
  }

  private static func texts(of facts: ErrorFacts) -> [String: String] {
    var texts: [String: String] = [:]
    if let file = facts.file { texts[file.hasPrefix("/") ? NSFilePathErrorKey : NSURLErrorKey] = file }
    texts[NSLocalizedDescriptionKey] = facts.message
    return texts
  }

  /// Where errors name the file, in the order in which they are asked.
  static let fileKeys = [
    NSFilePathErrorKey, NSURLErrorKey, "NSErrorFailingURLKey", "NSErrorFailingURLStringKey",
  ]
}

extension SerializedError {
  /// The same as an `NSError` of this system: an errno with this system's number, so that code which compares with
  /// `ESTALE` is right wherever the error comes from. An errno that this system has not keeps its number, in a domain
  /// of its own such as `NSPOSIXErrorDomain.darwin`.
  public var nsError: NSError {
    var info: [String: Any] = userInfo
    if let url = userInfo[NSURLErrorKey] { info[NSURLErrorKey] = URL(string: url) }
    let below = underlying.map(\.nsError)
    if below.count == 1 { info[NSUnderlyingErrorKey] = below[0] }
    if below.count > 1 { info[multipleUnderlyingErrorsKey] = below }
    guard domain == NSPOSIXErrorDomain, platform != .current else {
      return NSError(domain: domain, code: code, userInfo: info)
    }
    let here = Int32(exactly: code).flatMap { ErrnoSymbol($0, on: platform) }.flatMap { Errno($0) }
    guard let here else { return NSError(domain: "\(domain).\(platform)", code: code, userInfo: info) }
    return NSError(domain: domain, code: Int(here.rawValue), userInfo: info)
  }
}

extension SerializedError: Codable {
  private enum Key: String, CodingKey { case domain, code, platform, userInfo, underlying }

  /// What stands in the file, before the errors below have got the platform of that above them.
  private struct Form: Decodable {
    var domain: String
    var code: Int
    var platform: Platform?
    var userInfo: [String: Text]?
    var underlying: [Form]?
  }

  /// Whatever else than text a `userInfo` holds is passed over.
  private struct Text: Decodable {
    var value: String?
    init(from decoder: any Decoder) throws { value = try? decoder.singleValueContainer().decode(String.self) }
  }

  /// Throws a `DecodingError` when the outermost error does not say its platform.
  public init(from decoder: any Decoder) throws {
    let form = try Form(from: decoder)
    guard let platform = form.platform else {
      let names = Platform.allCases.map(\.rawValue).joined(separator: " or ")
      throw DecodingError.keyNotFound(
        Key.platform,
        .init(codingPath: decoder.codingPath, debugDescription: "an errno's number means nothing without: \(names)"))
    }
    self.init(form, platform)
  }

  private init(_ form: Form, _ above: Platform) {
    let platform = form.platform ?? above
    self.init(
      domain: form.domain, code: form.code, platform: platform,
      userInfo: (form.userInfo ?? [:]).compactMapValues(\.value),
      underlying: (form.underlying ?? []).map { SerializedError($0, platform) })
  }

  /// Leaves out what is empty.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: Key.self)
    try container.encode(domain, forKey: .domain)
    try container.encode(code, forKey: .code)
    try container.encode(platform, forKey: .platform)
    if !userInfo.isEmpty { try container.encode(userInfo, forKey: .userInfo) }
    if !underlying.isEmpty { try container.encode(underlying, forKey: .underlying) }
  }
}
