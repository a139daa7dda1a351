import CLinux
import Containers
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// Real kernel mounts, each served by a child process. What a test leaves behind fails it.
class MountedTestCase: XCTestCase {
  private var home = ""
  private var volumes: [MountedVolume] = []
  private var disks: [LoopDisk] = []
  private var watchdog: Watchdog?

  /// Seconds after which a test that hangs is cut off from its mounts.
  var patience: Double { 240 }

  override func setUpWithError() throws {
    try skipUnlessMountable()
    home = try Self.makeHome()
    watchdog = Watchdog(home: home, seconds: patience)
  }

  override func tearDownWithError() throws {
    guard !home.isEmpty else { return }
    var complaints = volumes.reversed().flatMap { $0.stop() }
    disks.reversed().forEach { $0.discard() }
    complaints += Self.leftovers(below: home)
    watchdog?.stop()
    volumes = []
    disks = []
    Self.remove(home)
    XCTAssertEqual(complaints, [], "left behind")
  }

  /// A mounted volume. `name` tells several of one test apart.
  func mount(
    _ options: String..., query: String = "", container: String? = nil, state: String? = nil,
    name: String = "v", before prepare: (MountedVolume) throws -> Void = { _ in }
  ) throws -> MountedVolume {
    let volume = try unmounted(options, query: query, container: container, state: state, name: name)
    try prepare(volume)
    try volume.mount()
    return volume
  }

  func unmounted(
    _ options: [String] = [], query: String = "", container: String? = nil, state: String? = nil,
    name: String = "v"
  ) throws -> MountedVolume {
    let volume = try MountedVolume(
      in: home + "/" + name, options: options, query: query, container: container, state: state)
    volumes.append(volume)
    return volume
  }

  func disk(_ name: String, megabytes: Int) throws -> LoopDisk {
    try XCTSkipUnless(getuid() == 0 && Sys.exists("/dev/loop-control"), "needs root and loop devices")
    let disk = try LoopDisk(name, in: home, megabytes: megabytes)
    disks.append(disk)
    return disk
  }

  /// A folder of this test outside every mount.
  func outside(_ name: String) throws -> String {
    let folder = home + "/" + name
    try Sys.makeFolders(folder)
    return folder
  }

  /// A program kept beside the tests, for what has to run in a process of its own.
  static func program(_ name: String) -> String {
    URL(fileURLWithPath: #filePath).deletingLastPathComponent().path + "/Programs/" + name
  }

  static func makeHome() throws -> String {
    var template = Array((NSTemporaryDirectory() + "docsfs-test-XXXXXX").utf8CString)
    guard mkdtemp(&template) != nil else { throw Errno.current }
    let home = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    try Sys.setMode(home, 0o755)
    return home
  }

  /// Not FileManager's way, which fails on names that are no UTF-8.
  static func remove(_ home: String) { _ = Shell.run(["rm", "-rf", "--one-file-system", home]) }

  static func leftovers(below home: String) -> [String] {
    let mounts = MountTable.mounts(below: home)
    for mount in mounts.reversed() {
      MountTable.abort(mount)
      _ = lx_umount(mount.path, 1)
    }
    let processes = Processes.mentioning(home)
    for process in processes { kill(process.pid, SIGKILL) }
    return mounts.map { "mount: \($0.path)" } + processes.map { "process: \($0.command)" }
  }
}

func skipUnlessMountable() throws {
  try XCTSkipUnless(Sys.mayAccess("/dev/fuse", R_OK | W_OK), "needs /dev/fuse")
  try XCTSkipUnless(Sys.exists(MountedVolume.binary), "needs \(MountedVolume.binary)")
}

func skipUnlessRoot() throws { try XCTSkipUnless(getuid() == 0, "needs root") }

func skipUnlessInstalled(_ programs: String...) throws {
  for program in programs { try XCTSkipUnless(Shell.has(program), "needs \(program)") }
}

/// Environment variables that make tests longer.
enum Effort {
  static var full: Bool { ProcessInfo.processInfo.environment["DOCSFS_FULL"] == "1" }
  static func rounds(_ usual: Int) -> Int {
    ProcessInfo.processInfo.environment["DOCSFS_ROUNDS"].flatMap { Int($0) } ?? usual
  }
}

/// A system call stuck in a mount cannot be given up; aborting the FUSE connection ends it with an error.
final class Watchdog: Sendable {
  private let stopped = Guarded(false)

  init(home: String, seconds: Double) {
    let deadline = UInt64((Clock.now + seconds) * 1e9)
    Thread.detachNewThread { [stopped] in
      guard !stopped.wait(until: deadline, { $0 }) else { return }
      print("cut off after \(seconds) s: \(home)")
      MountTable.mounts(below: home).forEach(MountTable.abort)
      for process in Processes.mentioning(home) { kill(process.pid, SIGKILL) }
    }
  }

  func stop() { stopped.signal { $0 = true } }
}

/// Fails unless `body` throws just this errno.
func assertErrno(
  _ expected: Errno, _ what: String = "", file: StaticString = #filePath, line: UInt = #line,
  _ body: () throws -> Void
) {
  do {
    try body()
    XCTFail("\(what): succeeded instead of \(expected.name)", file: file, line: line)
  } catch let error as Errno {
    XCTAssertEqual(error.name, expected.name, what, file: file, line: line)
  } catch {
    XCTFail("\(what): \(error)", file: file, line: line)
  }
}

func assertEventually(
  within seconds: Double = 30, _ what: String, file: StaticString = #filePath, line: UInt = #line,
  _ condition: () throws -> Bool
) rethrows {
  if try !eventually(within: seconds, condition) {
    XCTFail("not within \(seconds) s: \(what)", file: file, line: line)
  }
}

/// Compares bytes without printing megabytes of them.
func assertBytes(
  _ got: [UInt8], _ wanted: [UInt8], _ what: String = "", file: StaticString = #filePath, line: UInt = #line
) {
  if got == wanted { return }
  let first = zip(got, wanted).enumerated().first { $1.0 != $1.1 }?.offset ?? min(got.count, wanted.count)
  XCTFail(
    "\(what): \(got.count) bytes for \(wanted.count), different from \(first) on", file: file, line: line)
}
