import Containers
import TestSupport
import XCTest

@testable import DocsEngine

final class PendingOrderTests: XCTestCase {
  private var state = VolumeState()

  private func item(_ id: UInt64, since: Int64) -> Item {
    let item = Item(SampleItems.record(id, "\(id)"))
    item.record.pending = since
    state.items[item.id] = item
    return item
  }

  func testTheOldestThatStillWaits() {
    XCTAssertNil(state.oldestPending)
    let items = (2...5).map { item(UInt64($0), since: Int64($0)) }
    for item in items { state.setPending(item, true) }
    XCTAssertEqual(state.oldestPending?.id, ItemID(2))
    state.setPending(items[0], false)
    state.setPending(items[2], false)
    XCTAssertEqual(state.oldestPending?.id, ItemID(3))
    XCTAssertEqual(state.oldestPending?.since, 3)
    // Edited again after it was uploaded, it has not waited since before.
    state.setPending(items[0], true)
    state.setPending(items[1], false)
    XCTAssertEqual(state.oldestPending?.id, ItemID(5))
    state.setPending(items[3], false)
    XCTAssertEqual(state.oldestPending?.id, ItemID(2))
    XCTAssertGreaterThan(state.oldestPending?.since ?? 0, 5)
  }

  /// One that fails for good at its head, and a million edits behind it.
  func testItDoesNotGrowWithWhatHasBeenUploaded() {
    var order = PendingOrder()
    let stuck = item(2, since: 1)
    state.setPending(stuck, true)
    order.append(stuck, state.pending, state.items)
    for number in 0..<100_000 {
      let passing = item(3, since: Int64(number) + 2)
      state.setPending(passing, true)
      order.append(passing, state.pending, state.items)
      state.setPending(passing, false)
    }
    XCTAssertEqual(order.oldest(state.pending, state.items)?.id, ItemID(2))
    XCTAssertLessThan(order.count, 2_000)
  }

  func testWhatFailsIsKnownUntilItSucceeds() {
    let one = item(2, since: 1)
    state.setPending(one, true)
    state.setError(one, "no room")
    XCTAssertEqual(state.failing, [ItemID(2)])
    state.setError(one, nil)
    XCTAssertEqual(state.failing, [])
    state.setError(one, "no room")
    state.setPending(one, false)
    XCTAssertEqual(state.failing, [])
    // As its row is read at the next mount.
    one.record.pending = 1
    state.pending.insert(one.id)
    state.notePending(one)
    XCTAssertEqual(state.failing, [ItemID(2)])
  }
}
