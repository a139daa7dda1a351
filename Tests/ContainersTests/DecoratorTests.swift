import StorageErrors
import TestSupport
import XCTest

@testable import Containers

final class RetryingContainerTests: XCTestCase {
  private func make(attempts: Int = 4) throws -> (flaky: FlakyContainer, container: RetryingContainer) {
    let folder = try TemporaryFolder()
    addTeardownBlock { folder.remove() }
    let flaky = FlakyContainer(DirectoryContainer(path: Array(folder.path.utf8)))
    return (
      flaky, RetryingContainer(flaky, .init(attempts: attempts, firstPause: 0.001, longestPause: 0.002))
    )
  }

  func testTransientFailuresAreTriedAgainABoundedNumberOfTimes() throws {
    let (flaky, container) = try make()
    flaky.fail([.before(.unreachable), .before(.timedOut), .before(.system(.EIO))])
    XCTAssertEqual(try container.list(.root, CallContext()), [])
    XCTAssertEqual(flaky.takeCalls(), ["list", "list", "list", "list"])
    flaky.fail(Array(repeating: .before(.unreachable), count: 5))
    assertCode(.unreachable) { _ = try container.list(.root, CallContext()) }
    XCTAssertEqual(flaky.takeCalls().count, 4)
  }

  func testOtherFailuresAreFinal() throws {
    let (flaky, container) = try make()
    for code in [
      ContainerError.Code.notFound, .permissionDenied, .cancelled, .identityMissing, .versionChanged,
      .outOfSpace,
    ] {
      flaky.fail([.before(code)])
      assertCode(code) { _ = try container.list(.root, CallContext()) }
      XCTAssertEqual(flaky.takeCalls(), ["list"])
    }
  }

  func testTheDeadlineEndsItWithTheFailure() throws {
    let folder = try TemporaryFolder()
    let flaky = FlakyContainer(DirectoryContainer(path: Array(folder.path.utf8)))
    let container = RetryingContainer(flaky, .init(attempts: 100, firstPause: 3_600, longestPause: 3_600))
    flaky.fail([.before(.unreachable)])
    assertCode(.unreachable) { _ = try container.list(.root, CallContext(timeout: 0.05)) }
    XCTAssertEqual(flaky.takeCalls(), ["list"])
  }

  func testAReadGoesOnWhereItWas() throws {
    let (flaky, container) = try make()
    let bytes = (0..<700_000).map { UInt8(truncatingIfNeeded: $0 / 1_000) }
    let item = try container.put(
      path("a"), from: BytesSource(bytes), attributes: .init(), if: .absent, CallContext())
    _ = flaky.takeCalls()
    flaky.cutRead(after: 1)
    XCTAssertEqual(try container.contents(path("a"), item), bytes)
    XCTAssertEqual(flaky.takeCalls(), ["read 0..<700000", "read 262144..<700000"])
  }

  func testTheSinksErrorIsFinalEvenIfItLooksTransient() throws {
    let (flaky, container) = try make()
    let item = try container.put(path("a"), "x")
    _ = flaky.takeCalls()
    assertCode(.unreachable) {
      try container.read(path("a"), version: item.version, range: 0..<1, CallContext()) {
        _ throws(ContainerError) in
        throw ContainerError(.unreachable, "the sink's")
      }
    }
    XCTAssertEqual(flaky.takeCalls(), ["read 0..<1"])
  }

  func testChangesThatWereNotMadeAreTriedAgain() throws {
    let (flaky, container) = try make()
    flaky.fail([.before(.timedOut)])
    let a = try container.put(path("a"), "x")
    XCTAssertEqual(flaky.takeCalls(), ["put", "item", "put"])
    flaky.fail([.before(.timedOut)])
    let b = try container.rename(path("a"), to: path("b"), version: a.version, CallContext())
    flaky.fail([.before(.timedOut)])
    let c = try container.put(path("b"), "y", if: .version(b.version))
    flaky.fail([.before(.timedOut)])
    let d = try container.setAttributes(path("b"), .init(mode: 0o600), version: c.version, CallContext())
    flaky.fail([.before(.timedOut)])
    try container.remove(path("b"), kind: .file, version: d.version, CallContext())
    flaky.fail([.before(.timedOut)])
    _ = try container.makeFolder(path("f"), attributes: .init(), CallContext())
    flaky.fail([.before(.timedOut)])
    _ = try container.makeSymlink(path("l"), target: [0x78], attributes: .init(), CallContext())
    XCTAssertEqual(try container.list(.root, CallContext()).count, 2)
  }

  func testChangesThatWereMadeAreNotMadeTwice() throws {
    let (flaky, container) = try make()
    flaky.fail([.after(.timedOut)])
    assertCode(.timedOut) { try container.put(path("a"), "x") }
    XCTAssertEqual(flaky.takeCalls(), ["put", "item"])
    let a = try XCTUnwrap(container.item(at: path("a"), CallContext()))
    flaky.fail([.after(.timedOut)])
    assertCode(.timedOut) { try container.put(path("a"), "y", if: .version(a.version)) }
    let b = try XCTUnwrap(container.item(at: path("a"), CallContext()))
    flaky.fail([.after(.timedOut)])
    assertCode(.timedOut) {
      _ = try container.rename(path("a"), to: path("b"), version: b.version, CallContext())
    }
    XCTAssertEqual(try container.current(path("b"))?.bytes, Array("y".utf8))
    flaky.fail([.after(.timedOut)])
    assertCode(.timedOut) { _ = try container.makeFolder(path("f"), attributes: .init(), CallContext()) }
    flaky.fail([.after(.timedOut)])
    assertCode(.timedOut) { try container.remove(path("b"), kind: .file, version: nil, CallContext()) }
    XCTAssertNil(try container.item(at: path("b"), CallContext()))
  }
}

final class ThrottledContainerTests: XCTestCase {
  private func make(latency: Double, rate: Int64?) throws -> (
    fast: DirectoryContainer, slow: ThrottledContainer
  ) {
    let folder = try TemporaryFolder()
    addTeardownBlock { folder.remove() }
    let fast = DirectoryContainer(path: Array(folder.path.utf8))
    return (fast, ThrottledContainer(fast, latency: latency, rate: rate))
  }

  func testLatencyEndsAtTheDeadlineAndWhenCancelled() throws {
    let (_, slow) = try make(latency: 3_600, rate: nil)
    assertCode(.timedOut) { _ = try slow.list(.root, CallContext(timeout: 0.01)) }
    assertCode(.timedOut) { _ = try slow.item(at: .root, CallContext(timeout: 0.01)) }
    let call = CallContext()
    onThreads(2) { number in
      if number == 0 { return call.cancel() }
      assertCode(.cancelled) {
        _ = try slow.put(path("a"), from: BytesSource("x"), attributes: .init(), if: .absent, call)
      }
    }
    slow.set(latency: 0, rate: nil)
    XCTAssertEqual(try slow.list(.root, CallContext()), [])
  }

  /// Somebody waits for an hour's latency, another for a byte a second: both go on when that is no longer so.
  func testWhoeverWaitsGoesOnWhenItIsNoLongerSlow() throws {
    let (fast, slow) = try make(latency: 3_600, rate: 1)
    let source = try fast.put(path("a"), String(repeating: "x", count: 100_000))
    let began = Guarded(0)
    @Sendable func ask() {
      began.signal { $0 += 1 }
      XCTAssertEqual(try slow.list(.root, CallContext(timeout: 60)).count, 1)
      XCTAssertEqual(try slow.contents(path("a"), source, nil, CallContext(timeout: 60)).count, 100_000)
    }
    onThreads(3) { number in
      if number == 0 {
        XCTAssertTrue(began.wait(until: Clock.now() + 30_000_000_000) { $0 == 2 })
        slow.set(latency: 0, rate: 1)
        slow.set(latency: 0, rate: nil)
      } else {
        ask()
      }
    }
  }

  func testSlownessEndsWithItsTime() throws {
    let (_, slow) = try make(latency: 0, rate: nil)
    slow.set(latency: 3_600, rate: 1, until: Clock.now() + 50_000_000)
    XCTAssertEqual(try slow.list(.root, CallContext(timeout: 60)), [])
    _ = try slow.put(path("a"), "bytes that would take long")
  }

  func testTransfersEndWhenCancelled() throws {
    let (fast, slow) = try make(latency: 0, rate: 1)
    let bytes = [UInt8](repeating: 1, count: 100_000)
    assertCode(.timedOut) {
      _ = try slow.put(
        path("a"), from: BytesSource(bytes), attributes: .init(), if: .absent, CallContext(timeout: 0.01))
    }
    XCTAssertEqual(try fast.list(.root, CallContext()), [])
    let item = try fast.put(
      path("a"), from: BytesSource(bytes), attributes: .init(), if: .absent, CallContext())
    assertCode(.timedOut) { _ = try slow.contents(path("a"), item, nil, CallContext(timeout: 0.01)) }
  }

  /// However fast the machine is, a transfer takes no less than its bytes need; two share the line.
  func testTheRateIsSharedByAllTransfers() throws {
    let (fast, slow) = try make(latency: 0, rate: 1 << 20)
    let bytes = [UInt8](repeating: 1, count: 100 << 10)
    let item = try fast.put(
      path("a"), from: BytesSource(bytes), attributes: .init(), if: .absent, CallContext())
    let start = Clock.now()
    onThreads(2) { _ in XCTAssertEqual(try? slow.contents(path("a"), item), bytes) }
    XCTAssertGreaterThanOrEqual(Clock.now() - start, 190_000_000)
  }
}
