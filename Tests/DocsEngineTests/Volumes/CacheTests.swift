import Containers
import StorageErrors
import TestSupport
import XCTest

@testable import DocsEngine

final class CacheTests: XCTestCase {
  private let text = String(repeating: "0123456789", count: 10_000)

  // MARK: By hand

  func testAnEvictedFileIsAPlaceholderAndComesBack() throws {
    let bench = try VolumeBench(["doc": text])
    XCTAssertEqual(try bench.driver.text("doc"), text)
    XCTAssert(try eventually { try bench.state("doc") == "materialized" })
    let before = try bench.driver.attributes("doc")
    XCTAssertNil(try bench.evict("doc"))
    XCTAssertEqual(try bench.state("doc"), "placeholder")
    let after = try bench.driver.attributes("doc")
    XCTAssertEqual([after.size, Int64(after.id.rawValue)], [before.size, Int64(before.id.rawValue)])
    XCTAssertEqual(after.modified, before.modified)
    XCTAssertEqual(after.blocks, 1)
    XCTAssertEqual(bench.volume.status().cacheBytes, 0)
    XCTAssertEqual(try bench.driver.text("doc"), text)
  }

  func testWhatIsOpenDirtyOrPinnedStays() throws {
    let bench = try VolumeBench(["open": text, "pinned": text, "dirty": text])
    for name in ["open", "pinned", "dirty"] { XCTAssertEqual(try bench.driver.text(name), text) }
    bench.volume.pause()
    let handle = try bench.driver.open("open")
    XCTAssertEqual(try bench.evict("open"), "open")
    bench.driver.release(handle)
    try bench.driver.setXattr("pinned", "user.docsfs.pin", "1")
    XCTAssert(try XCTUnwrap(try bench.evict("pinned")).contains("pinned"))
    try bench.driver.patch("dirty", 0, [0x78])
    XCTAssert(try XCTUnwrap(try bench.evict("dirty")).contains("not uploaded"))
    bench.volume.resume()
    bench.idle()
    try bench.driver.setXattr("pinned", "user.docsfs.pin", "0")
    for name in ["open", "pinned", "dirty"] { XCTAssertNil(try bench.evict(name), name) }
    XCTAssertEqual(try bench.driver.text("dirty"), "x" + text.dropFirst())
  }

  func testWhatTheContainerHasNotConfirmedStays() throws {
    let bench = try VolumeBench(["doc": text])
    XCTAssertEqual(try bench.driver.text("doc"), text)
    bench.gate.hold(.put, .after)
    try bench.driver.write("doc", "new")
    XCTAssert(bench.gate.waitUntilHeld())
    XCTAssertNotNil(try bench.evict("doc"))
    bench.gate.open()
    bench.idle()
    XCTAssertNil(try bench.evict("doc"))
    XCTAssertEqual(try bench.driver.text("doc"), "new")
  }

  func testFoldersEvictAllThatIsInThem() throws {
    let bench = try VolumeBench(["a/1": text, "a/b/2": text, "c": text])
    for name in ["a/1", "a/b/2", "c"] { XCTAssertEqual(try bench.driver.text(name), text) }
    XCTAssert(bench.fetchesEnd())
    var names: [String] = []
    try bench.volume.evict(path("a"), recursive: true) { item, reason in
      XCTAssertNil(reason)
      names.append(item.path)
    }
    XCTAssertEqual(names, ["a/1", "a/b/2"])
    XCTAssertEqual(
      try ["a/1", "a/b/2", "c"].map { try bench.state($0) }, ["placeholder", "placeholder", "materialized"])
  }

  func testAnEvictionSurvivesARemount() throws {
    let bench = try VolumeBench(["doc": text, "kept": text])
    for name in ["doc", "kept"] { XCTAssertEqual(try bench.driver.text(name), text) }
    XCTAssert(bench.fetchesEnd())
    XCTAssertNil(try bench.evict("doc"))
    try bench.remount()
    XCTAssertEqual(try bench.state("doc"), "placeholder")
    XCTAssertEqual(try bench.state("kept"), "materialized")
    XCTAssertEqual(bench.gate.count(.read), 0)
    XCTAssertEqual(try bench.driver.text("doc"), text)
  }

  // MARK: By itself

  /// `used` counts seconds: each file's is set, as if it had been opened so long ago.
  private func setUsed(_ bench: VolumeBench, _ name: String, _ seconds: Int64) throws {
    let id = try bench.driver.attributes(name).id
    bench.volume.locked { state in
      guard let item = state.items[id] else { return }
      item.record.used = seconds
      state.queue(item)
    }
  }

  func testWhatWasUsedLongestAgoGoesFirst() throws {
    let names = (0..<10).map { "\($0)" }
    let bench = try VolumeBench(Dictionary(uniqueKeysWithValues: names.map { ($0, text) }))
    for name in names { XCTAssertEqual(try bench.driver.text(name), text) }
    XCTAssert(bench.fetchesEnd())
    for (index, name) in names.enumerated() { try setUsed(bench, name, Int64((index * 7) % 10)) }
    let each = bench.volume.status().cacheBytes / 10
    bench.unmount()
    bench.configuration.cacheSize = each * 4
    try bench.mount()
    bench.volume.sweepCache()
    let kept = try names.filter { try bench.state($0) == "materialized" }
    XCTAssertEqual(kept, names.filter { (Int($0) ?? 0) * 7 % 10 >= 6 })
    XCTAssertLessThanOrEqual(bench.volume.status().cacheBytes, each * 4)
    for name in names { XCTAssertEqual(try bench.driver.text(name), text) }
  }

  func testTheCacheStaysWithinItsSize() throws {
    let names = (0..<30).map { "\($0)" }
    let bench = try VolumeBench(Dictionary(uniqueKeysWithValues: names.map { ($0, text) })) {
      $0.cacheSize = 500_000
    }
    for name in names { XCTAssertEqual(try bench.driver.text(name), text) }
    XCTAssert(eventually { bench.volume.status().cacheBytes <= 500_000 })
    XCTAssertGreaterThan(bench.volume.status().cacheBytes, 0)
    for name in names { XCTAssertEqual(try bench.driver.text(name), text) }
  }

  func testEditsThatAloneFillTheCacheAreRefusedNotLost() throws {
    let bench = try VolumeBench { $0.cacheSize = 300_000 }
    bench.volume.pause()
    for name in ["a", "b"] { try bench.driver.write(name, text) }
    XCTAssertThrowsError(try bench.driver.write("c", text)) { XCTAssertEqual($0 as? Errno, .ENOSPC) }
    bench.volume.resume()
    bench.idle()
    XCTAssertEqual(try bench.text("a"), text)
    XCTAssertEqual(try bench.text("b"), text)
    try bench.driver.write("c", text)
    bench.idle()
    XCTAssertEqual(try bench.text("c"), text)
  }

  func testPinnedFoldersFillByThemselves() throws {
    let bench = try VolumeBench(["a/1": text, "a/b/2": text])
    try bench.driver.setXattr("a", "user.docsfs.pin", "1")
    XCTAssert(
      try eventually { try bench.state("a/1") == "materialized" && bench.state("a/b/2") == "materialized" })
    XCTAssertEqual(try bench.driver.xattr("a/b/2", "user.docsfs.pin"), "1", "inherited")
    try bench.write("a/b/3", text)
    XCTAssert(try eventually { try bench.driver.exists("a/b/3") && bench.state("a/b/3") == "materialized" })
    XCTAssertNotNil(try bench.evict("a/b/3"))
  }

  func testAPinOutlivesAnEditorsSave() throws {
    let bench = try VolumeBench(["doc": text])
    try bench.driver.setXattr("doc", "user.docsfs.pin", "1")
    try bench.driver.write("doc.tmp", "new")
    try bench.driver.rename("doc.tmp", "doc")
    XCTAssertEqual(try bench.driver.xattr("doc", "user.docsfs.pin"), "1")
  }

  // MARK: Memory

  func testMemoryIsBounded() throws {
    var files: [String: String] = [:]
    for folder in 0..<100 { for file in 0..<25 { files["f\(folder)/\(file)"] = "\(folder) \(file)" } }
    let bench = try VolumeBench(files) { $0.itemsInMemory = 300 }
    let names = (0..<25).map { "\($0)" }.sorted()
    var most = 0
    for round in 0..<3 {
      for folder in 0..<100 {
        XCTAssertEqual(try bench.driver.list("f\(folder)"), names)
        if round > 0 { XCTAssertEqual(try bench.driver.text("f\(folder)/\(round)"), "\(folder) \(round)") }
        bench.driver.forgetAll()
        // What was fetched leaves when the catalog knows of it.
        if round > 0 { XCTAssert(eventually { bench.volume.status().itemsInMemory < 1200 }) }
        most = max(most, bench.volume.status().itemsInMemory)
      }
    }
    XCTAssertEqual(bench.volume.status().items, 1 + 100 + 2500)
    // The limit and an eighth, the root's folders, and those of the last few uses.
    XCTAssertLessThan(most, 1200)
    let listed = bench.gate.calls.filter { $0.operation == .list && !$0.path.isRoot }
    // Each once, and perhaps once more by the first poll; at every visit it would be 300.
    XCTAssertLessThanOrEqual(listed.count, 200, "what was forgotten comes from the catalog")
  }

  /// Nothing of what is in memory may leave it, and each folder that is read has to come: that ends all the same.
  func testALimitThatCannotBeKeptHoldsUpNobody() throws {
    var files: [String: String] = [:]
    for folder in 0..<20 { files["f\(folder)/x/y/doc"] = "\(folder)" }
    let bench = try VolumeBench(files) { $0.itemsInMemory = 5 }
    bench.volume.pause()
    for index in 0..<50 { try bench.driver.write("edit \(index)", "x") }
    for _ in 0..<2 {
      for folder in 0..<20 {
        XCTAssertEqual(try bench.driver.list("f\(folder)/x/y"), ["doc"])
        try bench.driver.rename("f\(folder)/x/y/doc", "f\(folder)/x/doc")
        try bench.driver.rename("f\(folder)/x/doc", "f\(folder)/x/y/doc")
      }
    }
    bench.volume.resume()
    bench.idle()
  }
}
