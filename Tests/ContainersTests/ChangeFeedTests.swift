import CLinux
import Foundation
import TestSupport
import XCTest

@testable import Containers

final class ChangeFeedTests: XCTestCase {
  private struct Setting {
    let folder: TemporaryFolder
    let container: DirectoryContainer
    let feed: any ChangeFeed
    let hints: Guarded<Set<ChangeHint>>
  }

  private func make() throws -> Setting {
    let folder = try TemporaryFolder()
    let container = DirectoryContainer(path: Array(folder.path.utf8))
    _ = try container.identify(create: true, CallContext())
    let hints = Guarded<Set<ChangeHint>>([])
    let feed = try XCTUnwrap(
      container.changeFeed { new in
        XCTAssertFalse(new.isEmpty)
        hints.signal { $0.formUnion(new) }
      })
    addTeardownBlock {
      feed.stop()
      folder.remove()
    }
    return Setting(folder: folder, container: container, feed: feed, hints: hints)
  }

  private func hint(_ folder: String, _ name: String? = nil) throws -> ChangeHint {
    ChangeHint(folder: path(folder), name: try name.map { try ItemName($0) })
  }

  /// Waits for a hint, generously; then forgets all.
  private func expect(_ s: Setting, _ folder: String, _ name: String? = nil, line: UInt = #line) throws {
    let wanted = try hint(folder, name)
    let came = s.hints.wait(until: Clock.now() + 20_000_000_000) { $0.contains(wanted) }
    XCTAssert(came, "no hint for \(wanted); but \(s.hints.withLock { $0 })", line: line)
    s.hints.withLock { $0 = [] }
  }

  /// Whatever was going to be told has been told: a later change has been.
  private func settle(_ s: Setting) throws {
    let name = freshName()
    try s.folder.write(name, "x")
    let wanted = try hint("", name)
    XCTAssert(s.hints.wait(until: Clock.now() + 20_000_000_000) { $0.contains(wanted) })
  }

  func testWhatOthersDoIsTold() throws {
    let s = try make()
    XCTAssert(s.feed.watch(.root))
    try s.folder.write("a", "x")
    try expect(s, "", "a")
    try s.folder.write("a", "xy")
    try expect(s, "", "a")
    chmod(s.folder.path + "/a", 0o600)
    try expect(s, "", "a")
    Glibc.rename(s.folder.path + "/a", s.folder.path + "/b")
    try expect(s, "", "b")
    unlink(s.folder.path + "/b")
    try expect(s, "", "b")
    mkdir(s.folder.path + "/d", 0o755)
    try expect(s, "", "d")
    rmdir(s.folder.path + "/d")
    try expect(s, "", "d")
    XCTAssertEqual(system("echo x > '\(s.folder.path)/by another process'"), 0)
    try expect(s, "", "by another process")
  }

  func testARenameTellsBothNames() throws {
    let s = try make()
    mkdir(s.folder.path + "/d", 0o755)
    try s.folder.write("a", "x")
    XCTAssert(s.feed.watch(.root))
    XCTAssert(s.feed.watch(path("d")))
    Glibc.rename(s.folder.path + "/a", s.folder.path + "/d/b")
    let wanted = try [hint("", "a"), hint("d", "b")]
    XCTAssert(s.hints.wait(until: Clock.now() + 20_000_000_000) { $0.isSuperset(of: wanted) })
  }

  func testOnlyWatchedFoldersAreTold() throws {
    let s = try make()
    mkdir(s.folder.path + "/d", 0o755)
    mkdir(s.folder.path + "/e", 0o755)
    XCTAssert(s.feed.watch(.root))
    XCTAssert(s.feed.watch(path("e")))
    s.feed.unwatch(path("e"))
    try s.folder.write("d/a", "x")
    try s.folder.write("e/a", "x")
    try settle(s)
    XCTAssertFalse(s.hints.withLock { $0 }.contains { $0.folder == path("d") || $0.folder == path("e") })
  }

  func testTheHiddenFolderIsNotTold() throws {
    let s = try make()
    XCTAssert(s.feed.watch(.root))
    chmod(s.folder.path + "/.docsfs-container", 0o700)
    try s.container.put(path("a"), "x")
    try settle(s)
    XCTAssertFalse(s.hints.withLock { $0 }.contains { $0.name == hiddenName })
  }

  func testAFolderThatIsRenamedOrRemovedIsToldInItsParent() throws {
    let s = try make()
    mkdir(s.folder.path + "/d", 0o755)
    mkdir(s.folder.path + "/d/e", 0o755)
    for name in ["d", "d/e"] { XCTAssert(s.feed.watch(path(name))) }
    Glibc.rename(s.folder.path + "/d", s.folder.path + "/g")
    try expect(s, "", "d")
    XCTAssert(s.feed.watch(.root))
    // Neither d nor what is below it is told under the old path any more.
    try s.folder.write("g/a", "x")
    try s.folder.write("g/e/a", "x")
    try settle(s)
    XCTAssertFalse(s.hints.withLock { $0 }.contains { $0.folder.names.starts(with: path("d").names) })
    XCTAssert(s.feed.watch(path("g/e")))
    try s.folder.write("g/e/b", "x")
    try expect(s, "g/e", "b")
    try FileManager.default.removeItem(atPath: s.folder.path + "/g")
    try expect(s, "g", "e")
  }

  func testAWatchThatWasSetAnewAfterARenameStays() throws {
    let s = try make()
    mkdir(s.folder.path + "/d", 0o755)
    XCTAssert(s.feed.watch(path("d")))
    for round in 0..<20 {
      // At once, before the feed has seen the rename.
      let (old, new) = round % 2 == 0 ? ("d", "g") : ("g", "d")
      Glibc.rename(s.folder.path + "/" + old, s.folder.path + "/" + new)
      XCTAssert(s.feed.watch(path(new)))
      try s.folder.write(new + "/\(round)", "x")
      try expect(s, new, "\(round)")
    }
  }

  func testWhatCannotBeWatched() throws {
    let s = try make()
    symlink("/", s.folder.path + "/evil")
    try s.folder.write("file", "x")
    for name in ["none", "file", "evil", "evil/etc"] { XCTAssertFalse(s.feed.watch(path(name)), name) }
    s.feed.unwatch(path("none"))
    s.feed.stop()
    XCTAssertFalse(s.feed.watch(.root))
  }

  func testStopMayBeCalledTwiceAndFromTheHandler() throws {
    let folder = try TemporaryFolder()
    let container = DirectoryContainer(path: Array(folder.path.utf8))
    let state = Guarded<(feed: (any ChangeFeed)?, calls: Int)>((nil, 0))
    let feed = try XCTUnwrap(
      container.changeFeed { _ in
        state.withLock { $0.feed }?.stop()
        state.signal { $0.calls += 1 }
      })
    state.withLock { $0.feed = feed }
    XCTAssert(feed.watch(.root))
    try folder.write("a", "x")
    XCTAssert(state.wait(until: Clock.now() + 20_000_000_000) { $0.calls == 1 })
    feed.stop()
    feed.stop()
    state.withLock { $0.feed = nil }
  }

  func testHintsAreGathered() {
    var batch = HintBatch()
    for _ in 0..<1_000 { batch.add(ChangeHint(folder: path("a"), name: try? ItemName("x"))) }
    XCTAssertEqual(batch.take(), [ChangeHint(folder: path("a"), name: try? ItemName("x"))])
    XCTAssert(batch.isEmpty)
    for n in 0...HintBatch.mostNames { batch.add(ChangeHint(folder: path("a"), name: try? ItemName("\(n)"))) }
    batch.add(ChangeHint(folder: path("a"), name: try? ItemName("x")))
    XCTAssertEqual(batch.take(), [ChangeHint(folder: path("a"))])
  }
}
