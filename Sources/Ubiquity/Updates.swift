#if os(Linux)
  import Foundation
  import StorageErrors

  /// A change of one item's state: what `NSMetadataQuery` tells of on Apple's systems.
  public struct UbiquitousItemUpdate: Hashable, Sendable {
    /// What happened.
    public enum Kind: String, Hashable, Sendable {
      /// It was there at the first look, or has come since.
      case added
      /// Its bytes came or went, an edit was uploaded, a conflict was found.
      case changed
      /// It is not there any more, or has another name.
      case removed
    }

    /// What happened.
    public var kind: Kind
    /// Where the item is or was; of a stub, the document's place.
    public var url: URL
    /// How it is now; nil for one that was removed.
    public var values: UbiquitousItemValues?
  }

  extension FileManager {
    /// Follows the files below `url`: what is there comes first, each as `added`, then every change.
    ///
    /// The items are looked at again and again, `interval` apart: bytes come and go in the daemon and at other devices,
    /// so that inotify, which hears only of what programs here do, would miss nearly all of it. Looking downloads nothing.
    /// It asks the container to list folders in which nobody has looked yet.
    ///
    /// Nothing is kept for a reader that is slow: who asks late gets what has changed since they last asked. At most
    /// `limit` files are followed. It ends when its task is cancelled. It throws a `CocoaError`: 260 when `url` is not
    /// there, 263 when more than `limit` files are below it, else as the mount answers.
    public func ubiquitousItemUpdates(
      below url: URL, every interval: Duration = .milliseconds(500), limit: Int = 10_000
    ) -> UbiquitousItemUpdates {
      UbiquitousItemUpdates(url: url, interval: interval, limit: limit)
    }
  }

  /// What `FileManager.ubiquitousItemUpdates(below:)` gives.
  public struct UbiquitousItemUpdates: AsyncSequence, Sendable {
    /// One change.
    public typealias Element = UbiquitousItemUpdate

    let url: URL
    let interval: Duration
    let limit: Int

    /// Begins with all that is there.
    public func makeAsyncIterator() -> Iterator { Iterator(url: url, interval: interval, limit: limit) }

    /// Looks when it is asked, and not before.
    public struct Iterator: AsyncIteratorProtocol {
      let url: URL
      let interval: Duration
      let limit: Int
      private var known: [URL: UbiquitousItemValues]?
      private var pending: ArraySlice<UbiquitousItemUpdate> = []

      init(url: URL, interval: Duration, limit: Int) {
        self.url = url
        self.interval = interval
        self.limit = limit
      }

      /// Waits for the next change; nil when the task was cancelled.
      public mutating func next() async throws -> UbiquitousItemUpdate? {
        while true {
          if Task.isCancelled { return nil }
          if let update = pending.popFirst() { return update }
          if known != nil, (try? await Task.sleep(for: interval)) == nil { return nil }
          guard let found = try await look() else { return nil }
          pending = Self.difference(known ?? [:], found)[...]
          known = found
        }
      }

      /// On a thread that may wait: Swift's own must not. nil when the task was cancelled.
      private func look() async throws -> [URL: UbiquitousItemValues]? {
        let survey = Survey(url: url, limit: limit)
        return try await withTaskCancellationHandler {
          try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(with: Result { try survey.run() }) }
          }
        } onCancel: {
          survey.cancel()
        }
      }

      private static func difference(
        _ old: [URL: UbiquitousItemValues], _ new: [URL: UbiquitousItemValues]
      ) -> [UbiquitousItemUpdate] {
        let gone = old.keys.filter { new[$0] == nil }.map { UbiquitousItemUpdate(kind: .removed, url: $0, values: nil) }
        let other = new.filter { old[$0.key] != $0.value }.map { url, values in
          UbiquitousItemUpdate(kind: old[url] == nil ? .added : .changed, url: url, values: values)
        }
        return (gone + other).sorted { $0.url.path < $1.url.path }
      }
    }
  }

  /// One look at all files below a folder.
  private final class Survey: @unchecked Sendable {  // `isCancelled` under `lock`, `found` by the one thread that runs
    private let url: URL
    private let limit: Int
    private let lock = NSLock()
    private var isCancelled = false
    private var found: [URL: UbiquitousItemValues] = [:]

    init(url: URL, limit: Int) {
      self.url = url
      self.limit = limit
    }

    func cancel() { lock.withLock { isCancelled = true } }

    /// nil when it was cancelled.
    func run() throws -> [URL: UbiquitousItemValues]? {
      do throws(Problem) {
        try visit(Item(url))
        return lock.withLock { isCancelled } ? nil : found
      } catch {
        throw error.cocoaError(.reading)
      }
    }

    private func visit(_ item: Item) throws(Problem) {
      if lock.withLock({ isCancelled }) { return }
      guard item.info.isFolder else { return try take(item) }
      for name in try names(item.path) {
        guard let child = try item.child(name) else { continue }
        try visit(child)
      }
    }

    /// None in a folder that has gone since the one above it was read.
    private func names(_ folder: RawPath) throws(Problem) -> [[UInt8]] {
      do { return try folder.names() } catch {
        if error == .ENOENT { return [] }
        throw Problem(error, folder)
      }
    }

    private func take(_ item: Item) throws(Problem) {
      if found.count == limit { throw Problem(.EFBIG, item.path, "more than \(limit) files are below \(url.path)") }
      found[item.path.url(isDirectory: false)] = UbiquitousItemValues(item, UbiquitousItemValues.allKeys)
    }
  }

  extension Item {
    /// nil when it has gone since its folder was read.
    fileprivate func child(_ name: [UInt8]) throws(Problem) -> Item? {
      let shown = path.appending(name)
      return try at(shown) { () throws(Errno) -> Item? in
        let document = try shown.document()
        return try document.statusIfThere().map { Item(path: document, mount: mount, info: $0) }
      }
    }
  }
#endif
