import StorageErrors

/// What a failed system call means for a migration.
struct Verdict: Hashable, Sendable {
  enum Action: Hashable, Sendable {
    /// Open everything anew, and once more.
    case reopen
    /// The storage has gone: wait until it is back.
    case wait
    /// Nothing else will work either.
    case stop
    /// Go on with the others.
    case skip
  }

  var action: Action
  var category: String
  var advice: String
}
extension Verdict {
  init(_ errno: Errno) {
    switch errno.name {
    case "ESTALE": self.init(action: .reopen, category: "staleHandle", advice: "run the same command again")
    case "ENXIO", "ENODEV", "ENOTCONN", "ETIMEDOUT", "EHOSTDOWN", "EIO":
      self.init(
        action: .wait, category: "disconnected", advice: "reconnect the storage, then run the same command again")
    case "ENOSPC", "EDQUOT", "EROFS":
      self.init(action: .stop, category: "outOfSpace", advice: "make room, then run the same command again")
    default: self.init(action: .skip, category: "unknown", advice: "run the same command again")
    }
  }
}
