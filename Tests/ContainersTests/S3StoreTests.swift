import Faults
import TestSupport
import XCTest

@testable import Containers

/// What is S3's own, on a real store.
final class S3StoreTests: XCTestCase {
  private func object(_ client: S3Client, _ prefix: String, _ key: String, _ text: String = "x") throws {
    var request = S3Client.Request(method: "PUT", key: Array("\(prefix)/\(key)".utf8), what: "put \(key)")
    request.body = .bytes(Array(text.utf8))
    try client.require(request, CallContext())
  }

  private func keys(_ container: S3Container) throws -> Set<String> {
    var keys: Set<String> = []
    let prefix = container.address.folderKey(.root)
    try container.eachPage(prefix: prefix, delimiter: false, "list", CallContext()) { page in
      keys.formUnion(page.objects.map { String(decoding: $0.key.dropFirst(prefix.count), as: UTF8.self) })
    }
    return keys.filter { !$0.hasPrefix(".docsfs-container") }
  }

  private func names(_ container: any Container, _ folder: String = "") throws -> [String] {
    try container.list(path(folder), CallContext()).map(\.name.description).sorted()
  }

  func testTheStoreIsTriedOut() throws {
    let container = try S3Place(.s3).open()
    let rules = try container.rules(CallContext())
    XCTAssert(rules.keepsAbsent && rules.keepsVersion)
    XCTAssertEqual(try keys(container), [], "the trial left something")
    XCTAssertNil(container.traits.weakness)
  }

  /// Without the store's help what is there is looked at first; a race may be lost, an older change may not be.
  func testAStoreWithoutConditionsIsLookedAtFirst() throws {
    let container = try S3Place(.s3).open()
    container.known.withLock { $0.rules = S3Rules(keepsAbsent: false, keepsVersion: false) }
    XCTAssertNotNil(container.traits.weakness, "a person should know")
    let one = try container.put(path("a"), "one")
    assertCode(.preconditionFailed) { try container.put(path("a"), "two") }
    let two = try container.put(path("a"), "two", if: .version(one.version))
    assertCode(.preconditionFailed) { try container.put(path("a"), "three", if: .version(one.version)) }
    assertCode(.preconditionFailed) { try container.put(path("b"), "three", if: .version(one.version)) }
    XCTAssertEqual(try container.current(path("a"))?.item, two)
  }

  // MARK: - Keys

  /// moto takes any key; SeaweedFS makes folders of them.
  func testKeysThatAreNoPathAreNotShownAndStay() throws {
    let place = try S3Place(.moto)
    let container = try place.open()
    let hostile = ["d//x", "d/../y", "d/./z", "/lead", "both", "both/under", "d/" + String(repeating: "n", count: 300)]
    for key in hostile { try object(container.client, place.prefix, key) }
    try object(container.client, place.prefix, "d/fine")
    XCTAssertEqual(try names(container), ["both", "d"])
    XCTAssertEqual(try names(container, "d"), ["fine"])
    XCTAssertEqual(try container.item(at: path("both"), CallContext())?.kind, .file)
    let fine = try XCTUnwrap(container.item(at: path("d/fine"), CallContext()))
    try container.remove(path("d/fine"), kind: .file, version: fine.version, CallContext())
    assertCode(.notEmpty) { try container.remove(path("d"), kind: .folder, version: nil, CallContext()) }
    let both = try XCTUnwrap(container.item(at: path("both"), CallContext()))
    try container.remove(path("both"), kind: .file, version: both.version, CallContext())
    XCTAssertEqual(try container.item(at: path("both"), CallContext())?.kind, .folder)
    XCTAssertEqual(try keys(container).subtracting(["d/"]), Set(hostile).subtracting(["both"]))
    _ = try container.rename(path("d"), to: path("e"), version: nil, CallContext())
    XCTAssert(try keys(container).isSuperset(of: ["e//x", "e/../y", "e/./z"]), "a folder's move takes them along")
    XCTAssertFalse(try keys(container).contains { $0.hasPrefix("d/") })
  }

  func testAFolderWithoutAMarkerOutlivesItsLastFile() throws {
    for kind in [CloudServer.Kind.s3, .moto] {
      let place = try S3Place(kind)
      let container = try place.open()
      try object(container.client, place.prefix, "d/e/a")
      let a = try XCTUnwrap(container.item(at: path("d/e/a"), CallContext()))
      try container.remove(path("d/e/a"), kind: .file, version: a.version, CallContext())
      XCTAssertEqual(try names(container, "d"), ["e"])
      XCTAssertEqual(try names(container, "d/e"), [])
      try container.remove(path("d/e"), kind: .folder, version: nil, CallContext())
      XCTAssertEqual(try names(container, "d"), [])
      try container.remove(path("d"), kind: .folder, version: nil, CallContext())
      XCTAssertEqual(try names(container), [])
      XCTAssertNil(try container.item(at: path("d"), CallContext()))
    }
  }

  func testAFoldersMoveThatWasEndedGoesOn() throws {
    for kind in [CloudServer.Kind.s3, .moto] {
      let container = try S3Place(kind).open()
      _ = try container.makeFolder(path("d"), attributes: .init(), CallContext())
      for number in 0..<5 { try container.put(path("d/\(number)"), "\(number)") }
      _ = try container.makeFolder(path("e"), attributes: .init(), CallContext())
      try container.put(path("e/0"), "0")
      assertCode(.preconditionFailed) {
        _ = try container.rename(path("d"), to: path("e"), version: nil, CallContext())
      }
      // With this besides, it is what a process that was killed in the middle leaves.
      let (from, to) = (container.address.folderKey(path("d")), container.address.folderKey(path("e")))
      let note = container.moveNote(from: from, to: to)
      try container.client.require(.init(method: "PUT", key: note, what: "put"), CallContext())
      _ = try container.rename(path("d"), to: path("e"), version: nil, CallContext())
      XCTAssertEqual(try names(container, "e"), ["0", "1", "2", "3", "4"])
      XCTAssertNil(try container.item(at: path("d"), CallContext()))
      XCTAssertNil(try container.head(note, "look", CallContext()), "the note has done its work")
    }
  }

  func testAFolderOfMorePagesThanOne() throws {
    let place = try S3Place(.moto)
    let container = try place.open()
    _ = try container.makeFolder(path("d"), attributes: .init(), CallContext())
    let client = container.client
    let prefix = place.prefix
    onThreads(8) { thread in
      for number in stride(from: thread, to: 1_205, by: 8) {
        var request = S3Client.Request(method: "PUT", key: Array("\(prefix)/d/\(number)".utf8), what: "put")
        request.body = .bytes([0x78])
        XCTAssertNotNil(try? client.require(request, CallContext()))
      }
    }
    let listing = try container.list(path("d"), CallContext())
    XCTAssertEqual(listing.count, 1_205)
    XCTAssertEqual(listing.filter { $0.attributes.areGuessed }.count, 205, "a thousand are asked at a time")
    XCTAssert(
      try eventually { try container.list(path("d"), CallContext()).allSatisfy { !$0.attributes.areGuessed } },
      "the others when they are listed again")
    assertCode(.notEmpty) { try container.remove(path("d"), kind: .folder, version: nil, CallContext()) }
  }

  // MARK: - Metadata

  /// One device sets a time while another writes: what a store does in two steps must not bring the old bytes back.
  func testSettingAttributesLosesNoWriteOfAnother() throws {
    let place = try S3Place(.s3)
    let (one, two) = (try place.open(), try place.open())
    _ = try (one.rules(CallContext()), two.rules(CallContext()))
    for round in 0..<150 {
      let name = path("f\(round % 7)")
      let old = try one.item(at: name, CallContext())
      let version = try one.put(name, "old \(round)", if: old.map { .version($0.version) } ?? .absent).version
      let written = Guarded<RemoteItem?>(nil)
      onThreads(2) { thread in
        if thread == 1 {
          let time = RemoteAttributes(mtime: Timestamp(nanoseconds: 1))
          _ = try? one.setAttributes(name, time, version: version, CallContext())
        } else {
          let new = try? two.put(name, "new \(round)", if: .version(version))
          written.withLock { $0 = new }
        }
      }
      guard let new = written.withLock({ $0 }) else { continue }
      XCTAssertEqual(
        try two.current(name)?.item.version, new.version, "round \(round): a write that was answered is gone")
    }
  }

  func testSettingAttributesKeepsVersionBytesAndOtherMetadata() throws {
    let container = try S3Place(.s3).open()
    let old = try container.put(path("a"), "text")
    let set = try container.setAttributes(
      path("a"), RemoteAttributes(mode: 0o600, mtime: Timestamp(nanoseconds: 5)), version: old.version, CallContext())
    XCTAssertEqual(set.version, old.version, "the bytes are the same")
    XCTAssertEqual(try container.item(at: path("a"), CallContext()), set)
    XCTAssertEqual(try container.current(path("a"))?.bytes, Array("text".utf8))
    let timed = try container.setAttributes(
      path("a"), RemoteAttributes(mtime: Timestamp(nanoseconds: 6)), version: old.version, CallContext())
    XCTAssertEqual(timed.attributes.mode, 0o600)
    _ = try container.put(path("a"), "other", if: .version(old.version))
    assertCode(.preconditionFailed) {
      _ = try container.setAttributes(path("a"), RemoteAttributes(mode: 0o644), version: old.version, CallContext())
    }
  }

  // MARK: - Large files

  private func pattern(_ size: Int) -> [UInt8] {
    var random = SeededRandom(UInt64(size))
    return (0..<size / 8 + 1).flatMap { _ in withUnsafeBytes(of: random.next()) { Array($0) } }.prefix(size).map { $0 }
  }

  func testALargeFileGoesInPartsAndComesBack() throws {
    for kind in [CloudServer.Kind.s3, .moto] {
      let container = try S3Place(kind).open()
      let bytes = pattern(20 << 20 + 12_345)
      let attributes = RemoteAttributes(mode: 0o640, mtime: Timestamp(nanoseconds: 1_234_567_890_123_456_789))
      let item = try container.put(
        path("a"), from: BytesSource(bytes), attributes: attributes, if: .absent, CallContext())
      XCTAssertEqual(try container.item(at: path("a"), CallContext()), item)
      XCTAssert(try container.list(.root, CallContext()) == [item])
      XCTAssert(try container.contents(path("a"), item) == bytes)
      assertCode(.preconditionFailed) {
        _ = try container.put(path("a"), from: BytesSource(bytes), attributes: .init(), if: .absent, CallContext())
      }
      XCTAssertEqual(try container.pendingUploads(), 0)
      let moved = try container.rename(path("a"), to: path("b"), version: item.version, CallContext())
      XCTAssertEqual(moved.attributes, attributes)
      XCTAssert(try container.contents(path("b"), moved) == bytes)
    }
  }

  func testAnUploadThatWasCutOffGoesOnWhereItWas() throws {
    let container = try S3Place(.s3).open()
    let block = pattern(1 << 20)
    let bytes = (0..<96).flatMap { [UInt8($0)] + block.dropFirst() }
    let call = CallContext()
    // Four parts at once are read twice, for their digests and to be sent: with this much, at least one has been sent.
    let source = CountingSource(bytes) { count in if count >= 88 << 20 { call.cancel() } }
    assertCode(.cancelled) {
      _ = try container.put(path("a"), from: source, attributes: .init(), if: .absent, call)
    }
    XCTAssertEqual(try names(container), [], "half a file is no file")
    XCTAssertEqual(try container.pendingUploads(), 1, "what was sent waits")
    let item = try container.put(
      path("a"), from: BytesSource(bytes), attributes: .init(), if: .absent, CallContext())
    XCTAssert(try container.contents(path("a"), item) == bytes)
    XCTAssertEqual(try container.pendingUploads(), 0, "another upload was begun")
  }

  func testAnUploadThatIsNoLongerWantedLeavesNothing() throws {
    let container = try S3Place(.s3).open()
    let bytes = pattern(20 << 20)
    let stale = BytesSource(bytes, isCurrent: { false })
    assertCode(.cancelled) {
      _ = try container.put(path("a"), from: stale, attributes: .init(), if: .absent, CallContext())
    }
    XCTAssertEqual(try names(container), [])
    XCTAssertEqual(try container.pendingUploads(), 0)
  }

  func testAlteredBytesAreNotPublished() throws {
    let container = try S3Place(.s3).open()
    let cloud = FaultingContainer(container)
    var conditions = CloudConditions()
    conditions.corrupt = true
    conditions.operations = [.upload]
    cloud.conditions = conditions
    for size in [1, 100_000, 20 << 20] {
      assertCode(.inconsistent) {
        _ = try cloud.put(
          path("a"), from: BytesSource(pattern(size)), attributes: .init(), if: .absent, CallContext())
      }
    }
    XCTAssertEqual(try names(container), [])
    XCTAssertEqual(try container.pendingUploads(), 0)
  }

  // MARK: - What goes wrong at the beginning

  private func failure(_ url: String, _ values: [String: String]) throws -> ContainerError? {
    guard case .s3(let address, _) = try ContainerURL(url).place else { return nil }
    let container = S3Container(address) { AWSSettings { values[$0] } }
    do throws(ContainerError) {
      _ = try container.identify(create: true, CallContext(timeout: 20))
      return nil
    } catch { return error }
  }

  func testMistakesAreNamedWithTheirMend() throws {
    let server = try CloudServer.shared(.s3)
    let good = server.values
    var cases: [(String, [String: String], ContainerError.Code, String)] = []
    cases.append(
      (server.container.replacingOccurrences(of: "docsfs?", with: "none-such?"), good, .unreachable, "bucket"))
    var bad = good
    bad["AWS_SECRET_ACCESS_KEY"] = "hunter2"
    cases.append((server.container, bad, .permissionDenied, "AWS_SECRET_ACCESS_KEY"))
    bad["AWS_ACCESS_KEY_ID"] = "nobody"
    cases.append((server.container, bad, .permissionDenied, "AWS_ACCESS_KEY_ID"))
    cases.append((server.container, [:], .permissionDenied, "~/.aws/credentials"))
    cases.append(("s3://b?endpoint=http://127.0.0.1:1", good, .unreachable, "127.0.0.1:1"))
    cases.append(("s3://b?endpoint=http://no.such.host.invalid", good, .unreachable, "no.such.host.invalid"))
    let apache = try CloudServer.shared(.apache)
    let plain = apache.container.replacingOccurrences(of: "webdav+", with: "").trimmingSlash
    cases.append(("s3://b?endpoint=\(plain)", good, .unreachable, "S3"))
    let tls = (apache.values["tls"] ?? "").replacingOccurrences(of: "webdav+", with: "").trimmingSlash
    cases.append(("s3://b?endpoint=\(tls)", good, .unreachable, "SSL_CERT_FILE"))
    for (url, values, code, word) in cases {
      let error = try XCTUnwrap(try failure(url, values), url)
      XCTAssertEqual(error.code, code, error.message)
      XCTAssert(error.message.contains(word), error.message)
      XCTAssertFalse(error.message.contains("hunter2"), error.message)
    }
  }

  func testABucketThatWasEmptiedIsNotTakenForAMassDeletion() throws {
    let place = try S3Place(.s3)
    let container = try place.open()
    let id = try container.identify(create: true, CallContext())
    try container.put(path("a"), "x")
    for key in try keys(container) + [".docsfs-container/id"] {
      try container.client.require(
        .init(method: "DELETE", key: Array("\(place.prefix)/\(key)".utf8), what: "delete"), CallContext())
    }
    container.known.withLock { $0.confirmed = 0 }
    assertCode(.identityMissing) { _ = try container.list(.root, CallContext()) }
    assertCode(.identityMissing) { _ = try container.item(at: path("a"), CallContext()) }
    XCTAssertNotEqual(try place.open().identify(create: true, CallContext()), id)
    container.known.withLock { $0.confirmed = 0 }
    assertCode(.unreachable) { _ = try container.item(at: path("a"), CallContext()) }
  }
}

extension String {
  fileprivate var trimmingSlash: String { hasSuffix("/") ? String(dropLast()) : self }
}

/// Tells how many bytes have been read.
private final class CountingSource: UploadSource {
  private let base: BytesSource
  private let read = Guarded(0)
  private let each: @Sendable (Int) -> Void

  init(_ bytes: [UInt8], _ each: @escaping @Sendable (Int) -> Void) {
    base = BytesSource(bytes)
    self.each = each
  }
  var size: Int64 { base.size }
  var sha256: [UInt8]? { nil }
  func isStillCurrent() -> Bool { true }
  func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ContainerError) -> Int {
    let count = try base.read(at: offset, into: buffer)
    each(
      read.withLock {
        $0 += count
        return $0
      })
    return count
  }
}
