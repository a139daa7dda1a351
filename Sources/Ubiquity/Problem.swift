#if os(Linux)
  import Foundation
  import StorageErrors

  /// A system call that failed, before it has become an error of Cocoa's.
  struct Problem: Error {
    var errno: Errno
    var path: RawPath
    /// For people; what the errno does not say.
    var reason: String?
    /// What lies between Cocoa's error and the errno's.
    var provider: NSFileProviderError.Code?
    /// Whether bytes that were not local could not be had.
    var isOfDownload = false

    init(_ errno: Errno, _ path: RawPath, _ reason: String? = nil, provider: NSFileProviderError.Code? = nil) {
      self.errno = errno
      self.path = path
      self.reason = reason
      self.provider = provider
    }

    /// What the call was for: Cocoa has a code of its own for each.
    enum Purpose { case reading, writing }

    func cocoaError(_ purpose: Purpose) -> CocoaError {
      var info = Self.place(path)
      info[NSLocalizedFailureReasonErrorKey] = reason
      info[NSUnderlyingErrorKey] = underlying
      return CocoaError((isOfDownload ? downloadCode : nil) ?? code(purpose), userInfo: info)
    }

    private var underlying: any Error {
      guard let provider else { return posixError }
      var info = Self.place(path)
      info[NSUnderlyingErrorKey] = posixError
      return NSFileProviderError(provider, userInfo: info)
    }

    private static func place(_ path: RawPath) -> [String: Any] {
      let url = path.url(isDirectory: false)
      return [NSURLErrorKey: url, NSFilePathErrorKey: url.path]
    }

    private var posixError: any Error {
      if let code = POSIXErrorCode(rawValue: errno.rawValue) { return POSIXError(code) }
      return NSError(domain: NSPOSIXErrorDomain, code: Int(errno.rawValue))
    }

    /// As ubiquity chooses for bytes that are not local.
    private var downloadCode: CocoaError.Code? {
      switch errno {
      case .ENXIO, .ENOTCONN: .ubiquitousFileUbiquityServerNotAvailable
      case .EIO, .ETIMEDOUT, .EDEADLK: .ubiquitousFileUnavailable
      default: nil
      }
    }

    /// As Foundation chooses.
    private func code(_ purpose: Purpose) -> CocoaError.Code {
      switch (errno, purpose) {
      case (.ENOENT, .writing): .fileNoSuchFile
      case (.ENOENT, _): .fileReadNoSuchFile
      case (.EACCES, .writing), (.EPERM, .writing): .fileWriteNoPermission
      case (.EACCES, _), (.EPERM, _): .fileReadNoPermission
      case (.ENAMETOOLONG, .writing): .fileWriteInvalidFileName
      case (.ENAMETOOLONG, _): .fileReadInvalidFileName
      case (.EFBIG, .reading): .fileReadTooLarge
      case (.ENOSPC, _), (.EDQUOT, _): .fileWriteOutOfSpace
      case (.EROFS, _): .fileWriteVolumeReadOnly
      case (.EEXIST, _): .fileWriteFileExists
      case (_, .writing): .fileWriteUnknown
      default: .fileReadUnknown
      }
    }
  }

  /// Runs `body`, with `path` as the place of whatever fails in it.
  func at<R>(_ path: RawPath, _ body: () throws(Errno) -> R) throws(Problem) -> R {
    do { return try body() } catch { throw Problem(error, path) }
  }
#endif
