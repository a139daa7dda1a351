import CLinux
import Foundation
import TestSupport
import XCTest

@testable import Containers

/// Others write while docsfs publishes, and processes die in the middle: no byte that anybody wrote is lost.
final class DirectoryRaceTests: XCTestCase {
  private func make(_ abilities: DirectoryContainer.Abilities = .init()) throws
    -> (folder: TemporaryFolder, container: DirectoryContainer)
  {
    let folder = try TemporaryFolder()
    let container = DirectoryContainer(path: Array(folder.path.utf8), abilities: abilities)
    _ = try container.identify(create: true, CallContext())
    addTeardownBlock { folder.remove() }
    return (folder, container)
  }

  /// All contents of the folder, conflicts included.
  private func contents(_ folder: TemporaryFolder) throws -> [String: String] {
    try folder.names().filter { $0 != ".docsfs-container" }.reduce(into: [:]) { $0[$1] = try folder.read($1) }
  }

  // MARK: - Races

  func testWhatOthersReplaceIsNeverLost() throws { try raceWithReplacers(.init()) }

  func testWhatOthersReplaceIsNeverLostWithoutExchange() throws {
    try raceWithReplacers(.init(exchanges: false))
  }

  /// A symlink that somebody replaces at once: what is told of it is never the other's version with our target.
  func testANewSymlinkIsNotTakenForTheOneThatReplacesIt() throws {
    let (folder, container) = try make()
    let link = folder.path + "/l"
    let isDone = Guarded(false)
    let wrong = Guarded(0)
    onThreads(2) { number in
      if number == 1 {
        while !isDone.withLock({ $0 }) {
          if unlink(link) == 0 { symlink("theirs", link) }
        }
        return
      }
      for _ in 0..<2_000 {
        let made = try? container.makeSymlink(path("l"), target: Array("ours".utf8), attributes: .init(), CallContext())
        if let made, made.target != Array("ours".utf8) { wrong.withLock { $0 += 1 } }
        unlink(link)
      }
      isDone.withLock { $0 = true }
    }
    XCTAssertEqual(wrong.withLock { $0 }, 0)
  }

  /// Two publishers and two foreign programs each bring unique texts to one name. Every text that got there
  /// must be found in the end: as the file, as a conflict, or as what somebody took from there with open eyes
  /// (a publisher had read the version that it replaced; a foreign program exchanges its file in, and reads
  /// what came out).
  private func raceWithReplacers(_ abilities: DirectoryContainer.Abilities) throws {
    let (folder, container) = try make(abilities)
    let root = folder.path
    try folder.write("a", "start")
    let written = Guarded<Set<String>>(["start"])
    let seen = Guarded<Set<String>>([])
    let foreignersLeft = Guarded(2)
    onThreads(4) { number in
      if number < 2 {
        for round in 0..<80 {
          let text = "foreign \(number) \(round)"
          if let old = try? Self.exchangeIn(text, root) {
            written.withLock { _ = $0.insert(text) }
            seen.withLock { _ = $0.insert(old) }
          }
          usleep(UInt32.random(in: 0..<30_000))
        }
        return foreignersLeft.withLock { $0 -= 1 }
      }
      var round = 0
      while foreignersLeft.withLock({ $0 }) > 0 {
        round += 1
        guard let (item, bytes) = try? container.current(path("a")) else { continue }
        let text = "ours \(number) \(round)"
        guard (try? container.put(path("a"), text, if: .version(item.version))) != nil else { continue }
        written.withLock { _ = $0.insert(text) }
        seen.withLock { _ = $0.insert(String(decoding: bytes, as: UTF8.self)) }
      }
    }
    let found = try seen.withLock { $0 }.union(contents(folder).values)
    XCTAssertEqual(written.withLock { $0 }.subtracting(found), [])
    XCTAssertGreaterThan(written.withLock { $0 }.count { $0.hasPrefix("ours") }, 0)
    XCTAssertEqual(try folder.names(".docsfs-container/displaced"), [])
    XCTAssertEqual(try folder.names(".docsfs-container/staging"), [])
  }

  /// Exchanges a new file with `a`; what was in the old one.
  private static func exchangeIn(_ text: String, _ root: String) throws -> String? {
    let new = root + "/.docsfs-container/test \(text)"
    try text.write(toFile: new, atomically: false, encoding: .utf8)
    defer { unlink(new) }
    guard lx_renameat2(AT_FDCWD, new, AT_FDCWD, root + "/a", UInt32(LX_RENAME_EXCHANGE)) == 0 else {
      return nil
    }
    return try String(contentsOfFile: new, encoding: .utf8)
  }

  /// A publisher writes back just what it has read; others append lines in place. Each line must be found.
  func testWhatOthersAppendIsNeverLost() throws {
    let (folder, container) = try make()
    let root = folder.path
    try folder.write("a", "start\n")
    let written = Guarded<Set<String>>([])
    let published = Guarded(0)
    let writersLeft = Guarded(2)
    onThreads(3) { number in
      if number < 2 {
        for round in 0..<80 {
          if Self.append("line \(number) \(round)", root) {
            written.withLock { _ = $0.insert("line \(number) \(round)") }
          }
          usleep(UInt32.random(in: 0..<30_000))
        }
        return writersLeft.withLock { $0 -= 1 }
      }
      while writersLeft.withLock({ $0 }) > 0 {
        guard let (item, bytes) = try? container.current(path("a")) else { continue }
        let source = BytesSource(bytes)
        let new = try? container.put(
          path("a"), from: source, attributes: .init(), if: .version(item.version), CallContext())
        if new != nil { published.withLock { $0 += 1 } }
      }
    }
    let found = try contents(folder).values.flatMap { $0.split(separator: "\n").map(String.init) }
    XCTAssertEqual(written.withLock { $0 }.subtracting(found), [])
    XCTAssertGreaterThan(published.withLock { $0 }, 0)
    XCTAssertEqual(try folder.names(".docsfs-container/displaced"), [])
  }

  private static func append(_ line: String, _ root: String) -> Bool {
    let fd = open(root + "/a", O_WRONLY | O_APPEND)
    guard fd >= 0 else { return false }
    defer { close(fd) }
    // A while between open and write: what was opened may be replaced meanwhile.
    if Bool.random() { usleep(UInt32.random(in: 0..<5_000)) }
    return write(fd, line + "\n", line.utf8.count + 1) == line.utf8.count + 1
  }

  /// Deletes of what was read, against others who replace it.
  func testWhatOthersReplaceSurvivesDeletes() throws {
    let (folder, container) = try make()
    let root = folder.path
    let written = Guarded<Set<String>>([])
    let seen = Guarded<Set<String>>([])
    let isDone = Guarded(false)
    onThreads(2) { number in
      if number == 0 {
        for round in 0..<80 {
          let new = root + "/.docsfs-container/test"
          try? "text \(round)".write(toFile: new, atomically: false, encoding: .utf8)
          if lx_renameat2(AT_FDCWD, new, AT_FDCWD, root + "/a", UInt32(LX_RENAME_NOREPLACE)) == 0 {
            written.withLock { _ = $0.insert("text \(round)") }
          } else if let old = try? Self.exchangeIn("text \(round)", root) {
            written.withLock { _ = $0.insert("text \(round)") }
            seen.withLock { _ = $0.insert(old) }
          }
          usleep(UInt32.random(in: 0..<30_000))
        }
        return isDone.withLock { $0 = true }
      }
      while !isDone.withLock({ $0 }) {
        guard let (item, bytes) = try? container.current(path("a")) else { continue }
        if (try? container.remove(path("a"), kind: .file, version: item.version, CallContext())) != nil {
          seen.withLock { _ = $0.insert(String(decoding: bytes, as: UTF8.self)) }
        }
      }
    }
    let found = try seen.withLock { $0 }.union(contents(folder).values)
    XCTAssertEqual(written.withLock { $0 }.subtracting(found), [])
  }

  func testAFileThatIsOpenForWritingIsNotReplaced() throws {
    let (folder, container) = try make()
    let one = try container.put(path("a"), "one")
    let fd = open(folder.path + "/a", O_WRONLY | O_APPEND)
    assertCode(.system(.EBUSY)) { try container.put(path("a"), "two", if: .version(one.version)) }
    assertCode(.system(.EBUSY)) {
      try container.remove(path("a"), kind: .file, version: one.version, CallContext())
    }
    XCTAssertEqual(
      try container.item(at: path("a"), CallContext()), one, "nothing has changed, not even ctime")
    close(fd)
    try container.put(path("a"), "two", if: .version(one.version))
  }

  // MARK: - Leftovers of a process that was killed

  /// Puts the state of a replacement into the hidden folder by hand: `displaced` holds `text`, with a note.
  private func leave(
    _ text: String, _ folder: TemporaryFolder, _ container: DirectoryContainer,
    note: (Version) -> AsideNote?
  ) throws {
    let file = folder.path + "/.docsfs-container/displaced/0123456789abcdef"
    try text.write(toFile: file, atomically: false, encoding: .utf8)
    let open = try Descriptor(lx_open(file, O_RDONLY, 0))
    var status = stat()
    XCTAssertEqual(stat(folder.path, &status), 0)
    let state = try XCTUnwrap(FileState(of: open, rootDevice: UInt64(status.st_dev)))
    guard let note = note(state.version) else { return }
    XCTAssertEqual(symlink(cName(note.bytes), file + ".note"), 0)
  }

  private func identifyAnew(_ folder: TemporaryFolder) throws {
    _ = try DirectoryContainer(path: Array(folder.path.utf8)).identify(create: true, CallContext())
    XCTAssertEqual(try folder.names(".docsfs-container/displaced"), [])
    XCTAssertEqual(try folder.names(".docsfs-container/staging"), [])
  }

  private let strange = Version([1, 2, 3, 4])

  func testStagedLeftoversAreRemoved() throws {
    let (folder, _) = try make()
    try folder.write(".docsfs-container/staging/x", "half of a file")
    try identifyAnew(folder)
    XCTAssertEqual(try contents(folder), [:])
  }

  func testOursThatWasNotPublishedIsRemoved() throws {
    let (folder, container) = try make()
    try folder.write("a", "base")
    try leave("ours", folder, container) { AsideNote(ours: $0, base: strange, path: path("a")) }
    try identifyAnew(folder)
    XCTAssertEqual(try contents(folder), ["a": "base"])
  }

  func testABaseThatWasReplacedIsRemoved() throws {
    let (folder, container) = try make()
    try folder.write("a", "new")
    try leave("base", folder, container) { AsideNote(ours: strange, base: $0, path: path("a")) }
    try identifyAnew(folder)
    XCTAssertEqual(try contents(folder), ["a": "new"])
  }

  func testABaseWhosePlaceIsEmptyReturns() throws {
    let (folder, container) = try make()
    mkdir(folder.path + "/d", 0o755)
    try leave("base", folder, container) { AsideNote(ours: nil, base: $0, path: path("d/a")) }
    try identifyAnew(folder)
    XCTAssertEqual(try folder.read("d/a"), "base")
  }

  func testWhatIsNoBaseIsKeptAsAConflict() throws {
    let (folder, container) = try make()
    try folder.write("a.txt", "ours")
    try leave("foreign", folder, container) { _ in
      AsideNote(ours: strange, base: strange, path: path("a.txt"))
    }
    try identifyAnew(folder)
    let all = try contents(folder)
    XCTAssertEqual(all["a.txt"], "ours")
    XCTAssertEqual(Set(all.values), ["ours", "foreign"])
    XCTAssert(all.keys.contains { $0.hasPrefix("a (conflict ") && $0.hasSuffix(").txt") }, "\(all.keys)")
  }

  func testWhatHasNoFolderAnyMoreIsKeptAbove() throws {
    let (folder, container) = try make()
    mkdir(folder.path + "/d", 0o755)
    try leave("foreign", folder, container) { _ in AsideNote(ours: nil, base: strange, path: path("d/gone/a"))
    }
    try identifyAnew(folder)
    XCTAssertEqual(try folder.read("d/a"), "foreign")
  }

  func testWhatHasNoNoteIsKept() throws {
    let (folder, container) = try make()
    try leave("foreign", folder, container) { _ in nil }
    try identifyAnew(folder)
    XCTAssertEqual(Array(try contents(folder).values), ["foreign"])
  }

  func testNothingIsTidiedWhileAnybodyIsAtWork() throws {
    let (folder, container) = try make()
    let source = BytesSource(
      Array("new".utf8),
      isCurrent: {
        // In the middle of a put.
        let other = DirectoryContainer(path: Array(folder.path.utf8))
        return (try? other.identify(create: true, CallContext())) != nil
      })
    _ = try container.put(path("a"), from: source, attributes: .init(), if: .absent, CallContext())
    XCTAssertEqual(try contents(folder), ["a": "new"])
  }

  func testNotesAreReadAsTheyWereWritten() throws {
    let long = ContainerPath(try (0..<30).map { try ItemName(String(repeating: "x", count: 200) + "\($0)") })
    let odd = ContainerPath([try ItemName([0xff, 0x3a, 0x0a]), try ItemName("b")])
    for path in [path("a"), odd] {
      let note = AsideNote(ours: Version([0, 255]), base: nil, path: path)
      XCTAssertEqual(AsideNote(note.bytes), note)
    }
    let cut = AsideNote(ours: nil, base: strange, path: long)
    XCTAssertLessThan(cut.bytes.count, 4_096)
    XCTAssertEqual(AsideNote(cut.bytes)?.path.names, [try XCTUnwrap(long.last)])
    XCTAssertNil(AsideNote(Array("2:-:-:a".utf8)))
    XCTAssertNil(AsideNote([]))
  }

  /// A real process that is killed in the middle of replacing, again and again: the file is always whole, and
  /// nothing that was there before is lost.
  func testAProcessThatIsKilledWhileItReplaces() throws {
    let (folder, container) = try make()
    try container.put(path("a"), "round 0")
    for round in 1...30 {
      guard let item = try container.item(at: path("a"), CallContext()) else {
        return XCTFail("the file is gone")
      }
      let child = try startChild(folder.path, item.version, "round \(round)")
      usleep(UInt32.random(in: 0..<3_000))
      kill(child, SIGKILL)
      var status: Int32 = 0
      waitpid(child, &status, 0)
      try identifyAnew(folder)
      let text = try folder.read("a")
      XCTAssert(text.hasPrefix("round "), text)
      XCTAssertEqual(try contents(folder).count, 1)
    }
  }

  /// fork(2) is hidden from Swift; a child of a process with one busy thread may do I/O.
  private func startChild(_ root: String, _ version: Version, _ text: String) throws -> pid_t {
    let symbol = try XCTUnwrap(dlsym(nil, "fork"))
    let fork = unsafeBitCast(symbol, to: (@convention(c) () -> Int32).self)
    let child = fork()
    guard child == 0 else { return child }
    let container = DirectoryContainer(path: Array(root.utf8))
    for _ in 0..<100 { _ = try? container.put(path("a"), text, if: .version(version)) }
    _exit(0)
  }
}
