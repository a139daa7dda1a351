import Faults
import StorageErrors

/// An error as it is written on a command line: `ERROR[,UNDERLYING...]`, where each is an errno's symbol, or
/// DOMAIN:CODE with a number or a symbol of that domain.
enum ErrorText {
  static func parse(_ text: String, _ platform: Platform) throws(Failure) -> SerializedError {
    let parts = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
    var inner: SerializedError?
    for part in parts.reversed() {
      var error = try one(part, platform)
      if let inner { error.underlying = [inner] }
      inner = error
    }
    guard let inner else { throw .usage("classify: an error is missing") }
    return inner
  }

  private static func one(_ text: String, _ platform: Platform) throws(Failure) -> SerializedError {
    guard let colon = text.lastIndex(of: ":") else { return try symbol(text, platform) }
    let name = String(text[..<colon])
    let code = String(text[text.index(after: colon)...])
    guard !name.isEmpty else { throw .usage("classify: a domain is missing before \(text)") }
    let domain = domains.first { $0.name == name || $0.short.lowercased() == name.lowercased() }
    if let number = Int(code) { return SerializedError(domain: domain?.name ?? name, code: number, platform: platform) }
    guard let domain else {
      throw .usage(
        "classify: \(text): \(code) is no number"
          + suggestion(for: name, among: domains.flatMap { [$0.name, $0.short] }))
    }
    if let number = domain.number(code, platform) {
      return SerializedError(domain: domain.name, code: number, platform: platform)
    }
    throw .usage("classify: \(domain.name) has no \(code)" + suggestion(for: code, among: domain.symbols(platform)))
  }

  private static func symbol(_ text: String, _ platform: Platform) throws(Failure) -> SerializedError {
    if text.isEmpty { throw .usage("classify: an error is missing; write EIO, or NSCocoaErrorDomain:512,ESTALE") }
    if Int(text) != nil {
      throw .usage("classify: \(text) says nothing without its domain; write POSIX:\(text), Cocoa:\(text), ...")
    }
    if let number = posix.number(text, platform) {
      return SerializedError(domain: posix.name, code: number, platform: platform)
    }
    if ErrnoSymbol(name: text) != nil { throw .usage("classify: \(platform.rawValue) has no \(text); see --platform") }
    let symbols = posix.symbols(platform)
    let hint = suggestion(for: text.uppercased(), among: symbols)
    throw .usage("classify: \(text) is no errno" + (hint.isEmpty ? "; write EIO, or DOMAIN:CODE" : hint))
  }

  private struct Domain {
    var name: String
    var short: String
    var number: @Sendable (_ symbol: String, Platform) -> Int?
    var symbols: @Sendable (Platform) -> [String]
  }

  private static let posix = Domain(
    name: "NSPOSIXErrorDomain", short: "POSIX",
    number: { name, platform in ErrnoSymbol(name: name).flatMap { $0.number(on: platform) }.map(Int.init) },
    symbols: { platform in ErrnoSymbol.allCases.filter { $0.number(on: platform) != nil }.map(\.rawValue) })

  private static let domains = [
    posix, domain(CocoaCode.self, CocoaCode.domain, "Cocoa"),
    domain(FileProviderCode.self, FileProviderCode.domain, "FileProvider"),
    domain(URLCode.self, URLCode.domain, "URL"),
  ]

  private static func domain<C: CaseIterable & RawRepresentable & Sendable>(
    _ codes: C.Type, _ name: String, _ short: String
  ) -> Domain where C.RawValue == Int {
    Domain(
      name: name, short: short,
      number: { symbol, _ in C.allCases.first { "\($0)" == symbol }?.rawValue },
      symbols: { _ in C.allCases.map { "\($0)" } })
  }
}
