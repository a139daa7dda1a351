import Foundation

/// How far errors are followed. A chain that is longer, or a circle, ends there.
let underlyingLimit = 256

/// Whether a write failed because external storage, or a File Provider, failed.
///
/// True for an error, or for any error below it through `NSUnderlyingErrorKey`, that is
/// - in `NSCocoaErrorDomain`: `fileWriteUnknown`, `fileNoSuchFile`, `fileWriteNoPermission`, `fileWriteOutOfSpace`,
///   `fileWriteVolumeReadOnly`;
/// - in `NSPOSIXErrorDomain`: `ENODEV`, `EIO`, `ENOENT`, `ENXIO`, `ESTALE`, by this system's numbers;
/// - anything of `NSFileProviderErrorDomain`.
///
/// Nothing else is: a bare `ENOSPC`, say, is false. `classify(_:platform:)` tells more. 256 errors of a chain are
/// looked at, so one that leads back to itself ends as well. Source: seeds/external-storage-errors.md.
public func isExternalStorageWriteError(_ error: any Error) -> Bool {
  var next: (any Error)? = error
  for _ in 0..<underlyingLimit {
    guard let error = next.map({ ($0 as? SerializedError)?.nsError ?? $0 as NSError }) else { return false }
    if isWriteFailure(domain: error.domain, code: error.code) { return true }
    next = error.userInfo[NSUnderlyingErrorKey] as? any Error
  }
  return false
}

private func isWriteFailure(domain: String, code: Int) -> Bool {
  switch domain {
  case NSCocoaErrorDomain: writeFailures.contains(code)
  case NSPOSIXErrorDomain: Int32(exactly: code).map { deviceFailures.contains(Errno(rawValue: $0)) } ?? false
  case FileProviderCode.domain: true
  default: false
  }
}

private let writeFailures: Set<Int> = Set(
  [
    CocoaCode.fileWriteUnknown, .fileNoSuchFile, .fileWriteNoPermission, .fileWriteOutOfSpace,
    .fileWriteVolumeReadOnly,
  ].map(\.rawValue))
private let deviceFailures: Set<Errno> = [.ENODEV, .EIO, .ENOENT, .ENXIO, .ESTALE]
