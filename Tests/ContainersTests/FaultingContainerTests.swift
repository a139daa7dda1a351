import Faults
import TestSupport
import XCTest

@testable import Containers

final class FaultingContainerTests: XCTestCase {
  private let bytes = (0..<700_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }

  private func make() throws -> (cloud: FaultingContainer, container: RetryingContainer) {
    let folder = try TemporaryFolder()
    addTeardownBlock { folder.remove() }
    let cloud = FaultingContainer(DirectoryContainer(path: Array(folder.path.utf8)))
    return (cloud, RetryingContainer(cloud, .init(firstPause: 0.001, longestPause: 0.002)))
  }

  private func set(_ cloud: FaultingContainer, _ change: (inout CloudConditions) -> Void) {
    var conditions = CloudConditions()
    change(&conditions)
    cloud.conditions = conditions
  }

  private func put(_ container: any Container) throws -> RemoteItem {
    try container.put(path("a"), from: BytesSource(bytes), attributes: .init(), if: .absent, CallContext())
  }

  func testEachStatusHasItsMeaning() throws {
    let (cloud, _) = try make()
    let expected: [(Int, ContainerError.Code)] = [
      (400, .inconsistent), (401, .permissionDenied), (403, .permissionDenied), (404, .notFound), (408, .timedOut),
      (409, .preconditionFailed), (412, .preconditionFailed), (413, .notRepresentable), (423, .busy), (429, .busy),
      (500, .busy), (502, .busy), (503, .busy), (504, .busy), (507, .outOfSpace),
    ]
    for (status, code) in expected {
      set(cloud) { $0.status = status }
      assertCode(code) { _ = try cloud.list(.root, CallContext()) }
      assertCode(code) { try cloud.put(path("a"), "x") }
      assertCode(code) { try cloud.remove(path("a"), kind: .file, version: nil, CallContext()) }
      XCTAssertEqual(cloud.conditions.failed, 3)
    }
    set(cloud) { $0.status = 404 }
    XCTAssertNil(try cloud.item(at: path("a"), CallContext()), "an item that is not found is no error")
  }

  func testAServerThatFailsTwiceIsSurvivedByRetrying() throws {
    let (cloud, container) = try make()
    for status in [429, 500, 503] {
      set(cloud) { ($0.status, $0.times) = (status, 2) }
      XCTAssertEqual(try container.list(.root, CallContext()), [])
      XCTAssertEqual(cloud.conditions.failed, 2)
      XCTAssert(cloud.conditions.isClear, "two were all")
    }
    set(cloud) { ($0.status, $0.times, $0.operations) = (503, 2, [.upload]) }
    let item = try put(container)
    XCTAssertEqual(try cloud.contents(path("a"), item), bytes)
    XCTAssertEqual(cloud.conditions.failed, 2)
  }

  func testWhatIsOverDoesNotEndWhatComesAfterIt() throws {
    let (cloud, container) = try make()
    set(cloud) { ($0.status, $0.times) = (503, 1) }
    XCTAssertEqual(try container.list(.root, CallContext()), [])
    var expired = CloudConditions()
    expired.authExpired = true
    cloud.apply(.conditions(expired, duration: nil))
    assertCode(.permissionDenied) { _ = try container.list(.root, CallContext()) }
    XCTAssertNil(cloud.conditions.status, "nor does it go on")
    cloud.apply(.online)
    XCTAssertEqual(try container.list(.root, CallContext()), [])
  }

  func testWhatTheServerAsksForIsPassedOn() throws {
    let (cloud, container) = try make()
    set(cloud) { ($0.status, $0.retryAfter) = (503, 7_000_000_000) }
    do throws(ContainerError) {
      _ = try container.list(.root, CallContext())
      XCTFail("no error")
    } catch {
      XCTAssertEqual(error.retryAfter, 7)
      XCTAssertEqual(cloud.conditions.met, 1, "it was asked again before the time that it asked for")
    }
  }

  func testOnlyTheOperationsThatAreNamedMeetIt() throws {
    let (cloud, _) = try make()
    set(cloud) { ($0.offline, $0.operations) = (true, [.fetch]) }
    let item = try put(cloud)
    XCTAssertEqual(try cloud.list(.root, CallContext()), [item])
    assertCode(.unreachable) { _ = try cloud.contents(path("a"), item) }
    XCTAssertEqual(cloud.conditions.met, 1)
  }

  func testABodyThatEndsEarlyIsNoEnd() throws {
    let (cloud, container) = try make()
    let item = try put(cloud)
    set(cloud) { $0.truncate = 300_000 }
    XCTAssertEqual(try cloud.contents(path("a"), item).count, 300_000, "as a broken connection gives it")
    XCTAssertEqual(try container.contents(path("a"), item), bytes)
    set(cloud) { $0.truncate = 10_000 }
    XCTAssertEqual(try container.contents(path("a"), item), bytes, "as long as something comes it goes on")
    set(cloud) { $0.truncate = 0 }
    assertCode(.inconsistent) { _ = try container.contents(path("a"), item) }
    assertCode(.inconsistent) {
      _ = try container.put(
        path("a"), from: BytesSource(bytes), attributes: .init(), if: .version(item.version), CallContext())
    }
    set(cloud) { _ in }
    XCTAssertEqual(try cloud.current(path("a"))?.item, item, "half an upload was published")
  }

  func testAListingThatEndsEarlyIsAnError() throws {
    let (cloud, container) = try make()
    try cloud.put(path("one"), "1")
    try cloud.put(path("another"), "2")
    set(cloud) { $0.truncate = 8 }
    assertCode(.inconsistent) { _ = try container.list(.root, CallContext()) }
  }

  func testAnAlteredUploadIsNotPublished() throws {
    let (cloud, container) = try make()
    set(cloud) { $0.corrupt = true }
    assertCode(.inconsistent) { _ = try put(container) }
    XCTAssertEqual(try container.list(.root, CallContext()), [])
    set(cloud) { ($0.corrupt, $0.times, $0.operations) = (true, 2, [.upload]) }
    let item = try put(container)
    XCTAssertEqual(try container.contents(path("a"), item), bytes)
  }

  func testAlteredBytesDifferFromTimeToTime() throws {
    let (cloud, _) = try make()
    let item = try put(cloud)
    set(cloud) { $0.corrupt = true }
    let (one, two) = (try cloud.contents(path("a"), item), try cloud.contents(path("a"), item))
    XCTAssertNotEqual(one, bytes)
    XCTAssertNotEqual(one, two)
    XCTAssertEqual(one.count, bytes.count)
  }

  func testAQuotaRefusesWhatIsBeyondIt() throws {
    let (cloud, container) = try make()
    set(cloud) { $0.quota = 10 }
    try container.put(path("a"), "123456")
    assertCode(.outOfSpace) { try container.put(path("b"), "12345") }
    XCTAssertEqual(try container.quota(CallContext())?.free, 4)
    assertCode(.preconditionFailed) { try container.put(path("a"), "1234") }
    try container.put(path("c"), "1234")
    XCTAssertEqual(try container.quota(CallContext())?.free, 0)
    XCTAssertEqual(cloud.conditions.used, 10)
  }

  func testExpiredCredentialsAreNotTriedAgain() throws {
    let (cloud, container) = try make()
    set(cloud) { $0.authExpired = true }
    assertCode(.permissionDenied) { _ = try container.list(.root, CallContext()) }
    XCTAssertEqual(cloud.conditions.met, 1)
  }

  func testLatencyEndsAtTheDeadline() throws {
    let (cloud, _) = try make()
    set(cloud) { $0.latency = 3_600_000_000_000 }
    assertCode(.timedOut) { _ = try cloud.list(.root, CallContext(timeout: 0.01)) }
    set(cloud) { ($0.rate, $0.operations) = (1, [.upload]) }
    assertCode(.timedOut) {
      _ = try cloud.put(
        path("a"), from: BytesSource(bytes), attributes: .init(), if: .absent, CallContext(timeout: 0.01))
    }
    XCTAssertEqual(try cloud.list(.root, CallContext()), [])
  }

  func testConditionsMayChangeWhileCallsAreMade() throws {
    let (cloud, container) = try make()
    let item = try put(cloud)
    let bytes = bytes
    onThreads(4) { number in
      for turn in 0..<25 {
        if number == 0 {
          var conditions = CloudConditions()
          if turn % 2 == 0 { (conditions.status, conditions.times) = (503, 1) }
          cloud.conditions = conditions
        } else {
          XCTAssertEqual(try? container.contents(path("a"), item), bytes)
        }
      }
    }
  }
}
