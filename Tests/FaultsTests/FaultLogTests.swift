import Foundation
import StorageErrors
import XCTest

@testable import Faults

final class FaultLogTests: FaultsTestCase {
  private func object(_ line: FaultLogLine) throws -> [String: Any] {
    XCTAssertFalse(line.text.contains("\n"))
    return try XCTUnwrap(JSONSerialization.jsonObject(with: Data(line.text.utf8)) as? [String: Any])
  }

  func testAFault() throws {
    let rename = call(.rename, "/a \"b\"\n", to: "/é", uid: 5, pid: 7, exe: "/usr/bin/mv")
    let line = FaultLogLine(
      sequence: 3, time: 1_796_061_909_000_000_123,
      .call(rename, rule: "x", effect: "errno=ESTALE", errno: .ESTALE, visible: true))
    let object = try object(line)
    XCTAssertEqual(object["seq"] as? Int, 3)
    XCTAssertEqual(object["time"] as? String, "2026-11-30T18:05:09.000000123Z")
    XCTAssertEqual(object["rule"] as? String, "x")
    XCTAssertEqual(object["op"] as? String, "rename")
    XCTAssertEqual(object["path"] as? String, "/a \"b\"\n")
    XCTAssertEqual(object["newPath"] as? String, "/é")
    XCTAssertEqual(object["errno"] as? String, "ESTALE")
    XCTAssertEqual(object["effect"] as? String, "errno=ESTALE")
    XCTAssertEqual(object["visible"] as? Bool, true)
    XCTAssertEqual(object["pid"] as? Int, 7)
    XCTAssertEqual(object["exe"] as? String, "/usr/bin/mv")
    XCTAssertNil(object["pathBytes"])
    XCTAssertNil(object["offset"])
  }

  func testPathsThatAreNoUTF8LoseNothing() throws {
    let read = FaultCall(.read, path: [0x2f, 0x61, 0xff], offset: 4096, length: 512)
    let object = try object(
      FaultLogLine(sequence: 1, time: 0, .call(read, rule: nil, effect: nil, errno: nil, visible: nil)))
    XCTAssertEqual(object["path"] as? String, "/a\u{fffd}")
    XCTAssertEqual(object["pathBytes"] as? String, "2f61ff")
    XCTAssertEqual(object["offset"] as? Int, 4096)
    XCTAssertEqual(object["length"] as? Int, 512)
    XCTAssertNil(object["rule"])
  }

  func testAMark() throws {
    let object = try object(FaultLogLine(sequence: 1, time: 0, .mark("step\t1")))
    XCTAssertEqual(object["mark"] as? String, "step\t1")
    XCTAssertEqual(object["time"] as? String, "1970-01-01T00:00:00.000000000Z")
  }

  func testTimesAgreeWithFoundation() {
    let formatter = ISO8601DateFormatter()
    for seconds in stride(from: Int64(-2_000_000_000), to: 9_000_000_000, by: 86_400 * 13 + 12_345) {
      let expected = formatter.string(from: Date(timeIntervalSince1970: Double(seconds)))
      XCTAssertEqual(rfc3339(seconds * 1_000_000_000 + 7), expected.dropLast() + ".000000007Z")
    }
  }
}
