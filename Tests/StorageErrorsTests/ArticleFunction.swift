import Foundation

/// The article's function, line by line, on the article's own terms: the reference for `isExternalStorageWriteError`.
/// It knows nothing of this package. seeds/external-storage-errors.md
enum ArticleFunction {
  static func isExternalStorageWriteError(_ error: any Error) -> Bool {
    let nsError = error as NSError
    if isFileWriteError(nsError) || isDisconnectedPOSIXError(nsError) || isFileProviderUnavailableError(nsError) {
      return true
    }
    if let underlyingError = nsError.userInfo[NSUnderlyingErrorKey] as? any Error {
      return isExternalStorageWriteError(underlyingError)
    }
    return false
  }

  private static func isFileWriteError(_ error: NSError) -> Bool {
    guard error.domain == NSCocoaErrorDomain else { return false }
    return error.code == CocoaError.fileWriteUnknown.rawValue
      || error.code == CocoaError.fileNoSuchFile.rawValue
      || error.code == CocoaError.fileWriteNoPermission.rawValue
      || error.code == CocoaError.fileWriteOutOfSpace.rawValue
      || error.code == CocoaError.fileWriteVolumeReadOnly.rawValue
  }

  private static func isDisconnectedPOSIXError(_ error: NSError) -> Bool {
    guard error.domain == NSPOSIXErrorDomain else { return false }
    return error.code == Int(ENODEV)
      || error.code == Int(EIO)
      || error.code == Int(ENOENT)
      || error.code == Int(ENXIO)
      || error.code == Int(ESTALE)
  }

  private static func isFileProviderUnavailableError(_ error: NSError) -> Bool {
    error.domain == "NSFileProviderErrorDomain"
  }
}
