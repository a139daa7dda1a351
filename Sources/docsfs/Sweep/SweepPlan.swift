import CLinux
import Faults
import StorageErrors

/// What a sweep is told: the command, what fails in it, and what must hold afterwards.
struct SweepPlan: Sendable {
  var command: [[UInt8]]
  /// Fills each volume.
  var filling: FilePath?
  var options: [[UInt8]]
  var errnos: [Errno]
  /// nil: all that the command does.
  var operations: FaultOperations?
  /// A shell's line; nil: that no file is lost.
  var invariant: [UInt8]?
  var jobs: Int
  /// Seconds that a run may take.
  var timeout: Double
  /// Where in `command` a path is copied for each run.
  var sources: [SweepSource]

  init(_ arguments: ParsedArguments) throws(Failure) {
    command = arguments.arguments
    filling = arguments.value("with").map { FilePath($0) }
    options = arguments.values("options")
    errnos = try Self.errnos(arguments.text("errno") ?? "EIO,ENOSPC,ESTALE")
    operations = try arguments.text("ops").map(Self.operations)
    invariant = arguments.value("invariant")
    jobs = try Self.jobs(arguments.text("jobs"))
    timeout = try arguments.seconds("timeout") ?? 60
    guard timeout > 0 else { throw .usage("sweep: --timeout=0 leaves no time") }
    sources = SweepSource.find(in: command)
  }

  /// The rule grammar judges names, so that one message serves both.
  private static func errnos(_ list: String) throws(Failure) -> [Errno] {
    var errnos: [Errno] = []
    for name in list.split(separator: ",", omittingEmptySubsequences: false) {
      guard case .add(let rule) = try command("add errno=\(name)"), let errno = rule.effect.errno else { continue }
      if !errnos.contains(errno) { errnos.append(errno) }
    }
    return errnos
  }

  private static func operations(_ list: String) throws(Failure) -> FaultOperations {
    guard case .add(let rule) = try command("add op=\(list) errno=EIO") else { return .all }
    return rule.match.operations
  }

  private static func command(_ line: String) throws(Failure) -> ControlCommand? {
    do { return try ControlStatement(line.utf8)?.command } catch { throw .usage("sweep: \(error.message)") }
  }

  private static func jobs(_ text: String?) throws(Failure) -> Int {
    guard let text else { return max(1, min(4, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN))))) }
    guard let jobs = Int(text), (1...64).contains(jobs) else {
      throw .usage("sweep: --jobs=\(text) is no number from 1 to 64")
    }
    return jobs
  }

  /// Whether failing the operation so can happen: no room is left only where something is to be stored.
  static func mayFail(_ operation: FaultOperation, with errno: Errno) -> Bool {
    guard [.ENOSPC, .EDQUOT, .EROFS, .EFBIG].contains(errno) else { return true }
    return storing.contains(operation)
  }

  private static let storing = FaultOperations([
    .chmod, .chown, .truncate, .utimens, .mknod, .mkdir, .symlink, .link, .rename, .create, .write, .flush, .fsync,
    .fallocate, .copy_file_range, .fsyncdir, .setxattr, .open,
  ])
}

/// An argument of the command that is a file or folder outside the mount: each run gets a copy of its own.
struct SweepSource: Sendable, Equatable {
  /// Of the command's words.
  var index: Int
  var path: FilePath
  /// What stood behind the path: `/` or `/.`, which mean something to cp and rsync.
  var suffix: [UInt8]

  /// Folders, and files; but not the script of an interpreter, whose neighbours it may need.
  static func find(in command: [[UInt8]]) -> [SweepSource] {
    var isScript = interpreters.contains { FilePath(command[0]).lastName.starts(with: Array($0.utf8)) }
    var sources: [SweepSource] = []
    for (index, word) in command.enumerated().dropFirst() where word.first != UInt8(ascii: "-") {
      guard let source = SweepSource(index, word) else { continue }
      if isScript, !source.path.isFolder {
        isScript = false
        continue
      }
      sources.append(source)
    }
    return sources
  }

  private static let interpreters = [
    "sh", "bash", "dash", "zsh", "ksh", "fish", "python", "perl", "ruby", "node", "swift",
  ]

  private init?(_ index: Int, _ word: [UInt8]) {
    guard !word.isEmpty else { return nil }
    var path = word[...]
    while path.count > 1, path.last == 0x2f || path.suffix(2).elementsEqual([0x2f, 0x2e]) { path.removeLast() }
    let suffix = Array(word[path.count...])
    guard let place = try? FilePath(path).resolvedKeepingLink(), place.names.isEmpty == false,
      let status = try? place.status(followingLink: false),
      [S_IFDIR, S_IFREG, S_IFLNK].contains(Int32(status.st_mode) & S_IFMT)
    else { return nil }
    self.index = index
    self.path = place
    self.suffix = suffix
  }
}

extension FilePath {
  var isFolder: Bool {
    guard let status = try? status() else { return false }
    return lx_is_dir(status.st_mode) != 0
  }

  /// realpath(3) of what it lies in; `.` and `..` are the folders that they mean.
  fileprivate func resolvedKeepingLink() throws(Errno) -> FilePath {
    let last = lastName
    if last.isEmpty || last == [0x2e] || last == [0x2e, 0x2e] { return try resolved() }
    return try FilePath(madeAbsolute.bytes.dropLast(last.count)).resolved().appending(last)
  }
}
