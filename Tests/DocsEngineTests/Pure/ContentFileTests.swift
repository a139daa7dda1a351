import Containers
import StorageErrors
import TestSupport
import XCTest

@testable import DocsEngine

/// Which file the bytes of a fetch go to, whatever becomes of the content while it is on its way.
final class ContentFileTests: XCTestCase {
  private var folder: TemporaryFolder!
  private var store: ContentStore!

  override func setUpWithError() throws {
    folder = try TemporaryFolder()
    store = try ContentStore(stateDirectory: folder.path)
  }

  override func tearDown() {
    store = nil
    folder.remove()
  }

  /// A placeholder of 10 bytes whose fetch was planned into file 7.
  private func placeholder() -> Content {
    let local = LocalBytes(
      number: 7, file: nil, whole: false, extents: RangeSet(), size: 10, version: SampleItems.version("v1"))
    return Content(owner: Item(SampleItems.record(2, "f")), node: NodeID(2), local)
  }

  func testAFetchWritesToTheFileItWasPlannedFor() throws {
    let content = placeholder()
    let file = try content.openFile(store, number: 7, of: 0)
    try writeAll(file.fd, Array("0123456789".utf8), at: 0)
    XCTAssertEqual(store.info(7)?.size, 10)
    XCTAssert(try content.openFile(store, number: 7, of: 0) === file)
  }

  /// Overwritten between the plan and the open: file 8 has the new bytes, and the old ones must not come over them.
  func testAFetchNeverWritesToTheFileThatTookItsPlace() throws {
    let content = placeholder()
    content.local.withLock { local in
      (local.number, local.generation, local.whole, local.size, local.version) = (8, 1, true, 3, nil)
    }
    let new = try content.openFile(store, create: true)
    try writeAll(new.fd, Array("new".utf8), at: 0)
    assertCancelled { _ = try content.openFile(self.store, number: 7, of: 0) }
    assertCancelled { _ = try content.openFile(self.store, number: 8, of: 0) }
    XCTAssertEqual(store.info(8)?.size, 3)
    XCTAssertNil(store.info(7), "nothing is left of what was planned")
  }

  func testAnEvictionInBetweenEndsTheFetch() {
    let content = placeholder()
    content.local.withLock { local in (local.number, local.generation) = (0, 1) }
    assertCancelled { _ = try content.openFile(self.store, number: 7, of: 0) }
    XCTAssertEqual(store.numbers(), [])
  }

  private func assertCancelled(line: UInt = #line, _ body: () throws -> Void) {
    XCTAssertThrowsError(try body(), line: line) { XCTAssertEqual($0 as? Errno, .ECANCELED, line: line) }
  }
}
