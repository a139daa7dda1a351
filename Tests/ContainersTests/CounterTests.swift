import Dispatch
import Faults
import TestSupport
import XCTest

@testable import Containers

final class CounterTests: XCTestCase {
  func testNothingIsLostBetweenThreads() {
    let (counter, table) = (Counter(), CounterTable(rows: 2, columns: 3))
    DispatchQueue.concurrentPerform(iterations: 8) { number in
      for _ in 0..<10_000 {
        counter.add(3)
        table.add(row: number % 2, column: 1)
      }
    }
    XCTAssertEqual(counter.value, 240_000)
    XCTAssertEqual((0..<2).map { table.value(row: $0, column: 1) }, [40_000, 40_000])
    table.add(row: 2, column: 0)
    table.add(row: 0, column: -1)
    XCTAssertEqual((0..<2).map { table.value(row: $0, column: 0) }, [0, 0], "what lies outside is not counted")
  }

  func testBucketsHoldTheirUpperEnds() {
    let histogram = DurationHistogram()
    for milliseconds in [0, 1, 2, 5, 60_000, 60_001] { histogram.add(nanoseconds: UInt64(milliseconds) * 1_000_000) }
    XCTAssertEqual(histogram.cumulative.prefix(3), [2, 4, 4])
    XCTAssertEqual(histogram.cumulative.suffix(2), [5, 6])
    XCTAssertEqual(histogram.sum, 120.009, accuracy: 1e-9)
  }

  func testEachAttemptCountsByItsOutcome() throws {
    let folder = try TemporaryFolder()
    addTeardownBlock { folder.remove() }
    let flaky = FlakyContainer(DirectoryContainer(path: Array(folder.path.utf8)))
    let measured = MeasuredContainer(flaky)
    let retrying = RetryingContainer(measured, .init(attempts: 5, firstPause: 0.001, longestPause: 0.002))
    flaky.fail([.before(.busy), .before(.busy)])
    _ = try retrying.list(.root, CallContext(timeout: 10))
    XCTAssertEqual(measured.traffic.requests(.list, .busy), 2)
    XCTAssertEqual(measured.traffic.requests(.list, .ok), 1)
    XCTAssertEqual(measured.traffic.durations(.list).cumulative.last, 3)
    XCTAssertEqual(retrying.retries.value, 2)
  }
}
