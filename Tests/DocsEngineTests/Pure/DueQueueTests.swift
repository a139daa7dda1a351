import Containers
import TestSupport
import XCTest

@testable import DocsEngine

final class DueQueueTests: XCTestCase {
  private func item(_ id: UInt64, due: UInt64) -> Item {
    let item = Item(SampleItems.record(id, "\(id)"))
    item.dueAt = due
    item.isScheduled = true
    return item
  }

  func testWhatIsDueFirstComesFirst() {
    var random = SeededRandom(3)
    var queue = DueQueue()
    let dues = (0..<500).map { _ in UInt64.random(in: 1...400, using: &random) }
    for (index, due) in dues.enumerated() { queue.push(due, item(UInt64(index + 2), due: due)) }
    var seen: [UInt64] = []
    while let next = queue.popDue(.max) {
      XCTAssertFalse(next.isScheduled)
      seen.append(next.dueAt)
    }
    XCTAssertEqual(seen, dues.sorted())
  }

  func testNothingBeforeItsTime() {
    var queue = DueQueue()
    XCTAssertNil(queue.popDue(.max))
    queue.push(10, item(2, due: 10))
    XCTAssertNil(queue.popDue(9))
    XCTAssertEqual(queue.nextDue, 10)
    XCTAssertNotNil(queue.popDue(10))
    XCTAssertNil(queue.nextDue)
  }

  func testOneThatWasPutOffComesAtItsNewTime() {
    var queue = DueQueue()
    let putOff = item(2, due: 10)
    queue.push(10, putOff)
    putOff.dueAt = 30
    XCTAssertNil(queue.popDue(20))
    XCTAssertEqual(queue.nextDue, 30)
    XCTAssert(queue.popDue(30) === putOff)
  }

  func testOneThatIsThereTwiceComesOnce() {
    var queue = DueQueue()
    let twice = item(2, due: 10)
    queue.push(10, twice)
    queue.push(5, twice)
    XCTAssert(queue.popDue(20) === twice)
    XCTAssertNil(queue.popDue(20))
  }
}
