import Containers
import XCTest

@testable import DocsEngine

/// A file that takes the name of another one replaces that very version at the container, in one step.
final class HandingOnTests: XCTestCase {
  private func put(_ version: String) -> UploadStep { .put(.version(SampleItems.version(version))) }

  /// An editor's save: a new file, renamed over the old one.
  private func save(_ world: PlanWorld, temporaryIsThere: Bool, size: Int64 = 10) -> (old: Item, new: Item) {
    let old = world.add("doc", version: "doc1")
    let new = world.add(".doc.tmp", version: temporaryIsThere ? "tmp1" : nil)
    new.record.size = size
    new.record.remote?.size = size
    world.move(new, to: "doc")
    return (old, new)
  }

  func testAnEditorsSaveReplacesTheVersionThatItRead() throws {
    for oldIsFirst in [false, true] {
      let world = PlanWorld()
      let (old, new) = save(world, temporaryIsThere: false)
      if oldIsFirst { XCTAssertEqual(try world.plan(old), .discard) }
      XCTAssertEqual(try world.plan(new), put("doc1"))
      XCTAssertEqual(try world.plan(old), .discard)
      XCTAssert(new.record.flags.contains(.attributesDirty))
    }
  }

  func testATemporaryFileThatWasUploadedGoesAfterwards() throws {
    let world = PlanWorld()
    let (old, new) = save(world, temporaryIsThere: true)
    XCTAssertEqual(try world.plan(new), put("doc1"))
    XCTAssertEqual(old.record.remote?.place.name, SampleItems.name(".doc.tmp"))
    XCTAssertEqual(try world.plan(old), .remove)
    XCTAssertEqual(world.state.vacating[.root], [SampleItems.name(".doc.tmp"): old.id])
  }

  func testALargeFileIsMovedRatherThanSentAgain() throws {
    let world = PlanWorld()
    let (old, new) = save(world, temporaryIsThere: true, size: 1 << 30)
    XCTAssertEqual(try world.plan(new), .blocked(on: old.id))
    XCTAssertEqual(try world.plan(old), .remove)
    world.finishRemoval(old)
    XCTAssertEqual(try world.plan(new), .rename)
  }

  func testAPlaceholderIsNotSent() throws {
    let world = PlanWorld()
    let old = world.add("doc", version: "doc1")
    let new = world.add("other", version: "other1", flags: [])
    world.move(new, to: "doc")
    XCTAssertEqual(try world.plan(new), .blocked(on: old.id))
    XCTAssertEqual(try world.plan(old), .remove)
  }

  func testDeletedAndMadeAnewReplaces() throws {
    let world = PlanWorld()
    let old = world.add("doc", version: "doc1")
    world.delete(old)
    let new = world.add("doc")
    XCTAssertEqual(try world.plan(old), .discard)
    XCTAssertEqual(try world.plan(new), put("doc1"))
  }

  func testNothingIsHandedOnWhileItIsUploaded() throws {
    for uploading in 0...1 {
      let world = PlanWorld()
      let (old, new) = save(world, temporaryIsThere: false)
      if uploading == 0 { old.isUploading = true } else { new.isUploading = true }
      XCTAssertEqual(try world.plan(new), .blocked(on: old.id))
      XCTAssertEqual(old.record.remote?.version, SampleItems.version("doc1"))
    }
  }

  func testKindsAreNotMixed() throws {
    let world = PlanWorld()
    let old = world.add("name", version: "v1")
    world.delete(old)
    let link = world.add("name", kind: .symlink)
    XCTAssertEqual(try world.plan(link), .blocked(on: old.id))
    XCTAssertEqual(try world.plan(old), .remove)
  }
}
