import XCTest

@testable import Containers

/// What is given on of answers to a ranged GET, however the server answers and the network cuts it.
final class RangedBodyTests: XCTestCase {
  private let file = (0..<1000).map { UInt8(truncatingIfNeeded: $0) }

  /// The bytes that an answer's body comes to, in pieces of `size`.
  private func given(
    _ range: Range<Int64>, status: Int, contentRange: String? = nil, _ answer: [UInt8], size: Int
  ) throws -> [UInt8] {
    var response = HTTPResponse()
    response.status = status
    response.headers["content-range"] = contentRange
    var body = RangedBody(range)
    try body.begin(response, "read")
    var got: [UInt8] = []
    for start in stride(from: 0, to: answer.count, by: size) {
      try Array(answer[start..<min(start + size, answer.count)]).withUnsafeBytes { piece in
        try body.take(piece) { got += $0 }
      }
    }
    try body.finish(response, "read") { ContainerError(.system(.EIO), "refused") }
    return got
  }

  /// As servers do that ignore ranges; much comes before and behind what was asked for.
  func testTheWholeFileInAnswerToAnyRange() throws {
    for range in [0..<1000, 0..<100, 0..<1, 400..<500, 999..<1000, 1..<999] as [Range<Int64>] {
      for size in [1, 7, 100, 500, 1000] {
        XCTAssertEqual(
          try given(range, status: 200, file, size: size), Array(file[Int(range.lowerBound)..<Int(range.upperBound)]),
          "\(range) in pieces of \(size)")
      }
    }
  }

  func testTheRangeAndMoreThanTheRange() throws {
    for size in [1, 33, 500] {
      XCTAssertEqual(
        try given(400..<500, status: 206, contentRange: "bytes 400-499/1000", Array(file[400..<500]), size: size),
        Array(file[400..<500]))
      XCTAssertEqual(
        try given(400..<500, status: 206, contentRange: "bytes 400-999/1000", Array(file[400...]), size: size),
        Array(file[400..<500]))
    }
  }

  func testWhatIsNoAnswer() {
    func code(_ body: @autoclosure () throws -> [UInt8]) -> ContainerError.Code? {
      do {
        _ = try body()
        return nil
      } catch { return (error as? ContainerError)?.code }
    }
    XCTAssertEqual(code(try given(0..<100, status: 200, Array(file[..<99]), size: 10)), .inconsistent)
    XCTAssertEqual(
      code(try given(5..<9, status: 206, contentRange: "bytes 4-8/1000", Array(file[4..<8]), size: 10)), .inconsistent)
    XCTAssertEqual(code(try given(5..<9, status: 206, Array(file[5..<9]), size: 10)), .inconsistent)
    XCTAssertEqual(code(try given(5..<9, status: 412, [], size: 10)), .versionChanged)
    XCTAssertEqual(code(try given(5..<9, status: 416, [], size: 10)), .versionChanged)
    XCTAssertEqual(code(try given(5..<9, status: 500, [], size: 10)), .system(.EIO))
  }
}
