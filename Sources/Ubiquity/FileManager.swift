#if os(Linux)
  import CLinux
  import Foundation
  import StorageErrors

  // Apple's calls, over a docsfs mount. Errors are `CocoaError`s with the mount's errno below them. All but
  // `url(forUbiquityContainerIdentifier:)` and `ubiquityIdentityToken` ask the mount, and may wait as long as its option
  // `timeo` says: not for the main thread.
  extension FileManager {
    /// The root of a container: a docsfs mount of this user's.
    ///
    /// `$DOCSFS_MOUNT` where it is set, as `docsfs run` does; it stands for every identifier. Else the mount whose
    /// mountpoint has the identifier as its last name; else, when this user has but one mount, that one. nil when there
    /// is none, when its daemon is dead, and when there are several and none is meant: none is guessed.
    public func url(forUbiquityContainerIdentifier containerIdentifier: String?) -> URL? {
      Mount.chosen(containerIdentifier)?.mountpoint.url(isDirectory: true)
    }

    /// Stands for the container of `url(forUbiquityContainerIdentifier: nil)`: equal as long as it is the same one, nil
    /// without one. It can be archived.
    public var ubiquityIdentityToken: (any NSCoding & NSCopying & NSObjectProtocol)? {
      Mount.chosen(nil).map { NSString(string: String(decoding: $0.source.bytes, as: UTF8.self)) }
    }

    /// Whether something is at `url`, in a docsfs mount.
    public func isUbiquitousItem(at url: URL) -> Bool { (try? Item(url)) != nil }

    /// Moves an item into a container (`flag` true) or out of one (false), whole folders too.
    ///
    /// It is never lost: until it is complete, synced and compared at the destination it stays where it was, and an
    /// error says that it still does, or that it is at both. A placeholder is downloaded on its way out; its stub
    /// (`.name.icloud`) stands for it, and where the destination has the stub's name too it gets its own. Folders missing
    /// on the way to a place in a container are made; outside they are not.
    ///
    /// Throws a `CocoaError`: 516 when something is at the destination, 4 when the item or the destination's folder is
    /// missing, 513, 640 or 642 where the destination refuses, 4353 or 4355 when the bytes cannot be had, else 512;
    /// also (below it EINVAL) when the places are not one in and one outside a container.
    public func setUbiquitous(_ flag: Bool, itemAt url: URL, destinationURL: URL) throws {
      do throws(Problem) {
        try flag ? Self.moveIn(url, destinationURL) : Self.moveOut(url, destinationURL)
      } catch {
        throw error.cocoaError(.writing)
      }
    }

    /// Starts to download an item, and returns. A folder is downloaded with all that is in it. How far it is tell
    /// `URL.promisedItemResourceValues(forKeys:)` and `ubiquitousItemUpdates(below:)`.
    ///
    /// Throws a `CocoaError`: 260 when there is none, 257 when this user may not read it, 4355 when the container is out
    /// of reach, 4353 when this program may not download; 256 (below it EINVAL) outside a container.
    public func startDownloadingUbiquitousItem(at url: URL) throws {
      do throws(Problem) { try Item(url).startDownloading() } catch { throw error.cocoaError(.reading) }
    }

    /// Drops the local bytes of an item that the container has; a folder's with all that is in it.
    ///
    /// Throws a `CocoaError`, with what keeps the bytes below it: `NSFileProviderError.unsyncedEdits` (not uploaded yet),
    /// `nonEvictable` (pinned), or EBUSY alone (open), and for a folder `nonEvictableChildren`.
    public func evictUbiquitousItem(at url: URL) throws {
      do throws(Problem) { try Item(url).evict() } catch { throw error.cocoaError(.writing) }
    }

    private static func moveIn(_ url: URL, _ destinationURL: URL) throws(Problem) {
      let source = try RawPath.of(url)
      if Mount.holding(source) != nil { throw Problem(.EINVAL, source, "it is in a container already") }
      _ = try at(source) { () throws(Errno) in try source.status() }
      let destination = try Self.destination(destinationURL)
      var move = ItemMove(source, to: destination, isFromMount: false)
      try move.run()
    }

    /// In a container, with its folder made.
    private static func destination(_ url: URL) throws(Problem) -> RawPath {
      // Its folder may be missing, so the part that is there decides.
      var existing = url.absoluteURL.deletingLastPathComponent()
      while existing.path != "/", (try? RawPath(existing).status()) == nil { existing.deleteLastPathComponent() }
      let base = try RawPath.of(existing)
      guard Mount.holding(base) != nil else {
        throw Problem(.EINVAL, RawPath(bytes: Array(url.path.utf8)), "the destination is in no docsfs mount")
      }
      let folder = url.absoluteURL.deletingLastPathComponent()
      guard let path = folder.withUnsafeFileSystemRepresentation({ $0.map { RawPath($0) } }) else {
        throw Problem(.EINVAL, base)
      }
      try at(path) { () throws(Errno) in try path.makeFolders() }
      return try RawPath.of(url)
    }

    private static func moveOut(_ url: URL, _ destinationURL: URL) throws(Problem) {
      let shown = try RawPath.of(url)
      let item = try Item(url)
      var destination = try RawPath.of(destinationURL)
      if Mount.holding(destination) != nil {
        throw Problem(.EINVAL, destination, "the destination is in a container; FileManager.moveItem moves within one")
      }
      if item.path != shown, destination.name == shown.name {
        destination = destination.parent.appending(item.path.name)
      }
      var move = ItemMove(item.path, to: destination, isFromMount: true)
      do throws(Problem) { try move.run() } catch {
        var error = error
        error.isOfDownload = error.path.isWithin(item.path) && error.path.state != .materialized
        throw error
      }
    }
  }

  extension Mount {
    /// For an identifier, as `FileManager.url(forUbiquityContainerIdentifier:)` says.
    static func chosen(_ identifier: String?) -> Mount? {
      let all = all
      if let variable = getenv("DOCSFS_MOUNT"), variable.pointee != 0 {
        let path = try? RawPath(variable).resolved()
        return all.first { $0.mountpoint == path && $0.isAlive }
      }
      let mine = all.filter { $0.owner == geteuid() && $0.isAlive }
      let name = identifier.map { Array($0.utf8) }
      return mine.first { $0.mountpoint.name == name } ?? (mine.count == 1 ? mine.first : nil)
    }
  }

  extension Item {
    func startDownloading() throws(Problem) {
      if info.isFolder { return try command("materialize") }
      guard info.isFile else { return }
      // Says at once what is in the way, and starts it unless the mount has materialize=range.
      do { _ = try OpenDescriptor(path, O_RDONLY | O_NONBLOCK) } catch {
        var problem = Problem(error, path)
        problem.isOfDownload = true
        throw problem
      }
      if state == .placeholder || state == .partial { try command("materialize") }
    }

    func evict() throws(Problem) {
      do throws(Problem) { try command("evict") } catch {
        throw Problem(error.errno, path, error.reason, provider: whyNotEvicted(error.errno))
      }
    }

    private func whyNotEvicted(_ errno: Errno) -> NSFileProviderError.Code? {
      if info.isFolder { return errno == .EBUSY || errno == .EPERM ? .nonEvictableChildren : nil }
      if isPinned { return .nonEvictable }
      return errno == .EBUSY && ![.current, .conflict].contains(sync) ? .unsyncedEdits : nil
    }

    private func command(_ verb: String) throws(Problem) {
      do { try mount.command(verb, path, isFolder: info.isFolder) } catch {
        throw Problem(error, path, mount.lastError)
      }
    }
  }
#endif
