import Foundation

/// An errno of the system it runs on, as a value that can be thrown.
///
/// Numbers differ between Darwin and Linux (`ESTALE` is 70 there and 116 here): compare symbols, never numbers
/// that came from elsewhere.
public struct Errno: Error, Hashable, RawRepresentable, Sendable {
  /// The number, as in `<errno.h>` of this system. Positive.
  public let rawValue: Int32

  /// Wraps the number `rawValue`.
  public init(rawValue: Int32) { self.rawValue = rawValue }

  /// The calling thread's errno; read it directly after the call that failed.
  public static var current: Errno { Errno(rawValue: errno) }
}

extension Errno {
  /// nil for a number without a symbol.
  public var symbol: ErrnoSymbol? { ErrnoSymbol(rawValue, on: .current) }

  /// The symbol, such as `ENOSPC`, or `errno 4711` for a number without one.
  public var name: String { symbol?.rawValue ?? "errno \(rawValue)" }

  /// The system's sentence for it, as strerror(3) gives it.
  public var message: String {
    var room = [CChar](repeating: 0, count: 256)
    // The GNU or POSIX form: either way the text, or a truncated one, ends in a NUL.
    guard let text = strerror(rawValue) else { return name }
    strncpy(&room, text, room.count - 1)
    return String(decoding: room.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// nil if this system has none of that symbol.
  public init?(_ symbol: ErrnoSymbol) {
    guard let number = symbol.number(on: .current) else { return nil }
    self.init(rawValue: number)
  }

  /// The errno of a symbol such as `ENOSPC`; nil if this system has none of that name.
  public init?(name: String) {
    guard let symbol = ErrnoSymbol(name: name) else { return nil }
    self.init(symbol)
  }

  /// The symbols that this system has a number for.
  package static var names: [String] {
    ErrnoSymbol.allCases.filter { $0.number(on: .current) != nil }.map(\.rawValue)
  }
}

extension Errno: CustomStringConvertible {
  /// Sentence and symbol, as in `No space left on device (ENOSPC)`.
  public var description: String { "\(message) (\(name))" }
}

/// Whoever looks at it as an `NSError` sees Foundation's POSIX error of the same number.
extension Errno: CustomNSError {
  /// `NSPOSIXErrorDomain`.
  public static var errorDomain: String { NSPOSIXErrorDomain }
  /// The number.
  public var errorCode: Int { Int(rawValue) }
  /// The system's sentence.
  public var errorUserInfo: [String: Any] { [NSLocalizedDescriptionKey: message] }
}

// The errnos that docsfs itself answers with, so that a call site reads as the manual page does. Every system has them.
extension Errno {
  // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
  public static let EPERM = known(.EPERM), ENOENT = known(.ENOENT), EINTR = known(.EINTR), EIO = known(.EIO),
    ENXIO = known(.ENXIO), EBADF = known(.EBADF), EAGAIN = known(.EAGAIN), EACCES = known(.EACCES),
    EBUSY = known(.EBUSY), EEXIST = known(.EEXIST), EXDEV = known(.EXDEV), ENODEV = known(.ENODEV),
    ENOTDIR = known(.ENOTDIR), EISDIR = known(.EISDIR), EINVAL = known(.EINVAL), EFBIG = known(.EFBIG),
    ENOSPC = known(.ENOSPC), EROFS = known(.EROFS), ERANGE = known(.ERANGE), EDEADLK = known(.EDEADLK),
    ENAMETOOLONG = known(.ENAMETOOLONG), ENOTEMPTY = known(.ENOTEMPTY), ENODATA = known(.ENODATA),
    EOPNOTSUPP = known(.EOPNOTSUPP), ETIMEDOUT = known(.ETIMEDOUT), ESTALE = known(.ESTALE), ELOOP = known(.ELOOP),
    ENOMEM = known(.ENOMEM), E2BIG = known(.E2BIG), ECANCELED = known(.ECANCELED), EDQUOT = known(.EDQUOT),
    ENOTCONN = known(.ENOTCONN)

  private static func known(_ symbol: ErrnoSymbol) -> Errno { Errno(symbol) ?? Errno(rawValue: 0) }
}

extension String {
  /// strerror's sentences begin with a capital letter; ours go on after a colon.
  package var lowercasedFirst: String { prefix(1).lowercased() + dropFirst() }
}
