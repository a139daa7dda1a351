import CLinux
import DocumentMigration
import StorageErrors
import TestSupport
import XCTest

/// kill -9 of the migration before every one of its steps, early and late in the run. In every state that it leaves each
/// document is whole somewhere; one more run, and all is as asked.
final class MigrationKillTests: MigrationTestCase {
  override var patience: Double { 600 }

  override func setUpWithError() throws {
    #if !DEBUG
      throw XCTSkip("needs the crash points of a debug build")
    #endif
    try super.setUpWithError()
  }

  private static let steps = [
    "makeFolder", "look", "copy", "attributes", "sync", "verify", "place", "syncFolder", "release", "finishFolder",
  ]

  private var tree: FolderTree {
    var tree = FolderTree.documents()
    tree["large.bin"] = .file(patterned(300_000, seed: 9))
    return tree
  }

  /// Kills and runs again, in two folders of their own for each step. `seen` reads the source, of the folder's name.
  private func killEverywhere(
    _ volume: MountedVolume, _ verb: String, _ disposition: String, from source: String, to destination: String,
    seen: (String) throws -> FolderTree
  ) throws {
    for step in Self.steps {
      for time in [1, 3] {
        let name = "\(step)\(time)"
        let (from, to) = ("\(source)/\(name)", "\(destination)/\(name)")
        try tree.write(to: from)
        try Sys.makeFolder(to)
        if source == volume.mountpoint {
          try volume.settle()
          try volume.run("evict", "-r", from)
        }
        volume.environment["DOCSFS_MIGRATE_CRASH"] = "\(step):\(time)"
        let outcome = migrate(volume, verb, from, to, disposition)
        volume.environment = [:]
        XCTAssertEqual(outcome.status, 128 + SIGKILL, "\(name): \(outcome)")
        let held = tree.documents.isHeld(by: try seen(name), try FolderTree(at: to))
        XCTAssertEqual(held, [], "\(name): whole in neither place")
        try must(volume, verb, from, to, disposition)
        XCTAssertEqual(try FolderTree(at: to), tree, name)
        XCTAssertEqual(try seen(name), disposition == "--move" ? FolderTree() : tree, name)
        try assertNothingTemporary(to)
      }
    }
  }

  func testToTheCloudMoving() throws {
    let volume = try mount()
    let local = local
    try killEverywhere(volume, "to-cloud", "--move", from: local, to: volume.mountpoint) { name in
      try FolderTree(at: local + "/" + name)
    }
    try volume.settle()
    for folder in try volume.names() { XCTAssertEqual(try remote(volume, folder), tree, folder) }
  }

  func testToTheDeviceMoving() throws {
    let volume = try mount()
    try killEverywhere(volume, "to-local", "--move", from: volume.mountpoint, to: local) { name in
      try FolderTree(at: volume.path(name))
    }
    try volume.settle()
    XCTAssertEqual(try remote(volume).documents.nodes.count, 0)
  }

  /// Looked at from another device: reading the mount would materialize what has to be a placeholder.
  func testToTheDeviceKeeping() throws {
    let volume = try mount()
    try killEverywhere(volume, "to-local", "--keep", from: volume.mountpoint, to: local) { name in
      try self.remote(volume, name)
    }
    XCTAssertEqual(try volume.statusNumber("dirtyItems"), 0)
    XCTAssertEqual(try volume.statusNumber("cacheBytes"), 0, "what a killed run had materialized is dropped too")
  }

  func testRelocating() throws {
    let volume = try mount()
    let members = ["cafes.sqlite", "cafes.sqlite-shm", "cafes.sqlite-wal"]
    // On a local disk the unit gets second names; a mount has none, so there it is copied.
    for (home, steps) in [
      (local, ["look", "link", "syncFolder", "release"]),
      (volume.path("app"), ["look", "link", "copy", "attributes", "sync", "verify", "place", "syncFolder", "release"]),
    ] {
      for step in steps {
        for time in 1...3 {
          try Sys.makeFolders(home + "/Documents")
          for name in members { try Sys.put(home + "/Documents/" + name, name) }
          let arguments = [
            MountedVolume.binary, "migrate", "relocate", "--home", home, "--rule", "*.sqlite=Library/Caches",
          ]
          let outcome = Shell.run(
            arguments, environment: volume.variables.merging(["DOCSFS_MIGRATE_CRASH": "\(step):\(time)"]) { $1 })
          XCTAssertEqual(outcome.status, 128 + SIGKILL, "\(step) \(time): \(outcome)")
          // The database is opened where it is found; its sidecars are there too.
          let whole = ["Documents", "Library/Caches"].filter { folder in
            members.allSatisfy { (try? Sys.text("\(home)/\(folder)/\($0)")) == $0 }
          }
          XCTAssertFalse(whole.isEmpty, "\(step) \(time)")
          for folder in ["Documents", "Library/Caches"] where Sys.exists("\(home)/\(folder)/cafes.sqlite") {
            XCTAssertTrue(whole.contains(folder), "\(step) \(time): a database without its log in \(folder)")
          }
          let again = Shell.run(arguments, environment: volume.variables)
          XCTAssertEqual(again.status, 0, "\(step) \(time): \(again)")
          XCTAssertEqual(try Sys.names(home + "/Documents"), [], "\(step) \(time)")
          XCTAssertEqual(try Sys.names(home + "/Library/Caches"), members, "\(step) \(time)")
          for name in members { XCTAssertEqual(try Sys.text(home + "/Library/Caches/" + name), name) }
          _ = Shell.run(["rm", "-r", home + "/Library"])
        }
      }
    }
  }

  /// Then its path leads to the empty folder that it was mounted on.
  func testTheDaemonIsKilledUnderIt() throws {
    let volume = try mount()
    try tree.write(to: local)
    for number in 0..<300 { try Sys.put(local + "/f\(number)", "document \(number)") }
    let before = try FolderTree(at: local)
    for round in 1...6 {
      let left = try Sys.names(local).count
      let program = try Subprocess(
        [
          MountedVolume.binary, "migrate", "to-cloud", local, volume.mountpoint, "--move", "--patience", "0", "--jobs",
          "2",
        ],
        environment: volume.variables)
      assertEventually("it is at work") { (try? Sys.names(self.local).count).map { $0 < left - round } == true }
      volume.killDaemon()
      XCTAssertNotNil(program.finish(within: 60).status, "it ends by itself")
      XCTAssertEqual(try Sys.names(volume.mountpoint), [], "nothing is put below the mount")
      try volume.mount()
      let held = before.documents.isHeld(by: try FolderTree(at: local), try FolderTree(at: volume.mountpoint))
      XCTAssertEqual(held, [], "round \(round)")
    }
    try must(volume, "to-cloud", local, volume.mountpoint, "--move")
    XCTAssertEqual(try FolderTree(at: volume.mountpoint), before)
    try volume.settle()
    XCTAssertEqual(try remote(volume), before)
  }

  func testARunAgainWithoutTheMountIsRefused() throws {
    let volume = try mount()
    try tree.write(to: local)
    volume.environment["DOCSFS_MIGRATE_CRASH"] = "place:3"
    XCTAssertEqual(migrate(volume, "to-cloud", local, volume.mountpoint, "--move").status, 128 + SIGKILL)
    volume.environment = [:]
    try volume.unmount()
    let outcome = migrate(volume, "to-cloud", local, volume.mountpoint, "--move")
    XCTAssertEqual(outcome.status, 69, "\(outcome)")
    XCTAssertTrue(outcome.errors.contains("on another file system than in the run before"), outcome.errors)
    XCTAssertEqual(try Sys.names(volume.mountpoint), [])
    try volume.mount()
    try must(volume, "to-cloud", local, volume.mountpoint, "--move")
    XCTAssertEqual(try FolderTree(at: volume.mountpoint), tree)
  }

  func testTheMountComesBackWhileItWaits() throws {
    let volume = try mount()
    for number in 0..<500 { try Sys.put(local + "/f\(number)", "document \(number)") }
    let before = try FolderTree(at: local)
    let program = try Subprocess(
      [
        MountedVolume.binary, "migrate", "to-cloud", local, volume.mountpoint, "--move", "--patience", "100", "--jobs",
        "2",
      ],
      environment: volume.variables)
    assertEventually("it is at work") { (try? Sys.names(self.local).count).map { $0 < 450 } == true }
    volume.killDaemon()
    assertEventually("it says that it waits") { program.outcome.errors.contains("waiting for it") }
    try volume.mount()
    let outcome = program.finish(within: 120)
    XCTAssertEqual(outcome.status, 0, "\(outcome)")
    XCTAssertEqual(try FolderTree(at: volume.mountpoint), before)
    XCTAssertEqual(try Sys.names(local), [])
  }
}
