import StorageErrors

/// When a placeholder's bytes are fetched: all of them from the first open on, or only the ranges that are read.
package enum MaterializePolicy: String, Sendable {
  case open
  case range
}

/// How much of the state disk stays free of cached content.
package enum MinFree: Sendable, Equatable {
  case bytes(Int64)
  /// 0 to 100.
  case percent(Double)
}

package enum OfflineWrites: String, Sendable {
  case queue
  case erofs
}

/// What fsync(2) waits for: the state disk, or the upload as well.
package enum FsyncPolicy: String, Sendable {
  case local
  case cloud
}

/// How a volume behaves. Times in seconds, sizes in bytes.
package struct VolumeConfiguration: Sendable {
  /// Exists, is 0700, and is locked by the caller.
  package var stateDirectory: String
  package var materialize = MaterializePolicy.open
  /// nil: unlimited.
  package var cacheSize: Int64?
  package var minFree = MinFree.percent(5)
  package var poll = 30.0
  package var timeo = 30.0
  /// Names of programs that never cause a fetch.
  package var noMaterialize = ["updatedb", "tracker-miner-fs", "tracker-miner-f", "baloo_file"]
  package var placeholderStyle = PlaceholderStyle.plain
  package var readOnly = false
  package var offlineWrites = OfflineWrites.queue
  package var fsync = FsyncPolicy.local
  /// From the last close or write to its upload.
  package var uploadDelay = 1.0
  /// A file that is never quiet is uploaded this long after its first edit all the same.
  package var uploadBound = 20.0
  /// The owner of items whose container keeps none.
  package var uid: UInt32
  package var gid: UInt32
  /// Whole files from this size on are lent to the kernel, where they may be (`Loan`): smaller ones gain nothing by it.
  package var smallestLoan: Int64 = 128 << 10
  /// Items kept in memory beside those that are in use; about 700 bytes each.
  package var itemsInMemory = 100_000

  package init(stateDirectory: String, uid: UInt32, gid: UInt32) {
    self.stateDirectory = stateDirectory
    self.uid = uid
    self.gid = gid
  }
}

/// Why a volume or a command on it could not be: one line that says what, where and what to do, and an exit code.
package struct VolumeError: Error, Sendable, CustomStringConvertible {
  package var message: String
  package var exitCode: Int32
  /// Of the call that failed, where it was one.
  package var errno: Errno?
  package init(_ message: String, exitCode: Int32 = 1, errno: Errno? = nil) {
    self.message = message
    self.exitCode = exitCode
    self.errno = errno
  }
  package var description: String { message }
}
