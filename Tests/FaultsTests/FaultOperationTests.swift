import XCTest

@testable import Faults

final class FaultOperationTests: XCTestCase {
  /// Counters are kept by it.
  func testTheIndexIsThePlaceInTheList() {
    XCTAssertEqual(FaultOperation.allCases.map(\.index), Array(FaultOperation.allCases.indices))
  }
}
