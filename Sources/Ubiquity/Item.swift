#if os(Linux)
  import CLinux
  import Foundation
  import StorageErrors

  /// An item in a docsfs mount, found by a URL.
  struct Item {
    /// A stub's URL leads to the document that it stands for.
    var path: RawPath
    var mount: Mount
    var info: stat

    init(path: RawPath, mount: Mount, info: stat) {
      self.path = path
      self.mount = mount
      self.info = info
    }

    /// EINVAL, with a reason, for what lies in no mount.
    init(_ url: URL) throws(Problem) {
      let path = try RawPath.of(url)
      guard let mount = Mount.holding(path) else {
        throw Problem(.EINVAL, path, "it is in no docsfs mount; docsfs status lists those there are")
      }
      self.mount = mount
      self.path = try at(path) { () throws(Errno) in try path.document() }
      let document = self.path
      info = try at(document) { () throws(Errno) in try document.status() }
    }

    var state: ItemState { path.state }
    var sync: ItemSync { path.docsfs("sync").flatMap(ItemSync.init) ?? .current }
    var isPinned: Bool { path.docsfs("pin") == "1" }
    /// Of its bytes, in percent.
    var progress: Double { path.docsfs("progress").flatMap(Double.init) ?? 100 }
    var error: String? { path.docsfs("error") }
  }

  /// `user.docsfs.state`: how much of a file is local.
  enum ItemState: String {
    case placeholder, partial, materializing, materialized
  }

  /// `user.docsfs.sync`: how an item stands to the container.
  enum ItemSync: String {
    case current, dirty, uploading, error, conflict
    case remoteNewer = "remote-newer"
  }

  extension RawPath {
    /// What is in no mount is all there.
    var state: ItemState { docsfs("state").flatMap(ItemState.init) ?? .materialized }

    /// What the mount tells of an item; nil also for a symlink, on which the kernel allows no such attribute.
    func docsfs(_ name: String) -> String? {
      let value = try? attribute("user.docsfs.\(name)")
      return value.flatMap { $0 }.map { String(decoding: $0, as: UTF8.self) }
    }
  }

  extension RawPath {
    static func of(_ url: URL) throws(Problem) -> RawPath {
      do { return try RawPath(url) } catch {
        throw Problem(error, RawPath(bytes: Array(url.path.utf8)), url.isFileURL ? nil : "it is no URL of a file")
      }
    }

    /// In a mount: of a stub (`.name.icloud`), the document's own path; of anything else, itself. A stub has the inode
    /// number of its document, and no file in a mount has more names than that. One that has just been downloaded is no
    /// more.
    func document() throws(Errno) -> RawPath {
      guard let real = realName else { return self }
      let document = parent.appending(real)
      guard let info = try document.statusIfThere() else { return self }
      if let stub = try statusIfThere(), stub.st_ino != info.st_ino || stub.st_dev != info.st_dev { return self }
      return document
    }

    /// The name that a stub of this name would stand for.
    var realName: [UInt8]? {
      let suffix = Array(".icloud".utf8)
      let name = name
      guard name.count > 1 + suffix.count, name.first == 0x2e, name.suffix(suffix.count) == suffix[...] else {
        return nil
      }
      return Array(name.dropFirst().dropLast(suffix.count))
    }
  }
#endif
