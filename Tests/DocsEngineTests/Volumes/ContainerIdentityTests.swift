import Containers
import Foundation
import StorageErrors
import TestSupport
import XCTest

@testable import DocsEngine

/// A container that is another one, or shows nothing, is no deletion of everything.
final class ContainerIdentityTests: XCTestCase {
  func testAnotherContainerInItsPlaceCutsTheLink() throws {
    let bench = try VolumeBench(["doc": "text", "placeholder": "1"])
    XCTAssertEqual(try bench.driver.text("doc"), "text")
    try bench.swapContainer()
    try? bench.volume.refresh(.root)
    XCTAssert(eventually { bench.volume.status().link == "disconnected(cloud)" })
    XCTAssertNotNil(bench.volume.status().linkReason)
    XCTAssertEqual(try bench.driver.list(), ["doc", "placeholder"])
    XCTAssertEqual(try bench.driver.text("doc"), "text")
    XCTAssertThrowsError(try bench.driver.open("placeholder")) { XCTAssertEqual($0 as? Errno, .ENXIO) }
    try bench.driver.write("doc", "mine")
    XCTAssertEqual(try bench.names(), [], "nothing goes to a stranger")
    try bench.restoreContainer()
    bench.idle()
    XCTAssertEqual(try bench.text("doc"), "mine")
  }

  func testAnotherContainerAtTheNextMountCutsTheLink() throws {
    let bench = try VolumeBench(["doc": "text"])
    XCTAssertEqual(try bench.driver.text("doc"), "text")
    bench.unmount()
    try bench.swapContainer()
    try bench.mount()
    XCTAssertEqual(bench.volume.status().link, "disconnected(cloud)")
    XCTAssertEqual(try bench.driver.text("doc"), "text")
    XCTAssertEqual(try bench.driver.list(), ["doc"])
  }

  func testADiskThatIsNotMountedCutsTheLink() throws {
    let bench = try VolumeBench(["doc": "text"])
    XCTAssertEqual(try bench.driver.text("doc"), "text")
    try FileManager.default.moveItem(atPath: bench.container, toPath: bench.container + ".away")
    try FileManager.default.createDirectory(atPath: bench.container, withIntermediateDirectories: false)
    try? bench.volume.refresh(.root)
    XCTAssert(eventually { bench.volume.status().link == "disconnected(cloud)" })
    XCTAssertEqual(try bench.driver.list(), ["doc"])
    try FileManager.default.removeItem(atPath: bench.container)
    try FileManager.default.moveItem(atPath: bench.container + ".away", toPath: bench.container)
    XCTAssert(eventually { bench.volume.status().link == "connected" })
    XCTAssertEqual(bench.volume.status().epoch, 1)
    XCTAssertEqual(try bench.driver.text("doc"), "text")
  }

  func testAMassDeletionIsHeld() throws {
    let names = (0..<150).map { "f\($0)" }
    let bench = try VolumeBench(Dictionary(uniqueKeysWithValues: names.map { ($0, "x") } + [("kept", "y")]))
    XCTAssertEqual(try bench.driver.list().count, 151)
    for name in names { try bench.remove(name) }
    try bench.volume.refresh(.root)
    XCTAssert(eventually { bench.volume.status().heldDeletes >= 150 })
    XCTAssertEqual(try bench.driver.list().count, 151)
    bench.volume.acceptHeldDeletes()
    XCTAssertEqual(try bench.driver.list(), ["kept"])
    XCTAssertEqual(bench.volume.status().heldDeletes, 0)
  }

  func testAFewDeletionsAreBelieved() throws {
    let names = (0..<150).map { "f\($0)" }
    let bench = try VolumeBench(Dictionary(uniqueKeysWithValues: names.map { ($0, "x") }))
    XCTAssertEqual(try bench.driver.list().count, 150)
    for name in names.prefix(40) { try bench.remove(name) }
    try bench.volume.refresh(.root)
    XCTAssert(try eventually { try bench.driver.list().count == 110 })
  }

  func testAReadOnlyVolumeWritesNoMarker() throws {
    let bench = try VolumeBench(["doc": "text"]) { $0.readOnly = true }
    XCTAssertEqual(try bench.driver.text("doc"), "text")
    XCTAssertThrowsError(try bench.driver.write("new", "x")) { XCTAssertEqual($0 as? Errno, .EROFS) }
    let all = try FileManager.default.contentsOfDirectory(atPath: bench.container)
    XCTAssertEqual(all, ["doc"])
  }
}

extension VolumeBench {
  /// Another container takes the place of ours.
  fileprivate func swapContainer() throws {
    try FileManager.default.moveItem(atPath: container, toPath: container + ".away")
    try FileManager.default.createDirectory(atPath: container, withIntermediateDirectories: false)
    _ = try DirectoryContainer(path: Array(container.utf8)).identify(create: true, CallContext())
  }
  fileprivate func restoreContainer() throws {
    try FileManager.default.removeItem(atPath: container)
    try FileManager.default.moveItem(atPath: container + ".away", toPath: container)
  }
}
