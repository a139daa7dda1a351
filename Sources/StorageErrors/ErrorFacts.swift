import Foundation

/// What one error says about itself, whatever type it has, without what lies below it.
struct ErrorFacts {
  var domain: String
  var code: Int
  /// Whose numbers `code` is in.
  var platform: Platform
  /// A path, or a URL that is no file's.
  var file: String?
  var message: String?
  var underlying: [(key: String, error: any Error)] = []

  /// `platform`: of an `NSError` with a POSIX code, which does not say it.
  init(_ error: any Error, platform: Platform) {
    if let error = error as? SerializedError {
      self.init(serialized: error)
    } else if let number = errnoNumber(of: error) {
      self.init(domain: NSPOSIXErrorDomain, code: Int(number), platform: .current, underlying: reflected(error))
    } else {
      self.init(bridged: error as NSError, platform: platform)
      if Verdict.table(of: domain) == nil { underlying += reflected(error) }
    }
  }

  private init(domain: String, code: Int, platform: Platform, underlying: [(key: String, error: any Error)]) {
    self.domain = domain
    self.code = code
    self.platform = platform
    self.underlying = underlying
  }

  private init(serialized error: SerializedError) {
    domain = error.domain
    code = error.code
    platform = error.platform
    file = SerializedError.fileKeys.lazy.compactMap { error.userInfo[$0] }.first
    message = error.userInfo[NSLocalizedDescriptionKey]
    let isOne = error.underlying.count == 1
    underlying = error.underlying.enumerated().map { index, error in
      (isOne ? NSUnderlyingErrorKey : "\(multipleUnderlyingErrorsKey)[\(index)]", error)
    }
  }

  private init(bridged error: NSError, platform: Platform) {
    let userInfo = error.userInfo
    domain = error.domain
    code = error.code
    self.platform = platform
    file = SerializedError.fileKeys.lazy.compactMap { text(userInfo[$0]) }.first
    message = userInfo[NSLocalizedDescriptionKey] as? String
    if let below = userInfo[NSUnderlyingErrorKey] as? any Error { underlying.append((NSUnderlyingErrorKey, below)) }
    let several = (userInfo[multipleUnderlyingErrorsKey] as? [Any] ?? []).compactMap { $0 as? any Error }
    underlying += several.enumerated().map { ("\(multipleUnderlyingErrorsKey)[\($0)]", $1) }
  }
}

/// `NSMultipleUnderlyingErrorsKey`, for which Foundation on Linux has no constant.
let multipleUnderlyingErrorsKey = "NSMultipleUnderlyingErrorsKey"

private func text(_ value: Any?) -> String? {
  if let url = value as? URL { return url.isFileURL ? url.path : url.absoluteString }
  return value as? String
}

/// The errors that a type of somebody's own holds, with the names of its properties or cases.
private func reflected(_ error: any Error) -> [(key: String, error: any Error)] {
  isNSError(error) ? [] : errors(in: Mirror(reflecting: error))
}

private func errors(in mirror: Mirror) -> [(key: String, error: any Error)] {
  mirror.children.prefix(underlyingLimit).enumerated().flatMap { index, child -> [(key: String, error: any Error)] in
    let label = child.label ?? "[\(index)]"
    if let error = child.value as? any Error { return [(label, error)] }
    let inner = Mirror(reflecting: child.value)
    switch inner.displayStyle {
    case .tuple: return errors(in: inner)
    case .collection: return errors(in: inner).map { (label + $0.key, $0.error) }
    default: return []
    }
  }
}

/// The number in an error type that stands for an errno: our own, that of swift-system, and those of others that
/// are named so or have a property that is.
private func errnoNumber(of error: any Error) -> Int32? {
  if let error = error as? Errno { return error.rawValue }
  if isNSError(error) { return nil }
  let isNamedSo = String(describing: type(of: error)).lowercased().contains("errno")
  if isNamedSo, let raw = error as? any RawRepresentable { return int32(raw.rawValue) }
  let names: Set = isNamedSo ? ["rawValue", "code", "value", "errno"] : ["errno", "errnoCode", "errorNumber"]
  return Mirror(reflecting: error).children.lazy.filter { names.contains($0.label ?? "") }
    .compactMap { int32($0.value) }.first
}

/// `is` would be true of every error, for each can be bridged.
private func isNSError(_ error: any Error) -> Bool { type(of: error) as Any.Type is NSError.Type }

private func int32(_ value: Any) -> Int32? {
  (value as? any BinaryInteger).flatMap { Int32(exactly: $0) }
}
