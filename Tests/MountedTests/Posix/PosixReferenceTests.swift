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
    let variables = ProcessInfo.processInfo.environment
    try XCTSkipUnless(variables["DOCSFS_PLACE"] == nil, "runs in the place that was given")
    let home = try MountedTestCase.makeHome()
    defer { MountedTestCase.remove(home) }
    let bundle = try Sys.readlink("/proc/self/exe")
    let list = Self.classes.map { "MountedTests.\($0)" }.joined(separator: ",")
    let outcome = Shell.run([bundle, list], environment: ["DOCSFS_PLACE": home], within: 300)
    XCTAssertTrue(outcome.succeeded, "\(outcome)")
  }
}
