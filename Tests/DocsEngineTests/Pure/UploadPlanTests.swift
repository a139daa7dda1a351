import Containers
import XCTest

@testable import DocsEngine

final class UploadPlanTests: XCTestCase {
  private func put(_ version: String) -> UploadStep { .put(.version(SampleItems.version(version))) }

  func testWhatWasMadeHereIsMadeThere() throws {
    let world = PlanWorld()
    XCTAssertEqual(try world.plan(world.add("file")), .put(.absent))
    XCTAssertEqual(try world.plan(world.add("folder", kind: .folder)), .makeFolder)
    XCTAssertEqual(try world.plan(world.add("link", kind: .symlink)), .makeSymlink)
  }

  func testWhatDoesNotDifferIsSettled() throws {
    let world = PlanWorld()
    XCTAssertEqual(try world.plan(world.add("file", version: "v1")), .settled)
    let gone = world.add("gone", version: "v1")
    gone.isGone = true
    XCTAssertEqual(try world.plan(gone), .settled)
  }

  func testAnEditReplacesItsBaseVersion() throws {
    let world = PlanWorld()
    let file = world.add("file", version: "v1")
    world.edit(file)
    file.record.flags.insert(.attributesDirty)
    XCTAssertEqual(try world.plan(file), put("v1"), "the attributes go with the bytes")
    world.state.setDirty(file, false)
    XCTAssertEqual(try world.plan(file), .setAttributes)
  }

  // MARK: Coalescing

  func testMadeAndDeletedIsNothing() throws {
    let world = PlanWorld()
    let file = world.add("file")
    world.edit(file)
    world.move(file, to: "other")
    world.delete(file)
    XCTAssertEqual(try world.plan(file), .discard)
  }

  func testMadeAndRenamedIsMadeAtItsLastName() throws {
    let world = PlanWorld()
    let file = world.add("file")
    world.move(file, to: "other")
    XCTAssertEqual(try world.plan(file), .put(.absent))
  }

  func testRenamedAndEditedAndDeletedIsDeleted() throws {
    let world = PlanWorld()
    let file = world.add("file", version: "v1")
    world.move(file, to: "other")
    world.edit(file)
    world.delete(file)
    XCTAssertEqual(try world.plan(file), .remove)
  }

  func testThereAndBackIsNothing() throws {
    let world = PlanWorld()
    let file = world.add("file", version: "v1")
    world.move(file, to: "other")
    world.move(file, to: "third")
    XCTAssertEqual(try world.plan(file), .rename)
    world.move(file, to: "file")
    XCTAssertEqual(try world.plan(file), .settled)
    XCTAssert(world.state.vacating.isEmpty)
  }

  func testARenamedFileIsMovedFirstAndSentThen() throws {
    let world = PlanWorld()
    let file = world.add("file", version: "v1")
    world.edit(file)
    world.move(file, to: "other")
    XCTAssertEqual(try world.plan(file), .rename)
    world.finish(file, version: "v2")
    XCTAssertEqual(try world.plan(file), put("v2"))
  }

  // MARK: Order

  func testAFolderComesBeforeWhatIsInIt() throws {
    let world = PlanWorld()
    let folder = world.add("folder", kind: .folder)
    let file = world.add("file", in: folder)
    let moved = world.add("moved", version: "v1")
    world.move(moved, to: "moved", in: folder)
    XCTAssertEqual(try world.plan(file), .blocked(on: folder.id))
    XCTAssertEqual(try world.plan(moved), .blocked(on: folder.id))
    world.finish(folder, version: "d1")
    XCTAssertEqual(try world.plan(file), .put(.absent))
    XCTAssertEqual(try world.plan(moved), .rename)
  }

  func testAFolderGoesAfterWhatIsInIt() throws {
    let world = PlanWorld()
    let folder = world.add("folder", kind: .folder, version: "d1")
    let (gone, moved) = (
      world.add("gone", in: folder, version: "v1"), world.add("moved", in: folder, version: "v1")
    )
    world.delete(gone)
    world.move(moved, to: "moved")
    world.delete(folder)
    guard case .blocked(let first) = try world.plan(folder) else { return XCTFail("removed with children") }
    XCTAssert([gone.id, moved.id].contains(first))
    XCTAssertEqual(try world.plan(gone), .remove)
    XCTAssertEqual(try world.plan(moved), .rename)
    world.finishRemoval(gone)
    XCTAssertEqual(try world.plan(folder), .blocked(on: moved.id))
    world.finish(moved, version: "v2")
    XCTAssertEqual(try world.plan(folder), .remove)
  }

  func testAParentThatIsNotInMemoryIsAskedFor() throws {
    let world = PlanWorld()
    let folder = world.add("folder", kind: .folder, version: "d1")
    let file = world.add("file", in: folder)
    world.state.items[folder.id] = nil
    XCTAssertThrowsError(try world.plan(file)) { error in
      guard case Need.item(folder.id)? = error as? Need else { return XCTFail("\(error)") }
    }
  }

  // MARK: Places that are taken

  func testTheLastOneOfANameHasToGoFirst() throws {
    let world = PlanWorld()
    let old = world.add("name", kind: .folder, version: "d1")
    world.delete(old)
    let new = world.add("name")
    XCTAssertEqual(try world.plan(new), .blocked(on: old.id))
    XCTAssertEqual(try world.plan(old), .remove)
    world.finishRemoval(old)
    XCTAssertEqual(try world.plan(new), .put(.absent))
  }

  func testAChainOfRenamesGoesFromItsEnd() throws {
    let world = PlanWorld()
    let (a, b) = (world.add("a", version: "a1"), world.add("b", version: "b1"))
    world.move(b, to: "c")
    world.move(a, to: "b")
    XCTAssertEqual(try world.plan(a), .blocked(on: b.id))
    XCTAssertEqual(try world.plan(b), .rename)
    world.finish(b, version: "b2")
    XCTAssertEqual(try world.plan(a), .rename)
  }

  func testASwapGoesOverAThirdPlace() throws {
    for count in [2, 3] {
      let world = PlanWorld()
      let all = ["a", "b", "c"].prefix(count).map { world.add($0, version: "\($0)1") }
      if count == 2 { world.swap(all[0], all[1]) } else { world.swap(all[0], all[1], all[2]) }
      XCTAssertEqual(try world.plan(all[0]), .park)
      world.finish(all[0], at: Place(folder: .root, name: SampleItems.name("aside")), version: "a2")
      // Now its old place is free: the others follow one by one, and it comes last.
      for item in all.reversed() where item !== all[0] {
        XCTAssertEqual(try world.plan(item), .rename)
        world.finish(item, version: "2")
      }
      XCTAssertEqual(try world.plan(all[0]), .rename)
      world.finish(all[0], version: "a3")
      XCTAssert(world.state.vacating.isEmpty)
    }
  }

  // MARK: A job of the last process

  func testAJobOfTheLastProcessIsRecalledFirst() throws {
    let world = PlanWorld()
    let file = world.add("file")
    file.record.job = UploadJob(place: file.record.place, digest: [1], size: 1)
    XCTAssertEqual(try world.plan(file), .recallJob)
    world.delete(file)
    XCTAssertEqual(try world.plan(file), .recallJob, "else a copy would stay at the container")
    file.jobIsOurs = true
    XCTAssertEqual(try world.plan(file), .discard)
  }
}
