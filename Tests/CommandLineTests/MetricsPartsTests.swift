import XCTest

@testable import docsfs

final class MetricsPartsTests: XCTestCase {
  func testAddresses() throws {
    for text in ["127.0.0.1:9464", "127.8.9.1:0", "localhost:1", "[::1]:9464", "public:0.0.0.0:9464", "public:[::]:1"] {
      XCTAssertNoThrow(try MetricsAddress(text), text)
    }
    for text in [
      "0.0.0.0:9464", "192.168.1.2:80", "[::]:9464", "[::ffff:10.0.0.1]:1", "", "9464", ":9464", "127.0.0.1",
      "127.0.0.1:",
      "127.0.0.1:65536", "127.0.0.1:-1", "::1:9464", "example.org:80", "public:", "public:example.org:1",
      "[127.0.0.1]:1",
    ] {
      XCTAssertThrowsError(try MetricsAddress(text), text) { XCTAssertEqual(($0 as? Failure)?.exitCode, 64, text) }
    }
    XCTAssertThrowsError(try MetricsAddress("10.0.0.1:80")) {
      XCTAssertTrue("\($0)".contains("metrics=public:10.0.0.1:80"), "\($0)")
    }
  }

  func testExposition() {
    var page = Exposition()
    page.add(.gauge, "one", "Back\\slash\nand line.", 1.5)
    page.add(.counter, "some_total", "Labels.") { family in
      family.sample(["a": "x\"y\\z\n", "b": ""], UInt64.max)
      family.sample([:], 0)
    }
    page.add(.histogram, "time_seconds", "Buckets.") {
      $0.histogram(["op": "x"], bounds: [0.001, 1], cumulative: [1, 2, 4], sum: 3.25)
    }
    XCTAssertEqual(
      page.text,
      """
      # HELP one Back\\\\slash\\nand line.
      # TYPE one gauge
      one 1.5
      # HELP some_total Labels.
      # TYPE some_total counter
      some_total{a="x\\"y\\\\z\\n",b=""} 18446744073709551615
      some_total 0
      # HELP time_seconds Buckets.
      # TYPE time_seconds histogram
      time_seconds_bucket{op="x",le="0.001"} 1
      time_seconds_bucket{op="x",le="1"} 2
      time_seconds_bucket{op="x",le="+Inf"} 4
      time_seconds_sum{op="x"} 3.25
      time_seconds_count{op="x"} 4

      """)
  }
}
