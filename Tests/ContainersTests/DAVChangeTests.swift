import Foundation
import TestSupport
import XCTest

@testable import Containers

/// How changes at WebDAV servers are learned of, and what that costs.
final class DAVChangeTests: XCTestCase {
  /// A feed over a folder of a server, and another device that changes it.
  private final class Scene: Sendable {
    let place: DAVPlace
    let container: WebDAVContainer
    let other: WebDAVContainer
    let feed: any ChangeFeed
    private let server: CloudServer
    private let hints = Guarded<Set<ChangeHint>>([])

    init(_ kind: CloudServer.Kind, watching folders: [String] = ["d", "d/e"]) throws {
      server = try CloudServer.shared(kind)
      place = try DAVPlace(kind)
      (container, other) = (place.open(), place.open())
      _ = try container.identify(create: true, CallContext())
      feed = try XCTUnwrap(container.changeFeed { [hints] new in hints.withLock { $0.formUnion(new) } })
      XCTAssert(feed.watch(.root))
      for folder in folders {
        _ = try other.makeFolder(path(folder), attributes: .init(), CallContext())
        XCTAssert(feed.watch(path(folder)))
      }
    }

    /// What is told when it asks.
    func told(timeout: Double = 20) throws -> Set<ChangeHint> {
      hints.withLock { $0 = [] }
      try feed.ask(CallContext(timeout: timeout))
      return hints.withLock { $0 }
    }

    func put(_ name: String, _ text: String) throws {
      let before = try other.item(at: path(name), CallContext())
      try other.put(path(name), text, if: before.map { .version($0.version) } ?? .absent)
    }

    func remove(_ name: String, _ kind: ItemKind = .file) throws {
      try other.remove(path(name), kind: kind, version: nil, CallContext())
    }

    func set(_ switches: String) throws { try server.set(switches) }

    /// How often each kind of request was made while `body` ran.
    func requests(_ body: () throws -> Void) throws -> [String: Int] {
      let before = try server.counts()
      try body()
      return try server.counts().reduce(into: [:]) { made, count in
        let more = count.value - (before[count.key] ?? 0)
        if more > 0 { made[count.key] = more }
      }
    }
  }

  private func syncing(level: String = "infinity", watching folders: [String] = ["d", "d/e"]) throws -> Scene {
    let scene = try Scene(.sync, watching: folders)
    try scene.set("page=0&level=\(level)&cut=0&status=0")
    addTeardownBlock { try scene.set("page=0&level=infinity&cut=0&status=0") }
    return scene
  }

  private func hint(_ folder: String, _ name: String? = nil) throws -> ChangeHint {
    ChangeHint(folder: path(folder), name: try name.map { try ItemName($0) })
  }

  private func everything() throws -> Set<ChangeHint> { [try hint(""), try hint("d"), try hint("d/e")] }

  // MARK: - Reports

  func testOneReportTellsOfTheWholeTree() throws {
    let scene = try syncing()
    XCTAssertEqual(try scene.told(), try everything(), "what was before is looked at once")
    let quiet = try scene.requests { XCTAssertEqual(try scene.told(), []) }
    XCTAssertEqual(quiet, ["REPORT infinite": 1], "all that a poll costs")
    try scene.put("d/e/a & b.txt", "one")
    try scene.put("new", "n")
    _ = try scene.other.makeFolder(path("d/unseen"), attributes: .init(), CallContext())
    try scene.put("d/unseen/x", "nobody has looked in there")
    XCTAssertEqual(try scene.told(), [try hint("d/e", "a & b.txt"), try hint("", "new"), try hint("d", "unseen")])
    try scene.put("new", "edited")
    try scene.remove("d/e/a & b.txt")
    try scene.remove("d/e", .folder)
    XCTAssertEqual(try scene.told(), [try hint("d/e", "a & b.txt"), try hint("", "new"), try hint("d", "e")])
    XCTAssertEqual(try scene.told(), [])
  }

  func testAServerThatReportsOfOneFolderAtATime() throws {
    let scene = try syncing(level: "1")
    XCTAssertEqual(try scene.told(), try everything())
    XCTAssertEqual(try scene.told(), try everything(), "told from states that were asked for just now")
    let quiet = try scene.requests { XCTAssertEqual(try scene.told(), []) }
    XCTAssertEqual(quiet, ["REPORT 1": 3])
    try scene.put("d/e/a", "one")
    try scene.put("d/f", "one")
    XCTAssertEqual(try scene.told(), [try hint("d/e", "a"), try hint("d", "f")])
    // Another folder of that name.
    try scene.remove("d/e/a")
    try scene.remove("d/e", .folder)
    XCTAssertEqual(try scene.told(), [try hint("d", "e"), try hint("d/e")])
    _ = try scene.other.makeFolder(path("d/e"), attributes: .init(), CallContext())
    XCTAssert(try scene.told().contains(hint("d", "e")))
  }

  func testAReportThatIsCutIntoPagesIsReadToItsEnd() throws {
    for level in ["infinity", "1"] {
      let scene = try syncing(level: level)
      _ = try (scene.told(), scene.told())
      try scene.set("page=2")
      for number in 0..<7 { try scene.put("d/\(number)", "n") }
      XCTAssertEqual(try scene.told(), Set(try (0..<7).map { try hint("d", "\($0)") }), level)
      XCTAssertEqual(try scene.told(), [], level)
    }
  }

  func testManyChangesInAFolderAreOneListing() throws {
    let scene = try syncing(watching: ["d"])
    _ = try scene.told()
    for number in 0..<70 { try scene.put("d/\(number)", "n") }
    XCTAssertEqual(try scene.told(), [try hint("d")])
  }

  func testATokenThatTheServerHasForgottenMeansToLookAtEverything() throws {
    for level in ["infinity", "1"] {
      let scene = try syncing(level: level)
      _ = try (scene.told(), scene.told())
      try scene.put("d/a", "one")
      try scene.set("forget=1")
      XCTAssertEqual(try scene.told(), try everything(), level)
      _ = try scene.told()
      try scene.put("d/b", "one")
      XCTAssert(try scene.told().contains(hint("d", "b")), level)
    }
  }

  func testAReportThatFailsOrIsCutTellsNothingAndLosesNothing() throws {
    for (level, trouble) in [
      ("infinity", "cut=100"), ("1", "cut=100"), ("infinity", "status=503"), ("1", "status=500"),
    ] {
      let scene = try syncing(level: level)
      _ = try (scene.told(), scene.told())
      try scene.put("d/a", "one")
      try scene.put("d/b", "two")
      try scene.remove("d/a")
      try scene.set(trouble)
      XCTAssertThrowsError(try scene.told(), "\(level) \(trouble)")
      try scene.set("cut=0&status=0")
      let told = try scene.told()
      XCTAssert(try told.contains(hint("d", "b")) || told.contains(hint("d")), "\(level) \(trouble): \(told)")
    }
  }

  // MARK: - Listings

  func testWithoutReportsOneListingOfTheTreeShowsWhichFoldersChanged() throws {
    let scene = try syncing(level: "none")
    XCTAssertEqual(try scene.told(), try everything())
    XCTAssertEqual(try scene.told(), try everything(), "there is nothing yet to compare with")
    let quiet = try scene.requests { XCTAssertEqual(try scene.told(), []) }
    XCTAssertEqual(quiet, ["PROPFIND infinity": 1])
    try scene.put("d/e/a", "one")
    XCTAssertEqual(try scene.told(), [try hint("d/e")])
    try scene.put("d/e/a", "another")
    XCTAssertEqual(try scene.told(), [try hint("d/e")])
    try scene.remove("d/e/a")
    try scene.remove("d/e", .folder)
    XCTAssertEqual(try scene.told(), [try hint("d"), try hint("d/e")])
  }

  /// What nobody looks at is not what a poll costs.
  func testATreeThatHoldsMuchBesideIsListedFolderByFolder() throws {
    let scene = try syncing(level: "none")
    let folder =
      try XCTUnwrap(CloudServer.shared(.webdav).values["files"]) + "/"
      + String(decoding: scene.place.address.names[0], as: UTF8.self)
    for number in 0..<1_200 {
      XCTAssert(FileManager.default.createFile(atPath: "\(folder)/.docsfs-container/\(number)", contents: nil))
    }
    XCTAssertEqual(try scene.told(), try everything())
    XCTAssertEqual(try scene.told(), try everything())
    XCTAssertEqual(try scene.told(), [], "docsfs's own folder does not count")
    try FileManager.default.createDirectory(atPath: "\(folder)/beside", withIntermediateDirectories: false)
    for number in 0..<1_200 {
      XCTAssert(FileManager.default.createFile(atPath: "\(folder)/beside/\(number)", contents: nil))
    }
    XCTAssertEqual(try scene.told(), try everything())
    let made = try scene.requests { XCTAssertEqual(try scene.told(), try everything()) }
    XCTAssertEqual(made, [:], "it is not tried again until more is watched")
  }

  func testAServerThatRefusesToListTheTreeIsAskedOnce() throws {
    let scene = try Scene(.apache)
    for _ in 0..<3 { XCTAssertEqual(try scene.told(), try everything()) }
  }

  // MARK: - Xandikos, whose reports leave folders out

  func testAServerWhoseReportsLeaveFoldersOutIsListed() throws {
    let scene = try Scene(.xandikos)
    for _ in 0..<2 { XCTAssertEqual(try scene.told(), try everything()) }
    XCTAssertEqual(try scene.told(), [])
    _ = try scene.other.makeFolder(path("d/e/f"), attributes: .init(), CallContext())
    XCTAssertEqual(try scene.told(), [try hint("d/e")])
  }

  func testReportsOfARealServer() throws {
    let scene = try Scene(.xandikos)
    let token = try XCTUnwrap(scene.container.syncToken(path("d"), CallContext()))
    try scene.put("d/ü & <a>", "one")
    func changes(since token: String, isDeep: Bool = false) throws -> (DAVChanges, [String: Int]) {
      let found = Guarded<[String: Int]>([:])
      let answer = try scene.container.changes(in: path("d"), since: token, isDeep: isDeep, CallContext()) {
        names, status in
        found.withLock { $0[String(decoding: names.last ?? [], as: UTF8.self)] = status ?? 200 }
      }
      return (answer, found.withLock { $0 })
    }
    let (first, made) = try changes(since: token)
    XCTAssertEqual(made, ["ü & <a>": 200])
    guard case .page(let next, isCut: false) = first else { return XCTFail("\(first)") }
    try scene.remove("d/ü & <a>")
    XCTAssertEqual(try changes(since: next).1, ["ü & <a>": 404])
    XCTAssertEqual(try changes(since: "<none>").0, .unknownToken)
    XCTAssertEqual(try changes(since: next, isDeep: true).0, .refused(400))
  }
}
