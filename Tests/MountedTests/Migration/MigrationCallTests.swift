import CLinux
import DocumentMigration
import TestSupport
import XCTest

/// kill -9 of a migration while the mount does not answer one of its calls; each in turn with DOCSFS_FULL=1, else a few
/// of them. Whichever it is: each document is whole somewhere, and one more run does the rest.
final class MigrationCallTests: MigrationTestCase {
  override var patience: Double { Effort.full ? 3600 : 600 }

  private let most = Effort.full ? 1000 : 16

  private var tree: FolderTree {
    var tree = FolderTree.documents()
    tree["large.bin"] = .file(patterned(300_000, seed: 9))
    return tree
  }

  /// Names of the folders in which a migration runs, one for each time; the first is for counting.
  private var names: [String] { (0...most).map { "run\($0)" } }

  /// `arguments` and `check` are given the name of a folder of the mount; `check` also whether all has to be done.
  private func killInCalls(
    _ volume: MountedVolume, _ arguments: (String) -> [String], check: (String, Bool) throws -> Void
  ) throws {
    let calls = try count(volume, arguments(names[0]))
    try check(names[0], true)
    XCTAssertGreaterThan(calls, 30)
    let times = min(most, calls)
    var fired = 0
    for number in 1...times {
      let name = names[number]
      let call = number * calls / times
      try volume.control("add id=call path=\(name)/** hang when=\(call)")
      let program = try Subprocess([MountedVolume.binary, "migrate"] + arguments(name), environment: volume.variables)
      let isThere = try eventually(within: 60) { try !program.isRunning || volume.counts("call").fired > 0 }
      XCTAssertTrue(isThere, "call \(call)")
      fired += try volume.counts("call").fired
      program.signal(SIGKILL)
      try volume.control("clear")
      XCTAssertNotNil(program.finish(within: 30).status, "call \(call): it cannot be killed")
      try check(name, false)
      try volume.run(["migrate"] + arguments(name))
      try check(name, true)
      if testRun?.totalFailureCount ?? 0 > 3 { return }
    }
    // How many calls there are is not quite the same each time.
    XCTAssertGreaterThan(fired, times / 2)
  }

  private func count(_ volume: MountedVolume, _ arguments: [String]) throws -> Int {
    try volume.control("add id=call path=\(names[0])/** hang when=1000000")
    try volume.run(["migrate"] + arguments)
    defer { try? volume.control("clear") }
    return try volume.counts("call").matched
  }

  private func assertState(
    from: String, to: String, isDone: Bool, file: StaticString = #filePath, line: UInt = #line
  ) throws {
    let (left, brought) = (try FolderTree(at: from), try FolderTree(at: to))
    XCTAssertEqual(
      tree.documents.isHeld(by: left, brought), [], "\(from): whole in neither place", file: file, line: line)
    guard isDone else { return }
    XCTAssertEqual(brought, tree, from, file: file, line: line)
    XCTAssertTrue(left.isEmpty, from, file: file, line: line)
  }

  func testToTheCloud() throws {
    let volume = try mount()
    let local = local
    for name in names {
      try tree.write(to: "\(local)/\(name)")
      try Sys.makeFolder(volume.path(name))
    }
    try killInCalls(volume, { ["to-cloud", "\(local)/\($0)", volume.path($0), "--move", "--jobs", "2"] }) {
      name, isDone in
      try assertState(from: "\(local)/\(name)", to: volume.path(name), isDone: isDone)
    }
  }

  func testToTheDevice() throws {
    let volume = try mount { volume in for name in self.names { try self.tree.write(to: volume.remote(name)) } }
    let local = local
    try killInCalls(volume, { ["to-local", volume.path($0), "\(local)/\($0)", "--move", "--jobs", "2"] }) {
      name, isDone in
      try assertState(from: volume.path(name), to: "\(local)/\(name)", isDone: isDone)
    }
  }

  func testRelocating() throws {
    let members = ["cafes.sqlite", "cafes.sqlite-shm", "cafes.sqlite-wal"]
    let volume = try mount { volume in
      for name in self.names {
        try Sys.makeFolders(volume.remote(name) + "/Documents")
        for member in members { try Sys.put("\(volume.remote(name))/Documents/\(member)", member) }
      }
    }
    let rule = "*.sqlite=Library/Caches"
    try killInCalls(volume, { ["relocate", "--home", volume.path($0), "--rule", rule] }) { name, isDone in
      let home = volume.path(name)
      let folders = ["Documents", "Library/Caches"]
      let whole = folders.filter { folder in
        members.allSatisfy { (try? Sys.text("\(home)/\(folder)/\($0)")) == $0 }
      }
      for folder in folders where Sys.exists("\(home)/\(folder)/cafes.sqlite") {
        XCTAssertTrue(whole.contains(folder), "\(name): a database without its log in \(folder)")
      }
      XCTAssertFalse(whole.isEmpty, name)
      guard isDone else { return }
      XCTAssertEqual(try Sys.names(home + "/Documents"), [], name)
      XCTAssertEqual(try Sys.names(home + "/Library/Caches"), members, name)
    }
  }
}
