import CLinux
import Foundation
import TestSupport
import XCTest

@testable import Containers

final class LogTests: XCTestCase {
  private func text(_ message: String, _ fields: Log.Fields, forJournal: Bool = false) -> String {
    let line = LogLine(.warning, Timestamp(nanoseconds: 1_000_000_001), message, fields)
    return String(decoding: line.bytes(forJournal: forJournal), as: UTF8.self)
  }

  func testLogfmt() {
    XCTAssertEqual(
      text("upload failed", ["path": "/a", "error": "no room: \"x\\y\"", "count": 3, "empty": "", "sign": "a=b"]),
      "time=1970-01-01T00:00:01.000000001Z level=warning msg=\"upload failed\" path=/a error=\"no room: \\\"x\\\\y\\\"\" "
        + "count=3 empty=\"\" sign=\"a=b\"\n")
  }

  func testTheJournalsForm() {
    XCTAssertEqual(text("upload failed", ["path": "/a b"], forJournal: true), "<4>upload failed path=\"/a b\"\n")
    XCTAssertEqual(Log.Level.allCases.map(\.rawValue), [3, 4, 6, 7], "syslog's numbers")
  }

  /// A name may hold anything: no line can be forged with it, and no terminal be told something.
  func testOneLineWhateverIsInIt() {
    for forJournal in [false, true] {
      let line = text("m\n<0>forged", ["path": "a\nlevel=error\u{1b}[2J\u{7f}\t"], forJournal: forJournal)
      XCTAssertEqual(line.unicodeScalars.filter { $0.value < 0x20 || $0.value == 0x7f }, ["\n"], line)
      XCTAssertTrue(line.contains("\"a\\nlevel=error\\u001b[2J\\u007f\\t\""), line)
    }
  }

  func testALongLineIsCutBetweenCharacters() {
    for shift in 0..<4 {
      let line = text(String(repeating: "a", count: shift), ["path": String(repeating: "é𝄞", count: 2000)])
      XCTAssertLessThanOrEqual(line.utf8.count, LogLine.longest)
      XCTAssertGreaterThan(line.utf8.count, LogLine.longest - 8)
      XCTAssertFalse(line.contains("\u{FFFD}"))
      XCTAssertTrue(line.hasSuffix("…\n"))
    }
  }

  func testAFileIsBegunAnew() throws {
    let folder = try TemporaryFolder()
    let path = folder.path + "/log"
    let file = lx_open(path, O_WRONLY | O_CREAT | O_APPEND, 0o600)
    XCTAssertGreaterThanOrEqual(file, 0)
    defer { close(file) }
    var output = LogOutput(standardError: file)
    output.useFile(path, limit: 2000)
    for number in 0..<200 { output.write(LogLine(.info, .now(), "a line", ["number": number])) }
    let (new, old) = (
      try String(contentsOfFile: path, encoding: .utf8), try String(contentsOfFile: path + ".1", encoding: .utf8)
    )
    for text in [new, old] {
      XCTAssertLessThanOrEqual(text.utf8.count, 2000)
      XCTAssertTrue(text.hasPrefix("time=") && text.hasSuffix("\n"))
    }
    XCTAssertTrue(new.hasSuffix("number=199\n"))
    let numbers = (old + new).split(separator: "\n").compactMap { Int($0.split(separator: "=").last ?? "") }
    XCTAssertEqual(numbers, Array((200 - numbers.count)..<200), "none is lost in between")
    XCTAssertEqual(try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted(), ["log", "log.1"])
    XCTAssertEqual(remove(path), 0)
    for number in 0..<50 { output.write(LogLine(.info, .now(), "a line", ["number": number])) }
    XCTAssertTrue(FileManager.default.fileExists(atPath: path), "one that somebody removed is made again")
    // What others print to standard error follows.
    XCTAssertEqual(write(file, "x", 1), 1)
    XCTAssertTrue(try String(contentsOfFile: path, encoding: .utf8).hasSuffix("\nx"))
  }

  /// Whoever reads the log may stop to: nobody waits for that.
  func testAReaderThatStopsHoldsNobodyUp() {
    var ends: [Int32] = [-1, -1]
    XCTAssertEqual(lx_pipe(&ends), 0)
    defer { ends.forEach { close($0) } }
    var output = LogOutput(standardError: ends[1])
    output.useStandardError()
    let long = String(repeating: "x", count: 3000)
    for _ in 0..<100 { output.write(LogLine(.info, .now(), long, [:])) }
    XCTAssertGreaterThan(output.dropped, 0)
    var room = [UInt8](repeating: 0, count: 1 << 20)
    XCTAssertGreaterThan(read(ends[0], &room, room.count), 0)
    let dropped = output.dropped
    output.write(LogLine(.info, .now(), "again", [:]))
    let count = read(ends[0], &room, room.count)
    let lines = String(decoding: room.prefix(max(0, count)), as: UTF8.self).split(separator: "\n")
    XCTAssertEqual(lines.count, 2)
    XCTAssertTrue(lines.first?.hasSuffix("msg=\"log lines were dropped\" lines=\(dropped)") ?? false, "\(lines)")
    XCTAssertTrue(lines.last?.hasSuffix("msg=again") ?? false, "\(lines)")
  }
}
