import Containers
import XCTest

@testable import DocsEngine

final class EngineConflictNameTests: XCTestCase {
  private func conflict(_ name: [UInt8]) throws -> ItemName { Volume.conflictName(try ItemName(name)) }

  func testTheStemAndTheEndingStay() throws {
    let name = try conflict(Array("letter.txt".utf8)).description
    XCTAssert(name.hasPrefix("letter (conflict ") && name.hasSuffix(").txt"), name)
  }

  func testNamesWithoutAnEnding() throws {
    for stem in ["Makefile", ".profile"] {
      let name = try conflict(Array(stem.utf8)).description
      XCTAssert(name.hasPrefix("\(stem) (conflict ") && name.hasSuffix(")"), name)
    }
  }

  func testTheLongestNamesFit() throws {
    for ending in ["", ".txt", "." + String(repeating: "x", count: 200)] {
      let stem = String(repeating: "a", count: 255 - ending.utf8.count)
      let name = try conflict(Array((stem + ending).utf8))
      XCTAssertLessThanOrEqual(name.bytes.count, 255)
      XCTAssert(name.description.contains(" (conflict "), name.description)
      if ending == ".txt" { XCTAssert(name.description.hasSuffix(").txt")) }
    }
  }

  func testCharactersAreNotCutInTwo() throws {
    for count in [120, 125] {
      let name = try conflict(Array((String(repeating: "é", count: count) + ".txt").utf8))
      XCTAssertFalse(name.description.contains("\u{fffd}"), name.description)
    }
  }

  func testBytesThatAreNoText() throws {
    let name = try conflict([0xff, 0xfe, 0x2e, 0x80])
    XCTAssertEqual(Array(name.bytes.prefix(2)), [0xff, 0xfe])
    XCTAssertEqual(Array(name.bytes.suffix(2)), [0x2e, 0x80])
    XCTAssertLessThanOrEqual(try conflict([UInt8](repeating: 0xbf, count: 255)).bytes.count, 255)
  }

  func testAFreeNameIsFound() throws {
    let folder = Folder()
    let name = try ItemName([UInt8](repeating: 0x61, count: 255))
    XCTAssertEqual(Volume.freeName(name, in: folder), name)
    folder.insert(name, ItemID(2))
    var taken: Set<ItemName> = [name]
    for id in UInt64(3)..<20 {
      let free = Volume.freeName(name, in: folder)
      XCTAssert(taken.insert(free).inserted)
      folder.insert(free, ItemID(id))
    }
  }
}
