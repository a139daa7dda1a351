import Foundation
import StorageErrors

/// Lists a tree, several folders at a time: on a mount each costs a round trip.
///
/// Follows no symlink and enters no other file system, so it ends whatever links there are.
struct Walker: Sendable {
  let root: DocumentPath
  /// `which` says whether a folder is looked into.
  var which: @Sendable (DocumentPath) -> Bool = { _ in true }
  var isCancelled: @Sendable () -> Bool = { false }

  /// The root itself is no entry. Throws when the root cannot be listed.
  func list() throws(Errno) -> Listing {
    let device = try POSIX.status(root).device
    let sees = Placeholders(root)
    let first = try read(.root, device, sees)
    let found = Locked(first.listing)
    Workers(first.folders).run(threads: 16, name: "list") { folder in
      if isCancelled() { return [] }
      do throws(Errno) {
        let (listing, folders) = try read(folder, device, sees)
        found.update { $0.merge(listing) }
        return folders
      } catch {
        found.update { $0.refused.append(.init(path: folder, refusal: .unreadable(error))) }
        return []
      }
    }
    return found.update { listing in
      listing.sort()
      return listing
    }
  }

  private func read(
    _ folder: DocumentPath, _ device: UInt64, _ sees: Placeholders
  ) throws(Errno) -> (listing: Listing, folders: [DocumentPath]) {
    var listing = Listing()
    var folders: [DocumentPath] = []
    let names = try POSIX.names(root.appending(folder))
    let present = Set(names)
    for name in names {
      let path = folder.appending(name)
      if TemporaryName.isOne(name) {
        listing.temporaries.append(path)
        continue
      }
      do throws(Errno) {
        guard let entry = try entry(path, device, present, sees, &listing) else { continue }
        listing.entries.append(entry)
        if entry.status.kind == .folder, which(path) { folders.append(path) }
      } catch {
        // Gone since the folder was read: it has been removed or renamed, and is nobody's loss.
        if error != .ENOENT { listing.refused.append(.init(path: path, refusal: .unreadable(error))) }
      }
    }
    return (listing, folders)
  }

  /// nil for what is not migrated; `listing` says why.
  private func entry(
    _ path: DocumentPath, _ device: UInt64, _ present: Set<[UInt8]>, _ sees: Placeholders, _ listing: inout Listing
  ) throws(Errno) -> Listing.Entry? {
    let absolute = root.appending(path)
    let status = try POSIX.status(absolute)
    func refuse(_ refusal: Refusal) -> Listing.Entry? {
      listing.refused.append(.init(path: path, refusal: refusal))
      return nil
    }
    switch status.kind {
    case .special: return refuse(.special)
    case .folder where status.device != device: return refuse(.otherFileSystem)
    case .folder, .symlink: return Listing.Entry(path: path, status: status)
    case .file: break
    }
    switch try Stub.read(absolute) {
    case nil: return Listing.Entry(path: path, status: status, isPlaceholder: sees.isPlaceholder(absolute, status))
    case .damaged: return refuse(.damagedStub)
    case .of(let name):
      // The document is listed by itself.
      if present.contains(name) { return nil }
      return try document(path, name) ?? refuse(.stubWithoutDocument(DocumentPath(name)))
    }
  }

  /// The document that a stub stands for, where the storage leads to it by its real name.
  private func document(_ stub: DocumentPath, _ name: [UInt8]) throws(Errno) -> Listing.Entry? {
    let path = stub.renamed(name)
    guard let status = try POSIX.statusIfPresent(root.appending(path)), status.kind == .file else { return nil }
    return Listing.Entry(path: path, status: status, isPlaceholder: true, stub: stub)
  }
}

/// Asks the storage whether a file's bytes are here, as far as it can tell.
struct Placeholders: Sendable {
  /// The storage is a docsfs mount.
  let areShown: Bool

  init(_ root: DocumentPath) { areShown = (try? POSIX.xattr(root, Self.name)) != nil }
  static let name = "user.docsfs.state"

  /// Costs nothing where no file can be one.
  func isPlaceholder(_ path: DocumentPath, _ status: FileStatus) -> Bool {
    guard status.size > 0 else { return false }
    #if canImport(Darwin)
      var info = stat()
      // SF_DATALESS of <sys/stat.h>.
      return path.call { lstat($0, &info) } == 0 && info.st_flags & 0x4000_0000 != 0
    #else
      guard areShown, let state = try? POSIX.xattr(path, Self.name) else { return false }
      return state != Array("materialized".utf8)
    #endif
  }
}

extension Listing {
  fileprivate mutating func merge(_ other: Listing) {
    entries += other.entries
    refused += other.refused
    temporaries += other.temporaries
  }

  fileprivate mutating func sort() {
    entries.sort { $0.path.precedesInTree($1.path) }
    refused.sort { $0.path < $1.path }
    temporaries.sort()
  }
}
