import Foundation
import TestSupport
import XCTest

/// Somebody else's tests, with their files on a mount: the results are those of the native folder, but for what
/// Tests/foreign/differences.txt lists and explains. `DOCSFS_FULL=1` runs all of them, and longer.
final class ForeignSuiteTests: MountedTestCase {
  override var patience: Double { Effort.full ? 7_200 : 400 }

  func testCPython() throws { try compare("cpython") }
  func testStressNG() throws { try compare("stress") }
  func testFio() throws { try compare("fio") }

  private func compare(_ suite: String) throws {
    try skipUnlessInstalled("python3")
    let volume = try mount(getuid() == 0 ? "allow_other" : "cache_size=100GiB")
    let native = try outside("native")
    let program = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .appendingPathComponent("foreign/compare").path
    let arguments =
      ["python3", "-B", program, suite, native, volume.mountpoint] + (Effort.full ? ["--full"] : [])
    let outcome = Shell.run(arguments, within: patience - 30)
    try XCTSkipIf(outcome.status == 77, outcome.text)
    XCTAssertTrue(outcome.succeeded, outcome.description)
    print(outcome.text)
    try volume.settle(within: 300)
    XCTAssertEqual(try volume.remoteNames(), try volume.names(), "what is left arrives")
  }
}
