import TestSupport
import XCTest

@testable import Containers

/// Copies and removals at a store: of many objects at once, of large ones in parts, and only of what is proven.
final class S3MoveTests: XCTestCase {
  /// As small as stores let parts be.
  private static let small = S3Limits(wholeCopy: 6 << 20, leastPart: 5 << 20)
  private static let stores = [CloudServer.Kind.s3, .moto]

  private func open(_ place: S3Place, _ limits: S3Limits = S3Limits()) throws -> S3Container {
    guard case .s3(let address, _) = place.url.place else { throw XCTSkip("no S3 URL") }
    let container = S3Container(address, limits: limits, settings: place.settings)
    _ = try container.identify(create: true, CallContext())
    return container
  }

  private func objects(_ container: S3Container, _ folder: String = "") throws -> [S3Page.Object] {
    var objects: [S3Page.Object] = []
    let prefix = container.address.folderKey(.root)
    try container.eachPage(prefix: prefix + Array(folder.utf8), delimiter: false, "list", CallContext()) { page in
      objects += page.objects
    }
    return objects.filter { !$0.key.starts(with: prefix + hiddenName.bytes) }
  }

  private func keys(_ container: S3Container, _ folder: String = "") throws -> Set<String> {
    let count = container.address.folderKey(.root).count
    return Set(try objects(container, folder).map { String(decoding: $0.key.dropFirst(count), as: UTF8.self) })
  }

  private func pattern(_ size: Int) -> [UInt8] {
    var random = SeededRandom(UInt64(size))
    let block = random.bytes(65_521)
    return (0...size / block.count).flatMap { [UInt8(truncatingIfNeeded: $0)] + block.dropFirst() }.prefix(size).map {
      $0
    }
  }

  // MARK: - Many removals

  func testWhatStoresDoWithManyRemovalsAndCopiesIsTriedOut() throws {
    let weed = try open(S3Place(.s3)).rules(CallContext())
    XCTAssertEqual(weed.manyDeletes, .thatVersion)
    XCTAssert(weed.copiesKeepAbsent)
    let moto = try open(S3Place(.moto))
    // It removes whatever version there is, and copies whatever is in the way.
    XCTAssertEqual(try moto.rules(CallContext()).manyDeletes, .anyVersion)
    XCTAssertFalse(try moto.rules(CallContext()).copiesKeepAbsent)
    XCTAssertNotNil(moto.traits.weakness, "a person should know")
    for container in [try open(S3Place(.s3)), moto] {
      XCTAssertEqual(try keys(container), [], "a trial left something")
    }
  }

  /// Whether the store looks at versions or not, what has changed since it was listed stays.
  func testOnlyWhatIsStillOfItsVersionIsRemoved() throws {
    for kind in Self.stores {
      let container = try open(S3Place(kind))
      let names = (0..<40).map { "d/\($0)" } + ["d/a&b<c>\"d\"", "d/ü b+c%41", "d/plus+"]
      for name in names { try object(container, name, Array(name.utf8)) }
      let listed = try objects(container)
      XCTAssertEqual(listed.count, names.count)
      try object(container, "d/7", [1])
      try object(container, "d/plus+", [1])
      try object(container, "d/late", [1])
      let gone = try XCTUnwrap(listed.first { $0.key == container.address.key(path("d/8")) })
      try container.delete(gone.key, nil, "delete", CallContext())
      try container.delete(listed, "delete", CallContext())
      XCTAssertEqual(try keys(container), ["d/7", "d/plus+", "d/late"], "\(kind)")
    }
  }

  /// XML has no way to name some of them, and they go one by one. moto knows no line ends in a path.
  func testKeysThatXMLCannotHoldAreRemovedToo() throws {
    for (kind, last) in [(CloudServer.Kind.s3, "d/line\nfeed\r"), (.moto, "d/tab\t")] {
      let container = try open(S3Place(kind))
      container.known.withLock { $0.rules?.manyDeletes = .thatVersion }
      let names = ["d/bell\u{7}", "d/\u{1b}[m", "d/\u{ffff}", last, "d/plain"]
      for name in names { try object(container, name, [1]) }
      let listed = try objects(container)
      XCTAssertEqual(listed.count, names.count, "\(kind)")
      let outcomes = try XCTUnwrap(container.deleteMany(listed.map { S3Deletion($0) }, "delete", CallContext()))
      XCTAssertEqual(Set(outcomes.keys), Set([last, "d/plain"].map { container.address.folderKey(.root) + $0.utf8 }))
      try container.delete(listed, "delete", CallContext())
      XCTAssertEqual(try keys(container), [], "\(kind)")
    }
  }

  func testAFolderOfMoreObjectsThanOneRequestTakesIsMoved() throws {
    for kind in Self.stores {
      let container = try open(S3Place(kind))
      _ = try container.makeFolder(path("d"), attributes: .init(), CallContext())
      onThreads(8) { thread in
        for number in stride(from: thread, to: 1_105, by: 8) {
          do { try object(container, "d/\(number % 5)/\(number)", Array("\(number)".utf8)) } catch {
            XCTFail("\(error)")
          }
        }
      }
      let before = try objects(container, "d/").filter { $0.key.last != 0x2f }
      XCTAssertEqual(before.count, 1_105)
      _ = try container.rename(path("d"), to: path("moved"), version: nil, CallContext())
      XCTAssertEqual(try keys(container, "d/"), [], "\(kind)")
      let after = try objects(container, "moved/").filter { $0.key.last != 0x2f }
      XCTAssertEqual(Set(after.map(\.etag)), Set(before.map(\.etag)), "\(kind)")
      XCTAssertEqual(after.count, 1_105)
    }
  }

  // MARK: - Hostile keys

  func testHostileKeysMoveWithTheirFolderAndNoneIsLost() throws {
    let container = try open(S3Place(.moto))
    let prefix = container.address.folderKey(.root).count
    let long = "d/" + String(repeating: "n/", count: (1_024 - prefix - 2) / 2)
    let hostile = [
      "d//x", "d/../y", "d/./z", "d/both", "d/both/under", "d/bell\u{7}", "d/tab\t", "d/\u{7f}", "d/a&b<c>",
      String((long + "nn").prefix(1_024 - prefix)),
    ]
    for key in hostile { try object(container, key, Array(key.utf8)) }
    XCTAssertEqual(
      Set(try container.list(path("d"), CallContext()).map(\.name.description)),
      ["both", "bell\\x07", "tab\\x09", "\\x7f", "a&b<c>", "n"])
    // One byte longer, and the longest would not fit: nothing begins to move.
    assertCode(.notRepresentable) {
      _ = try container.rename(path("d"), to: path("dd"), version: nil, CallContext())
    }
    XCTAssertEqual(try keys(container), Set(hostile))
    _ = try container.rename(path("d"), to: path("e"), version: nil, CallContext())
    let moved = Set(hostile.map { "e" + $0.dropFirst() })
    XCTAssertEqual(try keys(container).filter { !$0.hasSuffix("/") || moved.contains($0) }, moved)
    for object in try objects(container) where object.size > 0 {
      let reply = try container.client.require(.init(method: "GET", key: object.key, what: "get"), CallContext())
      XCTAssertEqual(reply.body, Array("d".utf8) + object.key.dropFirst(prefix + 1))
    }
  }

  // MARK: - Copies in parts

  func testALargeObjectIsCopiedInPartsWithAllThatBelongsToIt() throws {
    for kind in Self.stores {
      let container = try open(S3Place(kind), Self.small)
      let bytes = pattern(12 << 20 + 345)
      let mtime = Timestamp(nanoseconds: 1_234_567_890_123_456_789)
      try object(
        container, "a", bytes,
        [("x-amz-meta-mtime", S3Metadata.text(mtime)), ("x-amz-meta-colour", "green"), ("Content-Type", "text/x-test")])
      let item = try XCTUnwrap(container.item(at: path("a"), CallContext()))
      let moved = try container.rename(path("a"), to: path("b"), version: item.version, CallContext())
      XCTAssertEqual(moved.attributes.mtime, mtime)
      XCTAssert(String(decoding: moved.version.bytes, as: UTF8.self).hasSuffix("-3"), "it went in parts")
      let changed = try container.setAttributes(path("b"), .init(mode: 0o640), version: moved.version, CallContext())
      XCTAssertEqual(changed.attributes, RemoteAttributes(mode: 0o640, mtime: mtime))
      XCTAssert(try container.contents(path("b"), changed) == bytes)
      let head = try XCTUnwrap(container.head(path("b"), "look", CallContext()))
      XCTAssertEqual(head["x-amz-meta-colour"], "green")
      XCTAssertEqual(head["content-type"], "text/x-test")
      XCTAssertEqual(try keys(container), ["b"])
      XCTAssertEqual(try container.pendingUploads(), 0, "\(kind)")
    }
  }

  func testALargeCopyKeepsItsConditionsAndLeavesNoParts() throws {
    for kind in Self.stores {
      let container = try open(S3Place(kind), Self.small)
      try object(container, "a", pattern(12 << 20))
      let old = try XCTUnwrap(objects(container).first)
      try object(container, "taken", [1])
      let taken = container.address.key(path("taken"))
      assertCode(.preconditionFailed) {
        _ = try container.copy(old, to: taken, if: .absent, "copy", CallContext())
      }
      try object(container, "a", pattern(12 << 20 + 1))
      let free = container.address.key(path("free"))
      assertCode(.preconditionFailed) {
        _ = try container.copy(old, to: free, if: .absent, "copy", CallContext())
      }
      // Its source changes after it was looked at.
      let now = try XCTUnwrap(objects(container, "a").first)
      let head = try XCTUnwrap(container.head(now.key, "look", CallContext()))
      try object(container, "a", pattern(12 << 20))
      assertCode(.preconditionFailed) {
        _ = try container.copy(now, to: free, if: .absent, changing: (head, .init()), "copy", CallContext())
      }
      XCTAssertEqual(try keys(container), ["a", "taken"], "\(kind)")
      XCTAssertEqual(try container.pendingUploads(), 0, "\(kind)")
    }
  }

  /// What a copy in parts, or a store that makes other ETags of them, was made from is known all the same.
  func testAFoldersMoveThatWasEndedKnowsItsCopiesInParts() throws {
    for kind in Self.stores {
      let container = try open(S3Place(kind), Self.small)
      _ = try container.makeFolder(path("d"), attributes: .init(), CallContext())
      let bytes = pattern(12 << 20)
      try object(container, "d/a", bytes)
      try object(container, "d/b", [1])
      try object(container, "e/b", [2])
      let source = try XCTUnwrap(objects(container, "d/a").first)
      _ = try container.copy(
        source, to: container.address.key(path("e/a")), if: .absent, "copy", CallContext())
      let note = container.moveNote(
        from: container.address.folderKey(path("d")), to: container.address.folderKey(path("e")))
      try container.client.require(.init(method: "PUT", key: note, what: "put"), CallContext())
      _ = try container.rename(path("d"), to: path("e"), version: nil, CallContext())
      XCTAssertEqual(try keys(container).subtracting(["d/", "e/"]), ["e/a", "e/b", "d/b"], "\(kind)")
      let theirs = try XCTUnwrap(container.item(at: path("e/b"), CallContext()))
      XCTAssertEqual(try container.contents(path("e/b"), theirs), [2], "somebody else's was replaced")
      let moved = try XCTUnwrap(container.item(at: path("e/a"), CallContext()))
      XCTAssert(try container.contents(path("e/a"), moved) == bytes)
    }
  }

  // MARK: - Proof

  func testACopyIsProvenBeforeItsSourceGoes() throws {
    let container = try open(S3Place(.s3))
    for (name, text) in [("a", "source"), ("same", "source"), ("altered", "soursc"), ("shorter", "sour")] {
      try object(container, name, Array(text.utf8))
    }
    let all = Dictionary(uniqueKeysWithValues: try objects(container).map { ($0.key, $0) })
    func found(_ name: String) throws -> S3Page.Object { try XCTUnwrap(all[container.address.key(path(name))]) }
    let source = try found("a")
    func isWhole(_ name: String, told: String? = nil) throws -> Bool {
      let found = try found(name)
      let copy = S3Copy(source: source, target: found.key, etag: told ?? found.etag)
      return try container.isWhole(copy, found, "move", CallContext())
    }
    XCTAssert(try isWhole("same"))
    XCTAssertFalse(try isWhole("altered", told: source.etag), "somebody has replaced it")
    assertCode(.inconsistent) { _ = try isWhole("altered") }
    assertCode(.inconsistent) { _ = try isWhole("shorter") }
    XCTAssertEqual(try keys(container), ["a", "same"], "a bad copy is no file")
  }
}

/// As another program puts it.
private func object(
  _ container: S3Container, _ key: String, _ bytes: [UInt8], _ headers: [(name: String, value: String)] = []
) throws {
  var request = S3Client.Request(method: "PUT", key: container.address.folderKey(.root) + Array(key.utf8), what: "put")
  request.body = .bytes(bytes)
  request.headers = headers
  try container.client.require(request, CallContext())
}
