import Foundation
import StorageErrors

/// Folders go before and after what is in them: made first, open to us; given their attributes last, when nothing changes
/// them any more, and only then removed from the source.
struct Folders: Sendable {
  let mover: Mover
  let retries: Retries
  private var options: Migration.Options { mover.options }
  private var ledger: Ledger { mover.ledger }

  /// The folders that could not be made, or were skipped, with why. What lies in one that is named is not named.
  func make(_ folders: [Listing.Entry]) -> [DocumentPath: FileReport] {
    var left: [DocumentPath: FileReport] = [:]
    var parents: Set<DocumentPath> = []
    for folder in folders where blocker(of: folder.path, left) == nil {
      do throws(StepFailure) {
        guard mover.control.mayGoOn else { throw .cancelled }
        mover.options.crashPoint?("makeFolder", folder.path)
        switch try retries.run({ () throws(StepFailure) in try make(folder) }) {
        case .made: parents.insert(folder.path.parent)
        case .there: break
        case .skipped(let reason):
          var report = FileReport(folder, .skipped)
          report.reason = reason
          left[folder.path] = report
        }
      } catch { left[folder.path] = FileReport(folder, error) }
    }
    for parent in parents {
      // Each file's step reports a folder that cannot be synced.
      try? POSIX.syncFolder(mover.destination[parent])
    }
    return left
  }

  /// What became of the folder, of those in `left`, that `path` lies in.
  func blocker(of path: DocumentPath, _ left: [DocumentPath: FileReport]) -> FileReport? {
    guard !left.isEmpty else { return nil }
    return path.ancestors.lazy.compactMap { left[$0] }.first
  }

  private enum Making { case made, there, skipped(String) }

  /// One that is there stays as it is.
  private func make(_ folder: Listing.Entry) throws(StepFailure) -> Making {
    try mover.destination.check(.destination)
    let path = mover.destination[folder.path]
    let there = try attempt(.destination, "look at", path) { () throws(Errno) in try POSIX.statusIfPresent(path) }
    if let there {
      if there.kind == .folder {
        if let ours = ledger.folder(folder.path) {
          try attempt(.destination, "open", path) { () throws(Errno) in
            try POSIX.setMode(path, mode_t(ours.mode) | 0o700)
          }
        }
        return .there
      }
      if case .skip(let reason) = Decision.onConflict(folder.status, there, options.onConflict) {
        return .skipped(reason)
      }
      throw .refused(.kindsDiffer)
    }
    try ledger.note(
      .made(path: folder.path, mode: UInt32(folder.status.mode), modified: folder.status.modified), durable: true)
    try attempt(.destination, "make", path) { () throws(Errno) in try POSIX.makeFolder(path) }
    return .made
  }

  /// Attributes, then away from the source; the deepest first. Gives what failed. One that a later run has to put more
  /// into stays in the journal: that run opens it again.
  func finish(_ folders: [Listing.Entry], _ documents: [FileReport]) -> [FileReport] {
    let open = Set(documents.filter { !$0.isSettled }.flatMap { $0.path.ancestors })
    return folders.reversed().compactMap { folder in
      do throws(StepFailure) {
        mover.options.crashPoint?("finishFolder", folder.path)
        try retries.run { () throws(StepFailure) in try finish(folder, isOpen: open.contains(folder.path)) }
        return nil
      } catch { return FileReport(folder, error) }
    }
  }

  private func finish(_ folder: Listing.Entry, isOpen: Bool) throws(StepFailure) {
    try mover.destination.check(.destination)
    try setAttributes(folder)
    if isOpen { return }
    if ledger.folder(folder.path) != nil { try ledger.note(.finished(path: folder.path)) }
    if options.disposition == .move { try remove(folder) }
  }

  private func setAttributes(_ folder: Listing.Entry) throws(StepFailure) {
    guard let wanted = ledger.folder(folder.path) else { return }
    let path = mover.destination[folder.path]
    var status = folder.status
    status.mode = mode_t(wanted.mode)
    status.modified = wanted.modified
    let here = mover.source[folder.path]
    let xattrs = try attempt(.source, "read the attributes of", here) { () throws(Errno) in
      // Somebody else may have removed it when it was empty.
      try POSIX.statusIfPresent(here) == nil ? [] : try POSIX.userXattrs(here)
    }
    try attempt(.destination, "set the attributes of", path) { () throws(Errno) in
      for (name, value) in xattrs { try POSIX.setXattr(path, name, value) }
      POSIX.setOwner(path, of: status)
      do throws(Errno) { try POSIX.setMode(path, status.mode) } catch {
        if error != .EPERM, error != .EOPNOTSUPP { throw error }
      }
      try POSIX.setTimes(path, of: status)
    }
  }

  /// Only an empty one goes: what stayed, or came meanwhile, keeps its folder; so does a mountpoint.
  private func remove(_ folder: Listing.Entry) throws(StepFailure) {
    let path = mover.source[folder.path]
    try attempt(.source, "remove", path) { () throws(Errno) in
      do throws(Errno) { try POSIX.removeFolder(path) } catch {
        if ![.ENOTEMPTY, .EEXIST, .ENOENT, .EBUSY].contains(error) { throw error }
      }
    }
  }
}
