import Containers

/// What a volume has done since it was opened.
package final class VolumeCounters: Sendable {
  /// Changes that the container has taken.
  package let puts = Counter()
  package let madeFolders = Counter()
  package let madeSymlinks = Counter()
  package let renames = Counter()
  package let removals = Counter()
  package let attributeChanges = Counter()
  /// Changes that are tried again after a pause.
  package let failedUploads = Counter()
  /// Items that had to step aside, so that nobody's change is lost.
  package let conflicts = Counter()
  /// Files whose local bytes were dropped, and those bytes.
  package let evictions = Counter()
  package let evictedBytes = Counter()

  func count(_ step: UploadStep) {
    switch step {
    case .put: puts.add()
    case .makeFolder: madeFolders.add()
    case .makeSymlink: madeSymlinks.add()
    case .rename, .park: renames.add()
    case .remove: removals.add()
    case .setAttributes: attributeChanges.add()
    case .settled, .discard, .blocked, .recallJob: break
    }
  }
}
