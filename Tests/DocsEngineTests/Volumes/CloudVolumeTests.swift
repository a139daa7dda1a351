import Containers
import DocsEngine
import Faults
import StorageErrors
import TestSupport
import XCTest

/// Scenes with a volume over a real server.
class CloudVolumeTestCase: XCTestCase {
  var kind: CloudServer.Kind { .s3 }
  private lazy var place = Result { try CloudPlace(kind) }
  private static let policy = RetryingContainer.Policy(attempts: 3, firstPause: 0.001, longestPause: 0.002)

  private func open() throws -> any Container { try place.get().open() }

  private func bench(configure: (inout VolumeConfiguration) -> Void = { _ in }) throws -> VolumeBench {
    try VolumeBench(retrying: Self.policy, over: try place.get(), configure: configure)
  }

  private func set(_ bench: VolumeBench, _ change: (inout CloudConditions) -> Void) {
    var conditions = CloudConditions()
    change(&conditions)
    bench.cloud.conditions = conditions
  }

  func editsGoUpAndComeBack() throws {
    let bench = try bench()
    try bench.driver.makeFolder("d")
    try bench.driver.write("d/a.txt", "a")
    try bench.driver.change("d/a.txt") { $0.modified = .at(Timestamp(nanoseconds: 1_234_567_890_123_456_789)) }
    bench.idle()
    XCTAssertNil(try bench.evict("d/a.txt"))
    XCTAssertEqual(try bench.driver.text("d/a.txt"), "a")
    try bench.driver.rename("d", "e")
    try bench.driver.write("e/a.txt", "b")
    try bench.driver.write("e/new.txt", "n")
    bench.idle()
    let other = try self.bench()
    XCTAssertEqual(try other.driver.list(), ["e"])
    XCTAssertEqual(try other.driver.list("e"), ["a.txt", "new.txt"])
    XCTAssertEqual(try other.driver.text("e/a.txt"), "b")
  }

  func aKilledProcessRecognisesWhatItHasSent() throws {
    let bench = try bench()
    bench.gate.hold(.put, .after)
    try bench.driver.write("a.txt", "a")
    XCTAssert(bench.gate.waitUntilHeld())
    try bench.crash()
    bench.idle()
    XCTAssertEqual(try open().list(.root, CallContext()).map(\.name.description), ["a.txt"])
    XCTAssertEqual(bench.gate.count(.put), 0, "it was sent twice")
  }

  // MARK: - Checksums

  func assertNothingAlteredIsServed(_ size: Int) throws {
    var random = SeededRandom(UInt64(size))
    let bytes = random.bytes(size)
    let container = try open()
    _ = try container.identify(create: true, CallContext())
    _ = try container.put(path("a"), from: BytesSource(bytes), attributes: .init(), if: .absent, CallContext())
    let bench = try bench { $0.timeo = 3 }
    XCTAssertEqual(try bench.driver.list(), ["a"])
    set(bench) { ($0.corrupt, $0.operations) = (true, [.fetch]) }
    let handle = try bench.driver.open("a", writes: true)
    // A write waits for all bytes, and all bytes are proven.
    XCTAssertThrowsError(try bench.driver.write(handle, 0, [1])) { XCTAssertEqual($0 as? Errno, .EIO) }
    XCTAssertGreaterThan(bench.cloud.conditions.met, 1, "it was fetched once more")
    bench.driver.release(handle)
    XCTAssertNotEqual(try bench.state("a"), "materialized")
    set(bench) { ($0.corrupt, $0.operations, $0.times) = (true, [.fetch], 1) }
    try bench.driver.patch("a", 0, [bytes[0] ^ 0xff])
    XCTAssert(try bench.driver.read("a") == [bytes[0] ^ 0xff] + bytes.dropFirst())
    bench.idle()
  }

  func aSmallFileIsProvenBeforeItIsRead() throws {
    let container = try open()
    _ = try container.identify(create: true, CallContext())
    try container.put(path("a"), "hello")
    let bench = try bench { $0.timeo = 1 }
    XCTAssertEqual(try bench.driver.list(), ["a"])
    set(bench) { ($0.corrupt, $0.operations) = (true, [.fetch]) }
    XCTAssertThrowsError(try bench.driver.read("a")) { XCTAssertEqual($0 as? Errno, .EIO) }
    set(bench) { _ in }
    XCTAssert(eventually { (try? bench.driver.text("a")) == "hello" })
  }

  // MARK: - Two devices

  /// Both write, rename and remove under the same names, each with its link cut now and then. Afterwards both show the
  /// same, and every text is somewhere that nobody who had seen it replaced or removed.
  func twoDevicesEndAlikeAndLoseNothing() throws {
    let seed = SeededRandom.setting("DOCSFS_SEED", 1)
    var random = SeededRandom(seed)
    let devices = [try bench { $0.poll = 0.5 }, try bench { $0.poll = 0.5 }]
    var written: Set<String> = [], gone: Set<String> = []
    for step in 0..<Int(SeededRandom.setting("DOCSFS_ROUNDS", 120)) {
      let device = devices[random.chance(50) ? 0 : 1]
      let name = "f\(Int.random(in: 0..<4, using: &random)).txt"
      switch Int.random(in: 0..<100, using: &random) {
      case 0..<55:
        let seen = try? device.driver.text(name)
        let text = "step \(step)"
        guard (try? device.driver.write(name, text)) != nil else { continue }
        written.insert(text)
        if let seen { gone.insert(seen) }
      case 55..<65:
        guard let seen = try? device.driver.text(name), (try? device.driver.unlink(name)) != nil else { continue }
        gone.insert(seen)
      case 65..<80:
        let target = "f\(Int.random(in: 0..<4, using: &random)).txt"
        let seen = try? device.driver.text(target)
        guard target != name, (try? device.driver.rename(name, target)) != nil else { continue }
        if let seen { gone.insert(seen) }
      case 80..<90: set(device) { $0.offline = random.chance(50) }
      default: usleep(UInt32.random(in: 0..<200_000, using: &random))
      }
    }
    for device in devices { set(device) { _ in } }
    for device in devices { device.idle() }
    XCTAssert(try eventually { try self.tree(devices[0]) == self.tree(devices[1]) }, "seed \(seed): the devices differ")
    let texts = Set(try tree(devices[0]).values)
    let lost = written.subtracting(gone).subtracting(texts)
    XCTAssert(lost.isEmpty, "seed \(seed): lost \(lost.sorted())")
  }

  /// The version of an object is that of its bytes: a time or mode alone has to be noticed by itself.
  func attributesThatAnotherDeviceSetsAreNoticed() throws {
    let (one, two) = (try bench(), try bench())
    for name in ["clean", "set"] { try one.driver.write(name, name) }
    one.idle()
    XCTAssert(try eventually { try self.tree(two).count == 2 })
    let before = try two.driver.entry("clean").node
    // At once, and twice in the same second.
    for nanoseconds: Int64 in [1_234_567_890_123_456_789, 1_000_000_000_000_000_001] {
      for name in ["clean", "set"] {
        try one.driver.change(name) { ($0.modified, $0.mode) = (.at(Timestamp(nanoseconds: nanoseconds)), 0o600) }
      }
      one.idle()
      try two.volume.refresh(.root)
      XCTAssertEqual(try two.driver.attributes("clean").modified, Timestamp(nanoseconds: nanoseconds))
      XCTAssertEqual(try two.driver.attributes("clean").mode & 0o777, 0o600)
    }
    XCTAssertEqual(try two.driver.entry("clean").node, before, "the bytes are the same")
    let mine = Timestamp(nanoseconds: 5_000_000_000)
    two.gate.hold(.setAttributes, .before)
    try two.driver.change("set") { $0.modified = .at(mine) }
    XCTAssert(two.gate.waitUntilHeld())
    try two.volume.refresh(.root)
    XCTAssertEqual(try two.driver.attributes("set").modified, mine, "what was set here is still to go there")
    two.gate.open()
    two.idle()
    try one.volume.refresh(.root)
    XCTAssertEqual(try one.driver.attributes("set").modified, mine)
  }

  private func tree(_ bench: VolumeBench) throws -> [String: String] {
    try bench.volume.refresh(.root)
    var tree: [String: String] = [:]
    for name in try bench.driver.list() { tree[name] = try? bench.driver.text(name) }
    return tree
  }
}

final class CloudVolumeTests: CloudVolumeTestCase {
  func testEditsGoUpAndComeBack() throws { try editsGoUpAndComeBack() }
  func testAKilledProcessRecognisesWhatItHasSent() throws { try aKilledProcessRecognisesWhatItHasSent() }
  func testASmallFileWhoseBytesAreAlteredIsNotServed() throws { try assertNothingAlteredIsServed(100_000) }
  func testALargeFileWhoseBytesAreAlteredIsNotTakenForWhole() throws { try assertNothingAlteredIsServed(9 << 20) }
  func testASmallFileIsProvenBeforeItIsRead() throws { try aSmallFileIsProvenBeforeItIsRead() }
  func testTwoDevicesEndAlikeAndLoseNothing() throws { try twoDevicesEndAlikeAndLoseNothing() }
  func testAttributesThatAnotherDeviceSetsAreNoticed() throws { try attributesThatAnotherDeviceSetsAreNoticed() }
}

final class WebDAVVolumeTests: CloudVolumeTestCase {
  override var kind: CloudServer.Kind { .webdav }
  func testEditsGoUpAndComeBack() throws { try editsGoUpAndComeBack() }
  func testAKilledProcessRecognisesWhatItHasSent() throws { try aKilledProcessRecognisesWhatItHasSent() }
  func testTwoDevicesEndAlikeAndLoseNothing() throws { try twoDevicesEndAlikeAndLoseNothing() }
}

/// Over reports of changes instead of listings, and downloads with checksums.
final class SyncCollectionVolumeTests: CloudVolumeTestCase {
  override var kind: CloudServer.Kind { .sync }
  override func setUpWithError() throws { try CloudServer.shared(.sync).set("digest=1") }
  override func tearDownWithError() throws { try CloudServer.shared(.sync).set("digest=0") }
  func testASmallFileWhoseBytesAreAlteredIsNotServed() throws { try assertNothingAlteredIsServed(100_000) }
  func testALargeFileWhoseBytesAreAlteredIsNotTakenForWhole() throws { try assertNothingAlteredIsServed(9 << 20) }
  func testASmallFileIsProvenBeforeItIsRead() throws { try aSmallFileIsProvenBeforeItIsRead() }
  func testEditsGoUpAndComeBack() throws { try editsGoUpAndComeBack() }
  func testTwoDevicesEndAlikeAndLoseNothing() throws { try twoDevicesEndAlikeAndLoseNothing() }
}

final class ApacheVolumeTests: CloudVolumeTestCase {
  override var kind: CloudServer.Kind { .apache }
  func testEditsGoUpAndComeBack() throws { try editsGoUpAndComeBack() }
  func testTwoDevicesEndAlikeAndLoseNothing() throws { try twoDevicesEndAlikeAndLoseNothing() }
}
