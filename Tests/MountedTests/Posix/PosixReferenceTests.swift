import Foundation
import TestSupport
import XCTest

/// The tests of this folder on a native file system: what fails there is no demand on a mount.
final class PosixReferenceTests: XCTestCase {
  static let classes = [
    "AttributeTests", "FileTests", "FolderTests", "LockTests", "NameTests", "PermissionTests", "RenameTests",
    "SpaceTests", "UnlinkedFileTests", "XattrTests",
  ]

  func testTheSameSuiteHoldsOnANativeFolder() throws {
    let home = try MountedTestCase.makeHome()
    defer { MountedTestCase.remove(home) }
    try runSuite(with: ["DOCSFS_PLACE": home])
  }

  /// The kernel reads and writes the files by itself.
  func testTheSameSuiteHoldsInPassthrough() throws {
    try skipUnlessMountable()
    try runSuite(with: ["DOCSFS_MOUNT_OPTIONS": "faults=off,io=auto"])
  }

  private func runSuite(with variables: [String: String]) throws {
    let here = ProcessInfo.processInfo.environment
    try XCTSkipUnless(variables.keys.allSatisfy { here[$0] == nil }, "runs like that already")
    let bundle = try Sys.readlink("/proc/self/exe")
    let list = Self.classes.map { "MountedTests.\($0)" }.joined(separator: ",")
    let outcome = Shell.run([bundle, list], environment: variables, within: 300)
    XCTAssertTrue(outcome.succeeded, "\(outcome)")
  }
}
