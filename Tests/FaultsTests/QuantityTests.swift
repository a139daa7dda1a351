import XCTest

@testable import Faults

final class QuantityTests: XCTestCase {
  func testSizes() {
    let expected: [(String, Int64?)] = [
      ("0", 0), ("512", 512), ("512B", 512), ("1K", 1024), ("1KiB", 1024), ("1KB", 1000), ("1kB", 1000),
      ("20MiB", 20 << 20), ("1.5G", 3 << 29), ("2T", 2 << 40), ("7P", 7 << 50), ("9999999P", nil), ("", nil),
      ("-1", nil), ("1 K", nil), ("1.", nil), (".5K", nil), ("1e3", nil), ("K", nil), ("1Kib", nil),
      ("nan", nil),
      ("1..2", nil),
    ]
    for (text, value) in expected { XCTAssertEqual(Quantity.bytes(text), value, text) }
  }

  func testRates() {
    XCTAssertEqual(Quantity.rate("20MiB"), 20 << 20)
    XCTAssertEqual(Quantity.rate("512K/s"), 512 << 10)
    XCTAssertNil(Quantity.rate("0"))
    XCTAssertNil(Quantity.rate("1K/m"))
  }

  func testDurations() {
    let expected: [(String, Double?)] = [
      ("80ms", 0.08), ("1.5s", 1.5), ("3", 3), ("2min", 120), ("2m", 120), ("1h", 3600), ("1d", 86_400),
      ("10us", 1e-5), ("", nil), ("ms", nil), ("-1s", nil), ("1 s", nil), ("99999999999d", nil),
    ]
    for (text, value) in expected {
      XCTAssertEqual(Quantity.seconds(text) ?? -1, value ?? -1, accuracy: 1e-9, text)
    }
  }

  func testPercentages() {
    XCTAssertEqual(Quantity.percent("5%"), 0.05)
    XCTAssertEqual(Quantity.percent("100%"), 1)
    XCTAssertNil(Quantity.percent("101%"))
    XCTAssertNil(Quantity.percent("5"))
  }
}
