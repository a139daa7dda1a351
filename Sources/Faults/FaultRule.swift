import Glibc
import StorageErrors

/// A match, what happens to the calls that match, and how often.
package struct FaultRule: Equatable, Sendable {
  /// 1 to 64 of letters, digits, `.`, `_`, `-`. Empty in a command that names none: `FaultSet` then gives it one.
  package var id: String
  package var match: FaultMatch
  package var effect: FaultEffect
  package var limit: FaultLimit

  package init(
    id: String = "", match: FaultMatch = FaultMatch(), effect: FaultEffect = FaultEffect(),
    limit: FaultLimit = FaultLimit()
  ) {
    self.id = id
    self.match = match
    self.effect = effect
    self.limit = limit
  }

  /// The operations that it can happen to: those matched, as far as the effect can be had by them.
  package var operations: FaultOperations { match.operations.intersection(effect.operations) }
}

/// Which calls. What is nil matches all.
package struct FaultMatch: Equatable, Sendable {
  package var operations = FaultOperations.all
  package var path: PathPattern?
  package var uid: UInt32?
  package var pid: Int32?
  package var executable: PathPattern?
  package var handle: HandleAge?
  package var range: FaultRange?
  /// Which of the calls that match all else.
  package var when: FaultOrdinals?
  /// Bytes that matching reads and writes of a path have moved before its calls match.
  package var after: Int64?
  /// Of 1,000,000,000.
  package var probability: UInt64?

  package init() {}

  /// All but `when`, `after` and `probability`, which depend on what was before.
  func covers(_ call: FaultCall) -> Bool {
    if let uid, uid != call.uid { return false }
    if let pid, pid != call.pid { return false }
    if let handle, handle != call.handle { return false }
    if let range, !range.intersects(call) { return false }
    if let executable, call.executable.isEmpty || !executable.matches(call.executable) { return false }
    guard let path else { return !call.isRootAttributes }
    if call.isRootAttributes { return path.isRoot }
    return path.matches(call.path) || (call.newPath.map(path.matches) ?? false)
  }
}

extension FaultCall {
  /// The kernel asks these before any path is walked: failing, they would lock out all paths, `.docsfs` too. So only
  /// `path=/` means them.
  package var isRootAttributes: Bool { operation == .getattr && path == [0x2f] }
}

/// Bytes of a file, `end` not among them.
package struct FaultRange: Equatable, Sendable {
  package var start: Int64
  package var end: Int64?

  /// A call that moves no bytes counts by its offset alone.
  func intersects(_ call: FaultCall) -> Bool {
    guard let offset = call.offset else { return false }
    let (last, overflow) = offset.addingReportingOverflow(max(1, call.length) - 1)
    return (overflow ? .max : last) >= start && (end.map { offset < $0 } ?? true)
  }
}

/// `3`, `3..7`, `3..`, and with `+2` every second of them; `3+2` has no end.
package struct FaultOrdinals: Equatable, Sendable {
  package var first: Int
  /// The last one that can be; nil: no end.
  package var last: Int?
  package var step: Int

  package init(first: Int, last: Int?, step: Int = 1) {
    self.first = first
    self.last = last
    self.step = step
  }

  func contains(_ ordinal: Int) -> Bool {
    ordinal >= first && ordinal <= last ?? .max && (ordinal - first) % step == 0
  }
}

package struct FaultDelay: Equatable, Sendable {
  /// Nanoseconds.
  package var base: UInt64
  /// Nanoseconds that it may differ either way, evenly.
  package var jitter: UInt64 = 0
}

/// What happens to a call. `delay` comes first, then the rest.
package struct FaultEffect: Equatable, Sendable {
  /// Fails the call; with `torn`, after the bytes that land; with `hang`, when it is let go.
  package var errno: Errno?
  package var delay: FaultDelay?
  /// Until the rule is deleted or the caller is signalled.
  package var hang = false
  /// A read or write moves at most so many bytes, and says so.
  package var short: Int?
  /// Only so many bytes of a write land; then it fails, with EIO unless `errno` is given.
  package var torn: Int?
  /// So many bits of what is read are flipped; what is stored stays.
  package var corrupt: Int?
  /// What was written to the file since its last good fsync is gone.
  package var losesDirty = false
  /// The signal that the caller gets.
  package var kill: Int32?

  package init() {}
  package var isEmpty: Bool { self == FaultEffect() }
  /// What the call fails with in the end; nil: it does not.
  package var failure: Errno? { errno ?? (torn != nil ? .EIO : nil) }
  /// Such a rule adds its delay, and the search goes on.
  package var isOnlyDelay: Bool {
    var rest = self
    rest.delay = nil
    return delay != nil && rest.isEmpty
  }

  /// The operations that it can happen to.
  package var operations: FaultOperations {
    var operations = FaultOperations.all
    if short != nil { operations.formIntersection(.moving) }
    if torn != nil { operations.formIntersection(FaultOperations(.write)) }
    if corrupt != nil { operations.formIntersection(FaultOperations(.read)) }
    if losesDirty { operations.subtract(FaultOperations(.statfs)) }
    return operations
  }
}

package struct FaultLimit: Equatable, Sendable {
  /// So many calls get it; nil: all.
  package var times: Int?
  /// Nanoseconds from when it was added; nil: until it is deleted.
  package var duration: UInt64?

  package init(times: Int? = nil, duration: UInt64? = nil) {
    self.times = times
    self.duration = duration
  }
}

/// The signals that `kill=` knows.
package enum FaultSignal {
  /// By name, without `SIG`.
  package static let numbers: [String: Int32] = [
    "KILL": SIGKILL, "TERM": SIGTERM, "INT": SIGINT, "HUP": SIGHUP, "QUIT": SIGQUIT, "ABRT": SIGABRT, "SEGV": SIGSEGV,
    "BUS": SIGBUS, "PIPE": SIGPIPE, "ALRM": SIGALRM, "STOP": SIGSTOP, "CONT": SIGCONT, "USR1": SIGUSR1,
    "USR2": SIGUSR2,
  ]
  package static func name(_ signal: Int32) -> String? { numbers.first { $0.value == signal }?.key }
}
