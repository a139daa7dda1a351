import Glibc

private let errnoNumbers: [String: Int32] = [
  "EPERM": EPERM, "ENOENT": ENOENT, "ESRCH": ESRCH, "EINTR": EINTR, "EIO": EIO, "ENXIO": ENXIO,
  "E2BIG": E2BIG, "ENOEXEC": ENOEXEC, "EBADF": EBADF, "ECHILD": ECHILD, "EAGAIN": EAGAIN,
  "ENOMEM": ENOMEM, "EACCES": EACCES, "EFAULT": EFAULT, "ENOTBLK": ENOTBLK, "EBUSY": EBUSY,
  "EEXIST": EEXIST, "EXDEV": EXDEV, "ENODEV": ENODEV, "ENOTDIR": ENOTDIR, "EISDIR": EISDIR,
  "EINVAL": EINVAL, "ENFILE": ENFILE, "EMFILE": EMFILE, "ENOTTY": ENOTTY, "ETXTBSY": ETXTBSY,
  "EFBIG": EFBIG, "ENOSPC": ENOSPC, "ESPIPE": ESPIPE, "EROFS": EROFS, "EMLINK": EMLINK,
  "EPIPE": EPIPE, "EDOM": EDOM, "ERANGE": ERANGE, "EDEADLK": EDEADLK,
  "ENAMETOOLONG": ENAMETOOLONG, "ENOLCK": ENOLCK, "ENOSYS": ENOSYS, "ENOTEMPTY": ENOTEMPTY,
  "ELOOP": ELOOP, "ENODATA": ENODATA, "ETIME": ETIME, "EPROTO": EPROTO, "EBADMSG": EBADMSG,
  "EOVERFLOW": EOVERFLOW, "EILSEQ": EILSEQ, "EOPNOTSUPP": EOPNOTSUPP, "ENOTCONN": ENOTCONN,
  "ESHUTDOWN": ESHUTDOWN, "ETIMEDOUT": ETIMEDOUT, "ECONNREFUSED": ECONNREFUSED,
  "ECONNRESET": ECONNRESET, "ECONNABORTED": ECONNABORTED, "EHOSTDOWN": EHOSTDOWN,
  "EHOSTUNREACH": EHOSTUNREACH, "ENETDOWN": ENETDOWN, "ENETUNREACH": ENETUNREACH,
  "EALREADY": EALREADY, "EINPROGRESS": EINPROGRESS, "ESTALE": ESTALE, "EUCLEAN": EUCLEAN,
  "EREMOTEIO": EREMOTEIO, "EDQUOT": EDQUOT, "ENOMEDIUM": ENOMEDIUM, "EMEDIUMTYPE": EMEDIUMTYPE,
  "ECANCELED": ECANCELED, "EKEYEXPIRED": EKEYEXPIRED, "EKEYREJECTED": EKEYREJECTED,
  "ENOMSG": ENOMSG, "EIDRM": EIDRM, "ENOSTR": ENOSTR, "ENOSR": ENOSR, "ENONET": ENONET, "ENOLINK": ENOLINK,
  "ECOMM": ECOMM, "EMULTIHOP": EMULTIHOP, "ENOTUNIQ": ENOTUNIQ, "EBADFD": EBADFD, "EREMCHG": EREMCHG,
  "EREMOTE": EREMOTE, "EUSERS": EUSERS, "ENOTSOCK": ENOTSOCK, "EDESTADDRREQ": EDESTADDRREQ, "EMSGSIZE": EMSGSIZE,
  "EPROTOTYPE": EPROTOTYPE, "ENOPROTOOPT": ENOPROTOOPT, "EPROTONOSUPPORT": EPROTONOSUPPORT,
  "EADDRINUSE": EADDRINUSE, "EADDRNOTAVAIL": EADDRNOTAVAIL, "ENETRESET": ENETRESET, "ENOBUFS": ENOBUFS,
  "EISCONN": EISCONN, "ETOOMANYREFS": ETOOMANYREFS, "ENOKEY": ENOKEY, "EKEYREVOKED": EKEYREVOKED,
  "EOWNERDEAD": EOWNERDEAD, "ENOTRECOVERABLE": ENOTRECOVERABLE, "EHWPOISON": EHWPOISON, "ERFKILL": ERFKILL,
]
/// Second names of numbers above.
private let errnoAliases: [String: Int32] = ["EWOULDBLOCK": EWOULDBLOCK, "ENOTSUP": ENOTSUP, "EDEADLOCK": EDEADLOCK]
private let errnoNames = Dictionary(errnoNumbers.map { ($1, $0) }, uniquingKeysWith: min)

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
  /// The symbol, such as `ENOSPC`, or `errno 4711` for a number without one.
  public var name: String { errnoNames[rawValue] ?? "errno \(rawValue)" }

  /// The system's sentence for it, as strerror(3) gives it.
  public var message: String {
    var room = [CChar](repeating: 0, count: 256)
    // The GNU or POSIX form: either way the text, or a truncated one, ends in a NUL.
    guard let text = strerror(rawValue) else { return name }
    strncpy(&room, text, room.count - 1)
    return String(decoding: room.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// The errno of a symbol such as `ENOSPC`; nil if this system has none of that name.
  public init?(name: String) {
    guard let value = errnoNumbers[name] ?? errnoAliases[name] else { return nil }
    self.init(rawValue: value)
  }

  /// Every symbol that `init(name:)` knows.
  package static var names: [String] { Array(errnoNumbers.keys) + Array(errnoAliases.keys) }
}

extension Errno: CustomStringConvertible {
  /// Sentence and symbol, as in `No space left on device (ENOSPC)`.
  public var description: String { "\(message) (\(name))" }
}

// The errnos that docsfs itself answers with, so that a call site reads as the manual page does.
extension Errno {
  // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
  public static let EPERM = Errno(rawValue: Glibc.EPERM), ENOENT = Errno(rawValue: Glibc.ENOENT),
    EINTR = Errno(rawValue: Glibc.EINTR), EIO = Errno(rawValue: Glibc.EIO), ENXIO = Errno(rawValue: Glibc.ENXIO),
    EBADF = Errno(rawValue: Glibc.EBADF), EAGAIN = Errno(rawValue: Glibc.EAGAIN),
    EACCES = Errno(rawValue: Glibc.EACCES), EBUSY = Errno(rawValue: Glibc.EBUSY),
    EEXIST = Errno(rawValue: Glibc.EEXIST), EXDEV = Errno(rawValue: Glibc.EXDEV),
    ENODEV = Errno(rawValue: Glibc.ENODEV), ENOTDIR = Errno(rawValue: Glibc.ENOTDIR),
    EISDIR = Errno(rawValue: Glibc.EISDIR), EINVAL = Errno(rawValue: Glibc.EINVAL),
    EFBIG = Errno(rawValue: Glibc.EFBIG), ENOSPC = Errno(rawValue: Glibc.ENOSPC),
    EROFS = Errno(rawValue: Glibc.EROFS), ERANGE = Errno(rawValue: Glibc.ERANGE),
    EDEADLK = Errno(rawValue: Glibc.EDEADLK), ENAMETOOLONG = Errno(rawValue: Glibc.ENAMETOOLONG),
    ENOTEMPTY = Errno(rawValue: Glibc.ENOTEMPTY), ENODATA = Errno(rawValue: Glibc.ENODATA),
    EOPNOTSUPP = Errno(rawValue: Glibc.EOPNOTSUPP), ETIMEDOUT = Errno(rawValue: Glibc.ETIMEDOUT),
    ESTALE = Errno(rawValue: Glibc.ESTALE), ELOOP = Errno(rawValue: Glibc.ELOOP),
    ENOMEM = Errno(rawValue: Glibc.ENOMEM), E2BIG = Errno(rawValue: Glibc.E2BIG),
    ECANCELED = Errno(rawValue: Glibc.ECANCELED), EDQUOT = Errno(rawValue: Glibc.EDQUOT),
    ENOTCONN = Errno(rawValue: Glibc.ENOTCONN)
}
