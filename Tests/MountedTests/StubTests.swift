import Foundation
import TestSupport
import XCTest

/// `placeholder_style=stub`: placeholders as iOS, and macOS before 14, showed them.
final class StubTests: MountedTestCase {
  private func stubs(_ prepare: (MountedVolume) throws -> Void = { _ in }) throws -> MountedVolume {
    try mount("placeholder_style=stub") { volume in
      try Sys.put(volume.remote("report.pdf"), patterned(70_000, seed: 1))
      try prepare(volume)
    }
  }

  func testAPlaceholderIsAPropertyListOfItsNameAndSize() throws {
    let volume = try stubs()
    XCTAssertEqual(try volume.names(), [".report.pdf.icloud"])
    let stub = volume.path(".report.pdf.icloud")
    let data = Data(try Sys.contents(stub))
    XCTAssertEqual(data.prefix(6), Data("bplist".utf8))
    let list = try XCTUnwrap(PropertyListSerialization.propertyList(from: data, format: nil) as? [String: Any])
    XCTAssertEqual(list["NSURLNameKey"] as? String, "report.pdf")
    XCTAssertEqual(list["NSURLFileSizeKey"] as? Int, 70_000)
    XCTAssertEqual(list["NSURLFileResourceTypeKey"] as? String, "NSURLFileResourceTypeRegular")
    XCTAssertEqual(list.count, 3)
    XCTAssertEqual(try Sys.size(stub), Int64(data.count))
    XCTAssertEqual(try volume.statusNumber("fetchedBytes"), 0, "reading a stub fetches nothing")
  }

  func testItTurnsIntoItsNameAndBack() throws {
    let volume = try stubs()
    try volume.run("materialize", volume.path("report.pdf"))
    try assertEventually("by its name") { try volume.names() == ["report.pdf"] }
    XCTAssertFalse(Sys.exists(volume.path(".report.pdf.icloud")))
    assertBytes(try Sys.contents(volume.path("report.pdf")), patterned(70_000, seed: 1))
    try volume.run("evict", volume.path("report.pdf"))
    try assertEventually("a stub again") { try volume.names() == [".report.pdf.icloud"] }
    XCTAssertTrue(Sys.exists(volume.path(".report.pdf.icloud")))
  }

  func testTheRealNameOpensIt() throws {
    let volume = try stubs()
    assertBytes(try Sys.contents(volume.path("report.pdf")), patterned(70_000, seed: 1))
    try assertEventually("by its name") { try volume.names() == ["report.pdf"] }
  }

  func testWhatIsDoneToAStubIsDoneToItsItem() throws {
    let volume = try stubs { try Sys.put($0.remote("other"), "some words") }
    try volume.must("mkdir $M/d && mv $M/.report.pdf.icloud $M/d/.moved.pdf.icloud && chmod 600 $M/d/.moved.pdf.icloud")
    XCTAssertEqual(try volume.names("d"), [".moved.pdf.icloud"])
    try volume.must("rm $M/.other.icloud")
    XCTAssertEqual(try volume.names(), ["d"])
    try volume.settle()
    XCTAssertEqual(try volume.remoteNames(), ["d"])
    assertBytes(try Sys.contents(volume.remote("d/moved.pdf")), patterned(70_000, seed: 1))
    XCTAssertEqual(try Sys.info(volume.remote("d/moved.pdf")).permissions, 0o600)
    XCTAssertEqual(try volume.statusNumber("fetchedBytes"), 0)
  }

  func testAStubCannotBeWritten() throws {
    let volume = try stubs()
    let stub = volume.path(".report.pdf.icloud")
    assertErrno(.EACCES) { _ = try OpenFile(stub, O_RDWR) }
    XCTAssertFalse(volume.shell("truncate -s 0 \(stub)").succeeded)
    try volume.settle()
    assertBytes(try Sys.contents(volume.remote("report.pdf")), patterned(70_000, seed: 1))
  }

  func testNamesThatAStubCannotHaveAreShownAsTheyAre() throws {
    let long = String(repeating: "n", count: 248)
    let fits = String(repeating: "m", count: 247)
    let volume = try stubs { volume in
      try Sys.put(volume.remote(long), "x")
      try Sys.put(volume.remote(fits), "x")
      try Sys.put(volume.remote("empty"), "")
    }
    XCTAssertEqual(
      Set(try volume.names()), [long, ".\(fits).icloud", "empty", ".report.pdf.icloud"])
  }
}
