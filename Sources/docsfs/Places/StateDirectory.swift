import CLinux
import Containers
import FoundationEssentials
import StorageErrors

/// What the state directory says about itself, so that `doctor` and `status` know a mount whose daemon has gone.
struct About: Codable, Equatable, Sendable {
  var container: String
  var mountpoint: String
  var version: String
}

/// Who holds a state directory.
struct LockHolder: Equatable, Sendable {
  var pid: Int32?
  var mountpoint: String?

  /// `held by process 12, which shows it at /home/x/CloudDocs`.
  var description: String {
    guard let pid else { return "held by another docsfs" }
    return "held by process \(pid)" + (mountpoint.map { ", mounted at \($0)" } ?? "")
  }
}

/// The folder of one container's catalog, content and journal.
struct StateDirectory: Equatable {
  var path: FilePath

  var lockFile: FilePath { path.appending("lock") }
  var aboutFile: FilePath { path.appending("about") }
  var logFile: FilePath { path.appending("log") }

  /// Refuses what is no state directory, or somebody else's; changes nothing. One that is missing is fine.
  func check() throws(Failure) {
    guard let status = try? path.status() else {
      if path.exists { throw Failure("the state directory \(path) is a symlink to nowhere; remove it") }
      return
    }
    guard lx_is_dir(status.st_mode) != 0 else { throw Failure("the state directory \(path) is not a folder") }
    guard status.st_uid == geteuid() else {
      throw Failure("the state directory \(path) belongs to user \(status.st_uid); give another with --state")
    }
    let names: [[UInt8]]
    do { names = try path.entries() } catch { throw Failure("cannot read the state directory", path, error) }
    if names.isEmpty || aboutFile.exists || lockFile.exists { return }
    throw Failure("\(path) is not empty and no state directory of docsfs; give --state an empty folder")
  }

  /// Makes it, and its parents, with mode 0700.
  func make() throws(Failure) {
    try makeFolders(path)
    guard path.call({ chmod($0, 0o700) }) == 0 else {
      throw Failure("cannot set the mode of the state directory", path, .current)
    }
  }

  /// nil: nobody holds it.
  func holder() -> LockHolder? {
    let descriptor = lockFile.call { lx_open($0, O_RDONLY, 0) }
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    if flock(descriptor, LOCK_SH | LOCK_NB) == 0 { return nil }
    return readHolder()
  }

  fileprivate func readHolder() -> LockHolder {
    let lines = ((try? lockFile.contents()) ?? []).split(separator: 0x0a).map {
      String(decoding: $0, as: UTF8.self)
    }
    return LockHolder(pid: lines.first.flatMap(Int32.init), mountpoint: lines.dropFirst().first)
  }

  /// Waits until nobody holds it; false when somebody still does after `seconds`.
  func waitUntilFree(seconds: Double) -> Bool {
    let end = Clock.now() &+ UInt64(seconds * 1e9)
    while holder() != nil {
      if Clock.now() > end { return false }
      usleep(20_000)
    }
    return true
  }

  func about() -> About? {
    guard let bytes = try? aboutFile.contents() else { return nil }
    return try? JSONDecoder().decode(About.self, from: Data(bytes))
  }

  func write(_ about: About) throws(Failure) {
    let temporary = path.appending("about.new")
    let descriptor = temporary.call { lx_open($0, O_WRONLY | O_CREAT | O_TRUNC, 0o600) }
    guard descriptor >= 0 else { throw Failure("cannot write", temporary, .current) }
    defer { close(descriptor) }
    let bytes = Array(JSONText.of(about).utf8) + [0x0a]
    guard writeAll(bytes, to: descriptor), fsync(descriptor) == 0,
      temporary.call({ from in aboutFile.call { rename(from, $0) } }) == 0
    else { throw Failure("cannot write", aboutFile, .current) }
  }
}

/// The lock on a state directory; held until `release` or the end of the process.
final class StateLock: Sendable {
  private let descriptor: Int32
  private init(_ descriptor: Int32) { self.descriptor = descriptor }

  /// Exit code 75, with the holder's name, when another daemon has it.
  static func acquire(_ state: StateDirectory, mountpoint: FilePath) throws(Failure) -> StateLock {
    let descriptor = state.lockFile.call { lx_open($0, O_RDWR | O_CREAT, 0o600) }
    guard descriptor >= 0 else { throw Failure("cannot open", state.lockFile, .current) }
    // Somebody who only looks whether it is held has it for a moment, shared.
    var attempts = 0
    while lx_lock_file(descriptor) != 0 {
      attempts += 1
      if attempts == 10 {
        close(descriptor)
        throw held(state)
      }
      usleep(20_000)
    }
    ftruncate(descriptor, 0)
    _ = writeAll(Array("\(getpid())\n".utf8) + mountpoint.bytes + [0x0a], to: descriptor)
    return StateLock(descriptor)
  }

  static func held(_ state: StateDirectory) -> Failure {
    Failure(
      "the state directory \(state.path) is \(state.readHolder().description); unmount that first",
      ExitCode.tryAgain)
  }

  func release() {
    ftruncate(descriptor, 0)
    close(descriptor)
  }
}

/// mkdir -p with mode 0700 for what is missing.
func makeFolders(_ path: FilePath) throws(Failure) {
  var here = FilePath("/")
  for name in path.names {
    here = here.appending(name)
    if here.call({ mkdir($0, 0o700) }) == 0 { continue }
    let problem = Errno.current
    if let status = try? here.status(), lx_is_dir(status.st_mode) != 0 { continue }
    throw Failure("cannot make the folder", here, problem)
  }
}
