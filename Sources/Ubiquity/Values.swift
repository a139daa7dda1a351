#if os(Linux)
  import Foundation
  import StorageErrors

  /// How much of an item is local, by Apple's names.
  public struct URLUbiquitousItemDownloadingStatus: RawRepresentable, Hashable, Sendable {
    /// Apple's constant.
    public let rawValue: String
    /// From Apple's constant.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The local copy is the newest.
    public static let current = Self(rawValue: "NSURLUbiquitousItemDownloadingStatusCurrent")
    /// There is a local copy, and a newer version in the container.
    public static let downloaded = Self(rawValue: "NSURLUbiquitousItemDownloadingStatusDownloaded")
    /// Not all of it is local.
    public static let notDownloaded = Self(rawValue: "NSURLUbiquitousItemDownloadingStatusNotDownloaded")
  }

  /// What is known of an item in a container. Names and meanings are those of Apple's `URLResourceValues`, whose
  /// properties of these names are always nil on Linux. A property that was not asked for is nil.
  public struct UbiquitousItemValues: Hashable, Sendable {
    /// Whether it is in a docsfs mount. For what is not, everything else is nil.
    public internal(set) var isUbiquitousItem: Bool?
    /// How much of it is local.
    public internal(set) var ubiquitousItemDownloadingStatus: URLUbiquitousItemDownloadingStatus?
    /// Whether bytes are coming now.
    public internal(set) var ubiquitousItemIsDownloading: Bool?
    /// Whether it is being downloaded, or pinned, so that it will be.
    public internal(set) var ubiquitousItemDownloadRequested: Bool?
    /// Whether the container has every edit.
    public internal(set) var ubiquitousItemIsUploaded: Bool?
    /// Whether an edit is on its way to the container now.
    public internal(set) var ubiquitousItemIsUploading: Bool?
    /// Why the last attempt to upload failed: 512, with the reason in its `userInfo`.
    public internal(set) var ubiquitousItemUploadingError: NSError?
    /// Whether a conflict was found; both versions are kept, under two names.
    public internal(set) var ubiquitousItemHasUnresolvedConflicts: Bool?
    /// The name of the mountpoint.
    public internal(set) var ubiquitousItemContainerDisplayName: String?
    /// The part of its bytes that is local, in percent; given with the downloading status. On Apple's systems only a
    /// metadata item has it.
    public internal(set) var ubiquitousItemPercentDownloaded: Double?
  }

  extension URL {
    /// What is known of an item, without downloading it.
    ///
    /// `keys`: the `URLResourceKey`s of ubiquity; others are passed over. It is Apple's call for items whose bytes may be
    /// elsewhere; there it gives `URLResourceValues`. `URL.resourceValues(forKeys:)` knows nothing of these on Linux.
    ///
    /// Throws a `CocoaError`: 260 when nothing is there, 257 when this user may not look, else 256.
    public func promisedItemResourceValues(forKeys keys: Set<URLResourceKey>) throws -> UbiquitousItemValues {
      do throws(Problem) {
        let path = try RawPath.of(self)
        if Mount.holding(path) != nil { return UbiquitousItemValues(try Item(self), keys) }
        _ = try at(path) { () throws(Errno) in try path.status() }
        return UbiquitousItemValues(isUbiquitousItem: keys.contains(.isUbiquitousItemKey) ? false : nil)
      } catch {
        throw error.cocoaError(.reading)
      }
    }
  }

  extension UbiquitousItemValues {
    static let allKeys: Set<URLResourceKey> = [
      .isUbiquitousItemKey, .ubiquitousItemDownloadingStatusKey, .ubiquitousItemIsDownloadingKey,
      .ubiquitousItemDownloadRequestedKey, .ubiquitousItemIsUploadedKey, .ubiquitousItemIsUploadingKey,
      .ubiquitousItemUploadingErrorKey, .ubiquitousItemHasUnresolvedConflictsKey,
      .ubiquitousItemContainerDisplayNameKey,
    ]

    init(_ item: Item, _ keys: Set<URLResourceKey>) {
      let state = item.state
      let sync = item.sync
      func when<T>(_ key: URLResourceKey, _ value: @autoclosure () -> T?) -> T? { keys.contains(key) ? value() : nil }
      isUbiquitousItem = when(.isUbiquitousItemKey, true)
      ubiquitousItemDownloadingStatus = when(.ubiquitousItemDownloadingStatusKey, Self.status(state, sync))
      ubiquitousItemPercentDownloaded = when(.ubiquitousItemDownloadingStatusKey, item.progress)
      ubiquitousItemIsDownloading = when(.ubiquitousItemIsDownloadingKey, state == .materializing)
      ubiquitousItemDownloadRequested = when(
        .ubiquitousItemDownloadRequestedKey, state == .materializing || item.isPinned)
      ubiquitousItemIsUploaded = when(.ubiquitousItemIsUploadedKey, ![.dirty, .uploading, .error].contains(sync))
      ubiquitousItemIsUploading = when(.ubiquitousItemIsUploadingKey, sync == .uploading)
      ubiquitousItemHasUnresolvedConflicts = when(.ubiquitousItemHasUnresolvedConflictsKey, sync == .conflict)
      ubiquitousItemUploadingError = when(.ubiquitousItemUploadingErrorKey, sync == .error ? item.uploadingError : nil)
      ubiquitousItemContainerDisplayName = when(
        .ubiquitousItemContainerDisplayNameKey, String(decoding: item.mount.mountpoint.name, as: UTF8.self))
    }

    private static func status(_ state: ItemState, _ sync: ItemSync) -> URLUbiquitousItemDownloadingStatus {
      if state != .materialized { return .notDownloaded }
      return sync == .remoteNewer ? .downloaded : .current
    }
  }

  extension Item {
    fileprivate var uploadingError: NSError {
      var info: [String: Any] = [NSURLErrorKey: path.url(isDirectory: info.isFolder)]
      info[NSLocalizedFailureReasonErrorKey] = error
      return NSError(domain: NSCocoaErrorDomain, code: CocoaError.fileWriteUnknown.rawValue, userInfo: info)
    }
  }
#endif
