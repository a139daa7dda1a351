typealias Category = Classification.Category
typealias Retry = Classification.Retry

/// What one error says by itself.
struct Verdict: Equatable {
  /// How much an error tells: of several the greatest decides.
  enum Weight: Int, Comparable {
    /// Not known here.
    case none
    /// Made to carry another error.
    case wrapper
    /// Used for many causes.
    case general
    /// Names what failed, which another error may have brought about: a file is missing when its disk has gone.
    case named
    /// Names the cause.
    case cause

    static func < (a: Weight, b: Weight) -> Bool { a.rawValue < b.rawValue }
  }

  var category: Category
  var retry: Retry
  var weight: Weight

  init(_ category: Category, _ retry: Retry, _ weight: Weight = .cause) {
    self.category = category
    self.retry = retry
    self.weight = weight
  }

  static let unknown = Verdict(.unknown, .never, .none)
}

// The one place where a code gets its meaning. The compiler sees to it that none is left out.

extension ErrnoSymbol {
  var verdict: Verdict {
    switch self {
    // Storage that has gone away: a drive, a network file system, the daemon of a FUSE mount.
    case .ENXIO, .ENODEV, .ENOMEDIUM, .EMEDIUMTYPE, .EPWROFF, .EUNATCH, .EREMCHG: .init(.disconnected, .afterReconnect)
    case .ENOTCONN, .EHOSTDOWN, .EHOSTUNREACH, .ENETDOWN, .ENETUNREACH, .ENONET, .ENOLINK, .ESHUTDOWN, .ECONNREFUSED:
      .init(.disconnected, .afterReconnect)
    // A server that answers late, or drops the connection; and on Darwin a document that does not come in time.
    case .ETIMEDOUT, .ETIME, .ECONNRESET, .ECONNABORTED, .ENETRESET, .ECOMM: .init(.disconnected, .withBackoff)
    case .EPIPE: .init(.disconnected, .reopenThenRetry, .general)

    case .ESTALE: .init(.staleHandle, .reopenThenRetry)
    // After a failed write the cached bytes may be gone: fsync again would say yes to a loss. So from the beginning.
    case .EIO: .init(.ioFailure, .reopenThenRetry, .general)
    case .EREMOTEIO, .EDEVERR: .init(.ioFailure, .reopenThenRetry)
    case .EHWPOISON: .init(.ioFailure, .never)

    case .ENOENT: .init(.notFound, .never, .named)
    case .EEXIST: .init(.exists, .never, .named)
    case .ENOTEMPTY: .init(.notEmpty, .never, .named)
    case .ENOTDIR, .EISDIR, .ELOOP, .EFTYPE, .EISNAM, .ENOTNAM: .init(.wrongKind, .never, .named)
    case .EACCES: .init(.noPermission, .never, .named)
    // Linux also says EPERM for what a file system cannot do at all.
    case .EPERM: .init(.noPermission, .never, .general)
    case .EKEYEXPIRED, .EKEYREVOKED, .EKEYREJECTED, .ENOKEY, .EAUTH, .ENEEDAUTH:
      .init(.notAuthenticated, .afterUserAction)
    case .ENOSPC, .EDQUOT: .init(.outOfSpace, .afterFreeingSpace)
    case .EROFS: .init(.readOnly, .never)
    // A data-less file that policy keeps from being materialized.
    case .EDEADLK: .init(.notMaterialized, .never)

    case .EBUSY, .ETXTBSY, .EAGAIN, .ENOLCK, .EALREADY, .EINPROGRESS, .EADDRINUSE, .EUSERS, .EPROCLIM:
      .init(.busy, .withBackoff)
    case .ENOMEM, .ENFILE, .EMFILE, .ENOBUFS, .EQFULL, .ENOSR, .EXFULL, .ETOOMANYREFS: .init(.busy, .withBackoff)
    // What was interrupted may simply be called again.
    case .EINTR, .ERESTART: .init(.cancelled, .withBackoff)
    case .ECANCELED: .init(.cancelled, .never)
    case .ENAMETOOLONG, .EILSEQ: .init(.nameNotRepresentable, .never)

    case .EUCLEAN, .EBADMSG, .ELIBBAD, .ELIBSCN, .ENOTRECOVERABLE, .EBADMACHO, .EBADEXEC: .init(.corrupt, .never)
    case .EFBIG, .EOVERFLOW: .init(.tooLarge, .never)
    case .EXDEV, .EOPNOTSUPP, .ENOTSUP, .ENOSYS, .ENOTTY, .EMLINK, .ESPIPE, .ENOTBLK, .EPROTONOSUPPORT,
      .ESOCKTNOSUPPORT, .EPFNOSUPPORT, .EAFNOSUPPORT, .ENOPROTOOPT, .EBADARCH, .ESHLIBVERS, .ENOEXEC, .EDOTDOT:
      .init(.unsupported, .never)
    case .EPROTO, .EREMOTE, .EBADRPC, .ERPCMISMATCH, .EPROGUNAVAIL, .EPROGMISMATCH, .EPROCUNAVAIL:
      .init(.providerUnavailable, .withBackoff)
    case .ENOPKG, .ELIBACC, .ELIBMAX, .ELIBEXEC, .ENOPOLICY: .init(.providerUnavailable, .afterUserAction)
    case .EOWNERDEAD: .init(.staleHandle, .reopenThenRetry)

    case .EBADF, .EBADFD: .init(.invalidCall, .reopenThenRetry, .general)
    case .EINVAL, .EFAULT, .E2BIG, .EDOM, .ERANGE, .ENODATA, .ENOATTR, .ENOTSOCK, .EDESTADDRREQ, .EMSGSIZE,
      .EPROTOTYPE, .EADDRNOTAVAIL, .EISCONN, .ESRCH, .ECHILD:
      .init(.invalidCall, .never, .general)

    // No file system gives these today; their names alone tell nothing that could be trusted.
    case .ENOMSG, .EIDRM, .ECHRNG, .EL2NSYNC, .EL3HLT, .EL3RST, .ELNRNG, .ENOCSI, .EL2HLT, .EBADE, .EBADR, .ENOANO,
      .EBADRQC, .EBADSLT, .EBFONT, .ENOSTR, .EADV, .ESRMNT, .EMULTIHOP, .ENOTUNIQ, .ESTRPIPE, .ENAVAIL, .ERFKILL:
      .init(.unknown, .never, .general)
    }
  }
}

extension CocoaCode {
  var verdict: Verdict {
    switch self {
    case .fileReadUnknown: .init(.ioFailure, .reopenThenRetry, .wrapper)
    case .fileWriteUnknown: .init(.ioFailure, .reopenThenRetry, .wrapper)
    case .fileManagerUnmountUnknown: .init(.busy, .withBackoff, .wrapper)
    case .fileNoSuchFile, .fileReadNoSuchFile: .init(.notFound, .never, .named)
    case .fileReadNoPermission, .fileWriteNoPermission: .init(.noPermission, .never, .named)
    case .fileReadInvalidFileName, .fileWriteInvalidFileName: .init(.nameNotRepresentable, .never, .named)
    case .fileWriteFileExists: .init(.exists, .never, .named)
    case .fileWriteOutOfSpace: .init(.outOfSpace, .afterFreeingSpace, .named)
    case .fileWriteVolumeReadOnly: .init(.readOnly, .never, .named)
    case .fileReadTooLarge: .init(.tooLarge, .never, .named)
    case .fileLocking, .fileManagerUnmountBusy: .init(.busy, .withBackoff, .named)
    case .fileReadCorruptFile: .init(.corrupt, .never, .named)
    case .fileReadInapplicableStringEncoding, .fileReadUnknownStringEncoding, .fileWriteInapplicableStringEncoding,
      .fileReadUnsupportedScheme, .fileWriteUnsupportedScheme:
      .init(.invalidCall, .never, .named)
    case .featureUnsupported: .init(.unsupported, .never, .named)
    case .userCancelled: .init(.cancelled, .never)
    case .ubiquitousFileUnavailable: .init(.notMaterialized, .afterReconnect)
    case .ubiquitousFileNotUploadedDueToQuota: .init(.outOfSpace, .afterFreeingSpace)
    case .ubiquitousFileUbiquityServerNotAvailable: .init(.disconnected, .withBackoff)
    }
  }
}

extension FileProviderCode {
  /// Of a code that is not known; `isExternalStorageWriteError` takes each for a failure of the provider too.
  static let anyVerdict = Verdict(.providerUnavailable, .withBackoff, .general)

  var verdict: Verdict {
    switch self {
    case .notAuthenticated: .init(.notAuthenticated, .afterUserAction)
    case .filenameCollision: .init(.exists, .never)
    case .syncAnchorExpired: .init(.staleHandle, .reopenThenRetry)
    case .insufficientQuota: .init(.outOfSpace, .afterFreeingSpace)
    case .serverUnreachable: .init(.disconnected, .afterReconnect)
    case .noSuchItem: .init(.notFound, .never)
    case .deletionRejected: .init(.noPermission, .never)
    case .directoryNotEmpty: .init(.notEmpty, .never)
    case .providerNotFound, .providerTranslocated, .domainDisabled, .providerDomainNotFound,
      .applicationExtensionNotFound:
      .init(.providerUnavailable, .afterUserAction)
    case .olderExtensionVersionRunning, .newerExtensionVersionFound, .providerDomainTemporarilyUnavailable:
      .init(.providerUnavailable, .withBackoff)
    // Given for whatever keeps an item from being synchronized, with the reason below it.
    case .cannotSynchronize: Self.anyVerdict
    case .nonEvictableChildren: .init(.busy, .withBackoff, .general)
    case .unsyncedEdits: .init(.busy, .withBackoff)
    case .nonEvictable, .excludedFromSync: .init(.unsupported, .never)
    case .versionNoLongerAvailable: .init(.staleHandle, .reopenThenRetry)
    case .localVersionConflictingWithServer: .init(.conflict, .reopenThenRetry)
    }
  }
}

extension URLCode {
  var verdict: Verdict {
    switch self {
    case .unknown: .init(.unknown, .withBackoff, .wrapper)
    case .cancelled, .userCancelledAuthentication: .init(.cancelled, .never)
    case .timedOut, .networkConnectionLost, .cannotLoadFromNetwork: .init(.disconnected, .withBackoff)
    case .cannotFindHost, .cannotConnectToHost, .dnsLookupFailed, .notConnectedToInternet, .internationalRoamingOff,
      .callIsActive, .dataNotAllowed:
      .init(.disconnected, .afterReconnect)
    case .resourceUnavailable, .badServerResponse, .cannotParseResponse, .zeroByteResource, .httpTooManyRedirects:
      .init(.providerUnavailable, .withBackoff)
    case .userAuthenticationRequired, .clientCertificateRejected, .clientCertificateRequired:
      .init(.notAuthenticated, .afterUserAction)
    case .secureConnectionFailed, .serverCertificateHasBadDate, .serverCertificateUntrusted,
      .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid:
      .init(.providerUnavailable, .afterUserAction)
    case .fileDoesNotExist, .redirectToNonExistentLocation: .init(.notFound, .never)
    case .fileIsDirectory: .init(.wrongKind, .never)
    case .noPermissionsToReadFile: .init(.noPermission, .never)
    case .dataLengthExceedsMaximum: .init(.tooLarge, .never)
    case .cannotDecodeRawData, .cannotDecodeContentData: .init(.corrupt, .withBackoff)
    case .cannotCreateFile, .cannotOpenFile, .cannotCloseFile, .cannotWriteToFile, .cannotRemoveFile, .cannotMoveFile:
      .init(.ioFailure, .reopenThenRetry, .wrapper)
    case .badURL, .unsupportedURL, .requestBodyStreamExhausted, .appTransportSecurityRequiresSecureConnection:
      .init(.invalidCall, .never)
    }
  }
}
