/// Codes of `NSCocoaErrorDomain` that calls about files give. Numbers: Foundation/FoundationErrors.h.
package enum CocoaCode: Int, CaseIterable, Sendable {
  package static let domain = "NSCocoaErrorDomain"

  case fileNoSuchFile = 4
  case fileLocking = 255
  case fileReadUnknown = 256
  case fileReadNoPermission = 257
  case fileReadInvalidFileName = 258
  case fileReadCorruptFile = 259
  case fileReadNoSuchFile = 260
  case fileReadInapplicableStringEncoding = 261
  case fileReadUnsupportedScheme = 262
  case fileReadTooLarge = 263
  case fileReadUnknownStringEncoding = 264
  case fileWriteUnknown = 512
  case fileWriteNoPermission = 513
  case fileWriteInvalidFileName = 514
  case fileWriteFileExists = 516
  case fileWriteInapplicableStringEncoding = 517
  case fileWriteUnsupportedScheme = 518
  case fileWriteOutOfSpace = 640
  case fileWriteVolumeReadOnly = 642
  case fileManagerUnmountUnknown = 768
  case fileManagerUnmountBusy = 769
  case userCancelled = 3072
  case featureUnsupported = 3328
  case ubiquitousFileUnavailable = 4353
  case ubiquitousFileNotUploadedDueToQuota = 4354
  case ubiquitousFileUbiquityServerNotAvailable = 4355
}

/// Codes of `NSFileProviderErrorDomain`. Numbers: FileProvider/NSFileProviderError.h.
public enum FileProviderCode: Int, CaseIterable, Sendable {
  package static let domain = "NSFileProviderErrorDomain"

  // swift-format-ignore: AllPublicDeclarationsHaveDocumentation
  case notAuthenticated = -1000
  case filenameCollision = -1001
  case syncAnchorExpired = -1002
  case insufficientQuota = -1003
  case serverUnreachable = -1004
  case noSuchItem = -1005
  case deletionRejected = -1006
  case directoryNotEmpty = -1007
  case providerNotFound = -2001
  case providerTranslocated = -2002
  case olderExtensionVersionRunning = -2003
  case newerExtensionVersionFound = -2004
  case cannotSynchronize = -2005
  case nonEvictableChildren = -2006
  case unsyncedEdits = -2007
  case nonEvictable = -2008
  case versionNoLongerAvailable = -2009
  case excludedFromSync = -2010
  case domainDisabled = -2011
  case providerDomainTemporarilyUnavailable = -2012
  case providerDomainNotFound = -2013
  case applicationExtensionNotFound = -2014
  case localVersionConflictingWithServer = -2015
}

/// Codes of `NSURLErrorDomain` that a transfer of a document may end with. Numbers: Foundation/NSURLError.h.
package enum URLCode: Int, CaseIterable, Sendable {
  package static let domain = "NSURLErrorDomain"

  case unknown = -1
  case cancelled = -999
  case badURL = -1000
  case timedOut = -1001
  case unsupportedURL = -1002
  case cannotFindHost = -1003
  case cannotConnectToHost = -1004
  case networkConnectionLost = -1005
  case dnsLookupFailed = -1006
  case httpTooManyRedirects = -1007
  case resourceUnavailable = -1008
  case notConnectedToInternet = -1009
  case redirectToNonExistentLocation = -1010
  case badServerResponse = -1011
  case userCancelledAuthentication = -1012
  case userAuthenticationRequired = -1013
  case zeroByteResource = -1014
  case cannotDecodeRawData = -1015
  case cannotDecodeContentData = -1016
  case cannotParseResponse = -1017
  case internationalRoamingOff = -1018
  case callIsActive = -1019
  case dataNotAllowed = -1020
  case requestBodyStreamExhausted = -1021
  case appTransportSecurityRequiresSecureConnection = -1022
  case fileDoesNotExist = -1100
  case fileIsDirectory = -1101
  case noPermissionsToReadFile = -1102
  case dataLengthExceedsMaximum = -1103
  case secureConnectionFailed = -1200
  case serverCertificateHasBadDate = -1201
  case serverCertificateUntrusted = -1202
  case serverCertificateHasUnknownRoot = -1203
  case serverCertificateNotYetValid = -1204
  case clientCertificateRejected = -1205
  case clientCertificateRequired = -1206
  case cannotLoadFromNetwork = -2000
  case cannotCreateFile = -3000
  case cannotOpenFile = -3001
  case cannotCloseFile = -3002
  case cannotWriteToFile = -3003
  case cannotRemoveFile = -3004
  case cannotMoveFile = -3005
}
