import Foundation
import StorageErrors
import TestSupport

/// Trees of errors as they come from Foundation, from Swift's types and from other systems.
struct RandomErrors {
  var random: SeededRandom

  init(_ seed: UInt64) { random = SeededRandom(seed) }

  /// A chain whose lower errors hang on any of the keys that errors use, some with branches.
  mutating func tree(depth: Int) -> any Error {
    var info: [String: Any] = [:]
    if depth > 0 {
      switch Int.random(in: 0..<10, using: &random) {
      case 0..<7: info[NSUnderlyingErrorKey] = tree(depth: depth - 1)
      case 7: info["NSMultipleUnderlyingErrorsKey"] = [tree(depth: depth - 1), tree(depth: 0)]
      case 8:
        info[NSUnderlyingErrorKey] = tree(depth: depth - 1)
        info["NSMultipleUnderlyingErrorsKey"] = [tree(depth: 0)]
      default: info[NSUnderlyingErrorKey] = "no error at all"
      }
    }
    return one(info)
  }

  private mutating func one(_ info: [String: Any]) -> any Error {
    let code = codes.randomElement(using: &random) ?? 0
    switch Int.random(in: 0..<8, using: &random) {
    case 0: return CocoaError(CocoaError.Code(rawValue: code), userInfo: info)
    case 1: return POSIXError(POSIXErrorCode(rawValue: Int32(clamping: code)) ?? .EINVAL, userInfo: info)
    case 2: return Errno(rawValue: Int32(clamping: code))
    default: return NSError(domain: domains.randomElement(using: &random) ?? "", code: code, userInfo: info)
    }
  }

  private let domains = [
    NSCocoaErrorDomain, NSPOSIXErrorDomain, "NSFileProviderErrorDomain", "NSURLErrorDomain", "Other", "",
  ]
  /// Mostly harmless ones: otherwise nearly every tree would be true.
  private let codes = [4, 5, 6, 19, 2, 116, 70, 512, 513, 640, 642] + Array(20...60) + [260, 516, -1, 0, -1000, 4353]
}
