import CLinux
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// What POSIX and Linux promise about any file system, asked on a mount.
///
/// With `DOCSFS_PLACE=/some/folder` the same tests run in that folder, as on a native one: `PosixReferenceTests` does
/// that, which shows that the tests themselves are right. The answers differ only where a test asks `onMount`.
/// With `DOCSFS_CONTAINER=URL` the mount is one of that container.
class PosixTestCase: XCTestCase {
  nonisolated(unsafe) private static var shared: (home: String, volume: MountedVolume)?
  private var watchdog: Watchdog?
  private(set) var folder = ""
  var onMount: Bool { Self.given == nil }

  override func setUpWithError() throws {
    if onMount { try skipUnlessMountable() }
    let root = try Self.root()
    watchdog = Watchdog(home: root, seconds: 120)
    folder = root + "/" + name.filter { $0.isLetter || $0.isNumber }
    try Sys.makeFolder(folder)
  }

  override func tearDownWithError() throws {
    watchdog?.stop()
    if !folder.isEmpty { _ = Shell.run(["rm", "-rf", folder]) }
  }

  override class func tearDown() {
    guard let (home, volume) = shared else { return }
    shared = nil
    let complaints = volume.stop() + MountedTestCase.leftovers(below: home)
    MountedTestCase.remove(home)
    precondition(complaints.isEmpty, "left behind: \(complaints)")
  }

  private static var given: String? { ProcessInfo.processInfo.environment["DOCSFS_PLACE"] }

  /// One mount serves all tests of a class.
  private static func root() throws -> String {
    if let given { return given }
    if let shared, shared.volume.isMounted { return shared.volume.mountpoint }
    let home = try MountedTestCase.makeHome()
    let volume = try MountedVolume(in: home + "/v", options: getuid() == 0 ? ["allow_other"] : [])
    volume.url = ProcessInfo.processInfo.environment["DOCSFS_CONTAINER"]
    shared = (home, volume)
    try volume.mount()
    return volume.mountpoint
  }

  func path(_ name: String) -> String { folder + "/" + name }

  /// Bash in the test's folder.
  func shell(_ script: String, as user: uid_t? = nil) -> Outcome {
    Shell.run("cd '\(folder)' && \(script)", as: user, environment: ["LC_ALL": "C.UTF-8"])
  }

  /// Runs a Python 3 program in the test's folder.
  func python(_ script: String, as user: uid_t? = nil) -> Outcome {
    shell("python3 - <<'END'\n\(script)\nEND", as: user)
  }
}
