/// What an error means for a document on storage that may go away, which error in it says so, and what to do.
public struct Classification: Hashable, Sendable, Codable {
  /// What has happened.
  public enum Category: String, CaseIterable, Hashable, Sendable, Codable {
    /// The device, server or network is out of reach.
    case disconnected
    /// What this refers to has been replaced, or was opened before a reconnect.
    case staleHandle
    /// Reading or writing itself failed.
    case ioFailure
    /// There is no such file or folder.
    case notFound
    /// The name is taken.
    case exists
    /// The folder has something in it.
    case notEmpty
    /// A folder where a file was wanted, a file where a folder was, or links that lead nowhere.
    case wrongKind
    /// This user may not.
    case noPermission
    /// Nobody is signed in, or no longer.
    case notAuthenticated
    /// No room on the disk, in the quota or in the cloud.
    case outOfSpace
    /// The storage takes no writes.
    case readOnly
    /// The program that shows the storage is missing, disabled or not ready.
    case providerUnavailable
    /// The bytes are in the cloud only, and may or can not be brought now.
    case notMaterialized
    /// Somebody else uses it, or something has run short for a moment.
    case busy
    /// Somebody ended it before it was done.
    case cancelled
    /// The name cannot be had there: too long, or with characters that the place does not take.
    case nameNotRepresentable
    /// The other side has changed it in the meantime.
    case conflict
    /// What is stored there is damaged.
    case corrupt
    /// The file is larger than the place takes.
    case tooLarge
    /// The storage has no such operation.
    case unsupported
    /// The call itself was wrong: a fault of the program, not of the storage.
    case invalidCall
    /// No error in it is known.
    case unknown
  }

  /// Whether and when to try the same again.
  public enum Retry: String, CaseIterable, Hashable, Sendable, Codable {
    /// The same call fails again, however often.
    case never
    /// When the storage is within reach again.
    case afterReconnect
    /// When there is room.
    case afterFreeingSpace
    /// At once, but from the beginning: what is open is of no use any more, and what was written through it may be
    /// lost.
    case reopenThenRetry
    /// By itself, each time after a longer pause.
    case withBackoff
    /// When a person has signed in, or switched the provider on.
    case afterUserAction
  }

  /// The error that decided.
  public struct Cause: Hashable, Sendable, Codable {
    /// Its domain, such as `NSPOSIXErrorDomain`.
    public var domain: String
    /// Its code, in the numbers of `platform` if it is an errno.
    public var code: Int
    /// The code's name, such as `ESTALE` or `fileWriteOutOfSpace`; nil for one that is not known.
    public var symbol: String?
    /// Whose numbers `code` is in.
    public var platform: Platform
    /// The keys that led to it from the outermost error; one of several has its place behind, as in
    /// `NSMultipleUnderlyingErrorsKey[1]`.
    public var path: [String]
    /// The file, as the nearest error on the way names it: a path, or a URL that is no file's.
    public var file: String?

    /// How many errors lie around it: 0 for the outermost one.
    public var depth: Int { path.count }
  }

  /// What has happened.
  public var category: Category
  /// Whether and when to try the same again.
  public var retry: Retry
  /// The error that decided.
  public var cause: Cause
}
