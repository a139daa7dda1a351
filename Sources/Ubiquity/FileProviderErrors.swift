#if os(Linux)
  import Foundation
  import StorageErrors

  /// The domain of a File Provider's errors.
  public let NSFileProviderErrorDomain = FileProviderCode.domain

  /// An error of a File Provider, as on Apple's systems. Source: FileProvider/NSFileProviderError.h.
  public struct NSFileProviderError: Error, CustomNSError, Sendable {
    /// What went wrong.
    public typealias Code = FileProviderCode

    private let error: NSError

    /// An error of `code` with what `userInfo` tells of it.
    public init(_ code: Code, userInfo: [String: Any] = [:]) {
      self.code = code
      error = NSError(domain: NSFileProviderErrorDomain, code: code.rawValue, userInfo: userInfo)
    }

    /// What went wrong.
    public let code: Code
    /// What else is known of it.
    public var userInfo: [String: Any] { error.userInfo }

    /// `NSFileProviderErrorDomain`.
    public static var errorDomain: String { NSFileProviderErrorDomain }
    /// The number of `code`.
    public var errorCode: Int { code.rawValue }
    /// As `userInfo`.
    public var errorUserInfo: [String: Any] { userInfo }
  }

  extension FileProviderCode {
    /// Apple's other name of `syncAnchorExpired`.
    public static let pageExpired = syncAnchorExpired

    /// Matches an error of this code, so that `catch NSFileProviderError.serverUnreachable` works.
    public static func ~= (code: Self, error: any Error) -> Bool {
      let error = error as NSError
      return error.domain == NSFileProviderErrorDomain && error.code == code.rawValue
    }
  }

  // As Apple's, so that `NSFileProviderError(.noSuchItem)` and `catch NSFileProviderError.noSuchItem` both compile.
  extension NSFileProviderError {
    // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
    public static let notAuthenticated = Code.notAuthenticated, filenameCollision = Code.filenameCollision,
      syncAnchorExpired = Code.syncAnchorExpired, insufficientQuota = Code.insufficientQuota,
      serverUnreachable = Code.serverUnreachable, noSuchItem = Code.noSuchItem,
      deletionRejected = Code.deletionRejected, directoryNotEmpty = Code.directoryNotEmpty,
      providerNotFound = Code.providerNotFound, providerTranslocated = Code.providerTranslocated,
      olderExtensionVersionRunning = Code.olderExtensionVersionRunning,
      newerExtensionVersionFound = Code.newerExtensionVersionFound, cannotSynchronize = Code.cannotSynchronize,
      nonEvictableChildren = Code.nonEvictableChildren, unsyncedEdits = Code.unsyncedEdits,
      nonEvictable = Code.nonEvictable, versionNoLongerAvailable = Code.versionNoLongerAvailable,
      excludedFromSync = Code.excludedFromSync, domainDisabled = Code.domainDisabled,
      providerDomainTemporarilyUnavailable = Code.providerDomainTemporarilyUnavailable,
      providerDomainNotFound = Code.providerDomainNotFound,
      applicationExtensionNotFound = Code.applicationExtensionNotFound,
      localVersionConflictingWithServer = Code.localVersionConflictingWithServer
  }
#endif
