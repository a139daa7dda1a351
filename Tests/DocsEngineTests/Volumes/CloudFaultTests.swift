import Containers
import Faults
import StorageErrors
import TestSupport
import XCTest

/// A volume whose cloud side behaves badly: nothing is lost, nothing wrong is served, and it goes on afterwards.
final class CloudFaultTests: XCTestCase {
  private static let policy = RetryingContainer.Policy(attempts: 3, firstPause: 0.001, longestPause: 0.002)

  private func bench(
    _ files: [String: String] = [:], timeo: Double = 30
  ) throws -> VolumeBench {
    try VolumeBench(files, retrying: Self.policy) { $0.timeo = timeo }
  }

  private func set(_ bench: VolumeBench, _ change: (inout CloudConditions) -> Void) {
    var conditions = CloudConditions()
    change(&conditions)
    bench.cloud.conditions = conditions
  }

  private func assertErrno(_ errno: Errno, _ body: () throws -> Void) {
    XCTAssertThrowsError(try body()) { XCTAssertEqual($0 as? Errno, errno) }
  }

  /// Writes a file whose upload fails under `change`, waits until its state says why, and mends the cloud.
  private func assertUploadSurvives(_ change: (inout CloudConditions) -> Void, says reason: String) throws {
    let bench = try bench(["old.txt": "old"])
    XCTAssertEqual(try bench.driver.text("old.txt"), "old")
    set(bench, change)
    try bench.driver.write("new.txt", "new")
    try bench.driver.write("old.txt", "edited")
    for name in ["new.txt", "old.txt"] {
      XCTAssert(eventually { (try? bench.driver.xattr(name, "user.docsfs.error"))?.contains(reason) ?? false }, name)
      XCTAssert(eventually { (try? bench.sync(name)) == "error" }, name)
    }
    XCTAssertEqual(try bench.driver.text("old.txt"), "edited")
    XCTAssertEqual(try bench.text("old.txt"), "old", "the old version stays whole at the container")
    try bench.remount()
    XCTAssertEqual(try bench.driver.text("new.txt"), "new")
    set(bench) { _ in }
    bench.idle()
    XCTAssertEqual(try bench.names(), ["new.txt", "old.txt"])
    XCTAssertEqual(try bench.text("new.txt"), "new")
    XCTAssertEqual(try bench.text("old.txt"), "edited")
    assertErrno(.ENODATA) { _ = try bench.driver.xattr("new.txt", "user.docsfs.error") }
  }

  func testAnUploadWhileTheServerFails() throws {
    try assertUploadSurvives({ ($0.status, $0.operations) = (503, [.upload]) }, says: "HTTP 503")
  }

  func testAnUploadThatIsForbidden() throws {
    try assertUploadSurvives({ ($0.status, $0.operations) = (403, [.upload]) }, says: "permission denied")
  }

  func testAnUploadWithExpiredCredentials() throws {
    try assertUploadSurvives({ ($0.authExpired, $0.operations) = (true, [.upload]) }, says: "credentials")
  }

  func testAnUploadBeyondTheQuota() throws {
    try assertUploadSurvives({ $0.quota = 2 }, says: "no room")
  }

  func testAnUploadWhoseBytesAreAltered() throws {
    try assertUploadSurvives({ ($0.corrupt, $0.operations) = (true, [.upload]) }, says: "altered")
  }

  func testAnUploadThatBreaksOff() throws {
    try assertUploadSurvives({ ($0.truncate, $0.operations) = (1, [.upload]) }, says: "connection broke")
  }

  /// Waiting for what is left means to try it, not to tell of what had failed before.
  func testWaitingTriesAgainWhatHasFailedBefore() throws {
    let bench = try bench()
    func left() -> [String] {
      bench.volume.waitUntilIdle(timeout: nil, cancelled: { false }, progress: { _ in }).map(\.path)
    }
    set(bench) { ($0.status, $0.operations) = (403, [.upload]) }
    try bench.driver.write("new.txt", "new")
    XCTAssertEqual(left().count, 1)
    XCTAssertEqual(left().count, 1, "it ends again")
    set(bench) { _ in }
    XCTAssertEqual(left(), [])
    XCTAssertEqual(try bench.text("new.txt"), "new")
  }

  func testAReadThatFailsIsEIOAndGoesOnAfterwards() throws {
    let bench = try bench(["a.txt": "hello"], timeo: 0.3)
    XCTAssertEqual(try bench.driver.list(), ["a.txt"])
    set(bench) { ($0.status, $0.operations) = (503, [.fetch]) }
    assertErrno(.EIO) { _ = try bench.driver.read("a.txt") }
    XCTAssertEqual(try bench.state("a.txt"), "placeholder")
    set(bench) { _ in }
    XCTAssertEqual(try bench.driver.text("a.txt"), "hello")
  }

  func testAReadWithoutPermissionIsEACCES() throws {
    let bench = try bench(["a.txt": "hello"])
    XCTAssertEqual(try bench.driver.list(), ["a.txt"])
    set(bench) { ($0.authExpired, $0.operations) = (true, [.fetch]) }
    assertErrno(.EACCES) { _ = try bench.driver.read("a.txt") }
  }

  func testBodiesThatEndEarlyAreFetchedPieceByPiece() throws {
    let text = String(repeating: "0123456789", count: 100_000)
    let bench = try bench(["a.txt": text])
    set(bench) { $0.truncate = 300_000 }
    XCTAssertEqual(try bench.driver.text("a.txt"), text)
    XCTAssertGreaterThan(bench.cloud.conditions.met, 3)
  }

  func testAnOfflineCloudCutsTheLinkAndLosesNothing() throws {
    let bench = try bench(["a.txt": "a", "gone.txt": "g"])
    XCTAssertEqual(try bench.driver.text("a.txt"), "a")
    set(bench) { $0.offline = true }
    try? bench.volume.refresh(.root)
    XCTAssert(eventually { bench.volume.status().link != "connected" })
    try bench.driver.write("b.txt", "b")
    try bench.driver.write("a.txt", "edited")
    try bench.driver.unlink("gone.txt")
    XCTAssertEqual(try bench.driver.list(), ["a.txt", "b.txt"])
    XCTAssertEqual(try bench.names(), ["a.txt", "gone.txt"])
    set(bench) { _ in }
    bench.idle()
    XCTAssertEqual(try bench.names(), ["a.txt", "b.txt"])
    XCTAssertEqual(try bench.text("a.txt"), "edited")
  }

  func testAListingThatIsCutShortRemovesNothing() throws {
    let bench = try bench(["one.txt": "1", "two.txt": "2"])
    XCTAssertEqual(try bench.driver.list(), ["one.txt", "two.txt"])
    set(bench) { ($0.truncate, $0.operations) = (9, [.list]) }
    try? bench.volume.refresh(.root)
    XCTAssert(eventually { bench.cloud.conditions.met > 0 })
    XCTAssertEqual(try bench.driver.list(), ["one.txt", "two.txt"])
    XCTAssertEqual(try bench.driver.text("two.txt"), "2")
  }

  func testAStormOfRefusalsEndsWithAllUploaded() throws {
    let bench = try bench()
    XCTAssertEqual(try bench.driver.list(), [])
    set(bench) { ($0.status, $0.times) = (429, 40) }
    for number in 0..<20 { try bench.driver.write("\(number).txt", "text \(number)") }
    bench.idle()
    XCTAssertEqual(try bench.names().count, 20)
    for number in 0..<20 { XCTAssertEqual(try bench.text("\(number).txt"), "text \(number)") }
  }
}
