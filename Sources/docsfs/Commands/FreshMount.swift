import CLinux
import Glibc
import StorageErrors

/// A mount made for one command, in a folder of its own.
struct FreshMount: Sendable {
  private let plan: MountPlan
  private let daemon: pid_t

  var mountpoint: FilePath { plan.mountpoint }
  var state: FilePath { plan.state.path }

  /// Mounts `container`, or, without one, a new folder in `folder` that holds a copy of what is in `source`.
  init(
    in folder: FilePath, container: [UInt8]? = nil, filledFrom source: FilePath? = nil, options: [[UInt8]] = []
  ) throws(Failure) {
    var mount = ParsedArguments()
    let shown: [UInt8]
    if let container { shown = container } else { shown = try Self.makeContainer(folder, source).bytes }
    mount.options = [
      .init(name: "container", value: shown),
      .init(name: "state", value: try folder.makingFolder("state").bytes),
    ]
    mount.options += options.map { .init(name: "options", value: $0) }
    mount.arguments = [try folder.makingFolder("mount").bytes]
    plan = try MountPlan(mount)
    _ = try plan.check()
    try plan.state.make()
    daemon = try MountCommand.startInBackground(plan, mount)
  }

  private static func makeContainer(_ folder: FilePath, _ source: FilePath?) throws(Failure) -> FilePath {
    let container = try folder.makingFolder("container")
    guard let source else { return container }
    guard let status = try? source.status(), lx_is_dir(status.st_mode) != 0 else {
      throw Failure("--with \(source): there is no such folder")
    }
    try source.appending(".").copy(to: container)
    return container
  }

  func entry() throws(Failure) -> MountEntry? { try MountTable.current().mount(at: mountpoint) }

  /// `{mount}` in the words, and DOCSFS_MOUNT in the environment.
  func words(_ words: [[UInt8]]) -> [[UInt8]] {
    words.map { replacing(Array("{mount}".utf8), in: $0, with: mountpoint.bytes) }
  }

  var environment: [[UInt8]] { Spawn.environment(setting: "DOCSFS_MOUNT", to: mountpoint) }

  /// Ends the daemon's work at once: whoever waits in the mount gets an error.
  func kill() { _ = Glibc.kill(daemon, SIGKILL) }

  /// Unmounts, whoever uses it.
  func end() throws(Failure) {
    // The second signal forces.
    for _ in 0..<2 {
      _ = Glibc.kill(daemon, SIGTERM)
      for _ in 0..<1500 {
        if waitpid(daemon, nil, WNOHANG) != 0 {
          if let entry = try entry(), entry.isDocsfs { try Unmounting.clearStale(entry) }
          return
        }
        usleep(10_000)
      }
    }
    throw Failure("the daemon (process \(daemon)) of \(mountpoint) does not end", ExitCode.tryAgain)
  }
}

extension FilePath {
  func makingFolder(_ name: String) throws(Failure) -> FilePath {
    let folder = appending(name)
    guard folder.call({ mkdir($0, 0o700) }) == 0 else { throw Failure("cannot make the folder", folder, .current) }
    return folder
  }

  /// `cp -a`, with all that it keeps.
  func copy(to place: FilePath) throws(Failure) {
    let words = ["cp", "-a", "--"].map { Array($0.utf8) } + [bytes, place.bytes]
    let (code, text) = try Spawn.capturingErrors(words)
    if code != 0 { throw Failure("cannot copy \(self): \(oneLine(text))") }
  }

  /// Never into a mount that is still there.
  func removeTree() throws(Failure) {
    let words = ["rm", "-rf", "--one-file-system", "--"].map { Array($0.utf8) } + [bytes]
    let (code, text) = try Spawn.capturingErrors(words)
    if code != 0 { throw Failure("cannot remove \(self): \(oneLine(text))") }
  }
}

extension Spawn {
  /// Ours, with one variable set to a path.
  static func environment(setting name: String, to path: FilePath) -> [[UInt8]] {
    let variable = Array("\(name)=".utf8)
    return environment().filter { !$0.starts(with: variable) } + [variable + path.bytes]
  }
}

/// Every `word` in `bytes` becomes `other`.
func replacing(_ word: [UInt8], in bytes: [UInt8], with other: [UInt8]) -> [UInt8] {
  var result: [UInt8] = []
  var rest = bytes[...]
  while !rest.isEmpty {
    if rest.starts(with: word) {
      result += other
      rest = rest.dropFirst(word.count)
    } else {
      result.append(rest.removeFirst())
    }
  }
  return result
}
