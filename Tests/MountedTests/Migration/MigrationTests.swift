import CLinux
import DocumentMigration
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// The two migrations of an app's Documents, to a cloud and back.
final class MigrationTests: MigrationTestCase {
  private let tree = FolderTree.documents()

  func testToTheCloudAndBack() throws {
    let volume = try mount()
    try tree.write(to: local)
    try must(volume, "to-cloud", local, volume.mountpoint, "--move")
    XCTAssertTrue(try FolderTree(at: local).isEmpty)
    XCTAssertEqual(try FolderTree(at: volume.mountpoint), tree)
    try volume.settle()
    XCTAssertEqual(try remote(volume), tree)
    try volume.run("evict", "-r", volume.mountpoint)
    try must(volume, "to-local", volume.mountpoint, local, "--move")
    XCTAssertEqual(try FolderTree(at: local), tree)
    try volume.settle()
    XCTAssertTrue(try remote(volume).isEmpty)
  }

  /// What the author of the first source document disliked: down, and then all of it up again.
  func testKeepingTheCloudsCopyCausesNoUpload() throws {
    let volume = try mount("cache_size=16MiB") { try self.tree.write(to: $0.container) }
    let versions = try tree.documents.nodes.keys.sorted().map { try self.version(volume, $0) }
    let before = try remoteStamps(volume)
    try must(volume, "to-local", volume.mountpoint, local, "--keep")
    XCTAssertEqual(try FolderTree(at: local), tree)
    XCTAssertEqual(try volume.statusNumber("dirtyItems"), 0)
    try volume.settle()
    XCTAssertEqual(try volume.statusNumber("uploadedBytes"), 0)
    XCTAssertEqual(try remoteStamps(volume), before)
    XCTAssertEqual(try tree.documents.nodes.keys.sorted().map { try self.version(volume, $0) }, versions)
    for case (let path, .file(let bytes)) in tree.nodes where !bytes.isEmpty {
      let name = String(decoding: path.bytes, as: UTF8.self)
      XCTAssertEqual(try volume.state(name), "placeholder", "\(path) was one before")
    }
    XCTAssertEqual(try volume.statusNumber("cacheBytes"), 0)
  }

  private func version(_ volume: MountedVolume, _ path: DocumentPath) throws -> String {
    guard case .file = tree.nodes[path] else { return "" }
    return try Sys.xattrText(volume.path(String(decoding: path.bytes, as: UTF8.self)), "user.docsfs.version")
  }

  func testWhatWasMaterializedStaysSo() throws {
    let volume = try mount {
      try Sys.put($0.remote("kept"), "offline"); try Sys.put($0.remote("other"), "x")
    }
    try volume.run("materialize", volume.path("kept"))
    try must(volume, "to-local", volume.mountpoint, local, "--keep")
    XCTAssertEqual(try volume.state("kept"), "materialized")
    XCTAssertEqual(try volume.state("other"), "placeholder")
  }

  func testASecondRunFetchesNothing() throws {
    let volume = try mount { try self.tree.write(to: $0.container) }
    try must(volume, "to-local", volume.mountpoint, local, "--keep")
    let fetched = try volume.statusNumber("fetchedBytes")
    let again = try report(try must(volume, "to-local", volume.mountpoint, local, "--keep", "--json"))
    XCTAssertEqual(again.count(.alreadyThere), tree.documents.nodes.count)
    XCTAssertEqual(try volume.statusNumber("fetchedBytes"), fetched)
  }

  /// For whom a document is safe only when it is in the cloud: keep, sync, move.
  func testKeptThenUploadedThenMoved() throws {
    let volume = try mount()
    try tree.write(to: local)
    try must(volume, "to-cloud", local, volume.mountpoint, "--keep")
    try volume.settle()
    try volume.run("evict", "-r", volume.mountpoint)
    let report = try report(try must(volume, "to-cloud", local, volume.mountpoint, "--move", "--json"))
    XCTAssertEqual(report.count(.alreadyThere), tree.documents.nodes.count)
    XCTAssertEqual(try volume.statusNumber("fetchedBytes"), 0, "proven by the first run, and not touched since")
    XCTAssertTrue(try FolderTree(at: local).isEmpty)
    XCTAssertEqual(try remote(volume), tree)
    XCTAssertEqual(try FolderTree(at: volume.mountpoint), tree)
  }

  func testManyAreFetchedAtATime() throws {
    let volume = try mount(query: "latency=80ms") { volume in
      for number in 0..<400 { try Sys.put(volume.remote("f\(number)"), "document \(number)") }
    }
    let program = try Subprocess(
      [MountedVolume.binary, "migrate", "to-local", volume.mountpoint, local, "--keep"],
      environment: volume.variables)
    var most = 0
    while program.isRunning { most = max(most, (try? volume.statusNumber("fetching")) ?? 0) }
    XCTAssertEqual(program.outcome.status, 0, "\(program.outcome)")
    XCTAssertGreaterThan(most, 8, "fetches at a time")
    XCTAssertEqual(try FolderTree(at: local), try remote(volume))
  }

  func testPlanningFetchesNothing() throws {
    let volume = try mount { try self.tree.write(to: $0.container) }
    let outcome = try must(volume, "to-local", volume.mountpoint, local, "--move", "--dry-run", "--json")
    let plan = try JSONDecoder().decode(MigrationPlan.self, from: Data(outcome.output))
    let files = tree.nodes.values.filter { if case .file = $0 { true } else { false } }.count
    XCTAssertEqual(plan.files.items, files)
    XCTAssertEqual(plan.toMaterialize.items, files - 1, "an empty file has nothing to fetch")
    XCTAssertEqual(Set(plan.names.map(\.kind)), [.caseTwins, .normalizationTwins])
    XCTAssertEqual(try volume.statusNumber("fetchedBytes"), 0)
    XCTAssertEqual(try Sys.names(local), [])
  }

  /// Case 17. Foundation's copy leaves a half file when its source fails, and passes over it the next time.
  func testAFailedCopyThatLooksDone() throws {
    let bytes = patterned(8 << 20, seed: 7)
    let volume = try mount("timeo=2s", query: "rate=2MiB") { try Sys.put($0.remote("movie"), bytes) }
    let program = try Subprocess(
      [MountedVolume.binary, "migrate", "to-local", volume.mountpoint, local, "--keep", "--patience", "1", "--json"],
      environment: volume.variables)
    assertEventually("something has been copied") {
      let sizes = try? Sys.names(local).map { try Sys.size(local + "/" + $0) }
      return sizes?.contains { $0 > 0 } == true
    }
    try volume.control("disconnect profile=cloud")
    let outcome = program.finish(within: 120)
    XCTAssertEqual(outcome.status, 75, "\(outcome)")
    XCTAssertEqual(try report(outcome).files.map(\.outcome), [.failed])
    XCTAssertEqual(try report(outcome).files.map(\.category), [.disconnected])
    XCTAssertEqual(try Sys.names(local), [], "neither a half file nor an empty one")
    try volume.control("reconnect")
    volume.query = ""
    try volume.remount()
    try must(volume, "to-local", volume.mountpoint, local, "--keep")
    assertBytes(try Sys.contents(local + "/movie"), bytes)
  }

  func testItWaitsForTheCloudAndGoesOn() throws {
    let volume = try mount("poll=1s", "timeo=2s") { volume in
      for number in 0..<10 { try Sys.put(volume.remote("f\(number)"), "document \(number)") }
    }
    XCTAssertEqual(try volume.names().count, 10)
    try Sys.rename(volume.container, volume.container + ".away")
    try assertEventually("the loss is noticed") { try volume.statusText("link") != "connected" }
    let program = try Subprocess(
      [MountedVolume.binary, "migrate", "to-local", volume.mountpoint, local, "--move", "--patience", "100"],
      environment: volume.variables)
    assertEventually("it says that it waits") { program.outcome.errors.contains("waiting for it") }
    try Sys.rename(volume.container + ".away", volume.container)
    let outcome = program.finish(within: 120)
    XCTAssertEqual(outcome.status, 0, "\(outcome)")
    XCTAssertEqual(try Sys.names(local).count, 10)
    XCTAssertEqual(try volume.names(), [])
  }

  func testWithoutTheCloudWhatIsHereIsMigrated() throws {
    let volume = try mount("poll=1s", "timeo=2s") {
      try Sys.put($0.remote("here"), "h"); try Sys.put($0.remote("there"), "t")
    }
    try volume.run("materialize", volume.path("here"))
    try Sys.rename(volume.container, volume.container + ".away")
    try assertEventually("the loss is noticed") { try volume.statusText("link") != "connected" }
    let outcome = migrate(volume, "to-local", volume.mountpoint, local, "--keep", "--patience", "1", "--json")
    XCTAssertEqual(outcome.status, 2, "\(outcome)")
    let report = try report(outcome)
    XCTAssertEqual(report.files.map(\.outcome), [.copied, .failed])
    XCTAssertEqual(report.files[1].category, .disconnected)
    XCTAssertTrue(report.files[1].advice?.contains("reconnect") == true)
    try Sys.rename(volume.container + ".away", volume.container)
    try assertEventually("connected again") { try volume.statusText("link") == "connected" }
    try must(volume, "to-local", volume.mountpoint, local, "--keep")
    XCTAssertEqual(try Sys.names(local), ["here", "there"])
  }

  func testADocumentThatIsBeingUploadedCanBeMoved() throws {
    let volume = try mount(query: "latency=30ms")
    for number in 0..<30 { try Sys.put(volume.path("f\(number)"), patterned(50_000, seed: UInt64(number))) }
    usleep(1_000_000)
    try must(volume, "to-local", volume.mountpoint, local, "--move")
    for number in 0..<30 {
      assertBytes(try Sys.contents(local + "/f\(number)"), patterned(50_000, seed: UInt64(number)))
    }
    try volume.settle()
    XCTAssertEqual(try volume.remoteNames(), [])
  }

  // MARK: Stubs

  func testStubsAreResolvedToTheirDocuments() throws {
    let volume = try mount("placeholder_style=stub") { try self.tree.write(to: $0.container) }
    XCTAssertTrue(try volume.names().contains(".large.bin.icloud"))
    try must(volume, "to-local", volume.mountpoint, local, "--keep")
    XCTAssertEqual(try FolderTree(at: local), tree)
    try assertEventually("stubs again") { try volume.names().contains(".large.bin.icloud") }
    try must(volume, "to-local", volume.mountpoint, local, "--move")
    XCTAssertTrue(try FolderTree(at: volume.mountpoint).isEmpty)
    XCTAssertEqual(try FolderTree(at: local), tree)
    try volume.settle()
    XCTAssertTrue(try remote(volume).isEmpty)
  }

  func testStubsOfADevicesBackupAreRefused() throws {
    let volume = try mount()
    let stub = try PropertyListSerialization.data(
      fromPropertyList: ["NSURLNameKey": "a.pdf", "NSURLFileSizeKey": 70_000], format: .binary, options: 0)
    try Sys.put(local + "/.a.pdf.icloud", Array(stub))
    try Sys.put(local + "/b.pdf", "b")
    let outcome = migrate(volume, "to-cloud", local, volume.mountpoint, "--move")
    XCTAssertEqual(outcome.status, 2)
    XCTAssertTrue(outcome.errors.contains(".a.pdf.icloud: is the stub of a.pdf"), outcome.errors)
    XCTAssertEqual(try volume.names(), ["b.pdf"])
    XCTAssertEqual(try Sys.names(local), [".a.pdf.icloud"])
  }

  // MARK: Users and signals

  func testAnUnreadableFileIsLeftAndNamed() throws {
    try skipUnlessRoot()
    let volume = try mount()
    for folder in ["s", "d", "state"] { try Sys.makeFolders(volume.home + "/" + folder) }
    try Sys.put(volume.home + "/s/secret", "of root")
    try Sys.put(volume.home + "/s/open", "for all")
    try Sys.setMode(volume.home + "/s/secret", 0o600)
    try volume.must("chown 65534 $M/../s $M/../s/open $M/../d $M/../state")
    let command = "'\(MountedVolume.binary)' migrate to-cloud '\(volume.home)/s' '\(volume.home)/d' --keep"
    let outcome = volume.shell("XDG_STATE_HOME='\(volume.home)/state' \(command)", as: 65534)
    XCTAssertEqual(outcome.status, 2, "\(outcome)")
    XCTAssertTrue(outcome.errors.contains("secret: cannot open \(volume.home)/s/secret at the source"), outcome.errors)
    XCTAssertTrue(outcome.errors.contains("permission denied; see to its permissions"), outcome.errors)
    XCTAssertEqual(try Sys.names(volume.home + "/d"), ["open"])
    XCTAssertEqual(try Sys.names(volume.home + "/s"), ["open", "secret"])
  }

  /// By a rename or by a copy: the document stays whole where it was, and the one to blame is named.
  func testASourceThatMayNotBeWrittenIsNamed() throws {
    try skipUnlessRoot()
    let volume = try mount("allow_other")
    for folder in ["s/k", "d", "state"] { try Sys.makeFolders(volume.home + "/" + folder) }
    try Sys.put(volume.home + "/s/k/f", "not to be removed")
    try volume.must("chown 65534 $M/../d $M/../state; chmod 777 $M")
    for there in [volume.home + "/d", volume.mountpoint] {
      let command = "'\(MountedVolume.binary)' migrate to-cloud '\(volume.home)/s' '\(there)' --move"
      let outcome = volume.shell("XDG_STATE_HOME='\(volume.home)/state' \(command)", as: 65534)
      XCTAssertEqual(outcome.status, 1, "\(outcome)")
      XCTAssertTrue(outcome.errors.contains("k/f: cannot remove \(volume.home)/s/k/f at the source"), outcome.errors)
      XCTAssertTrue(outcome.errors.contains("permission denied; see to its permissions"), outcome.errors)
      XCTAssertEqual(try Sys.text(volume.home + "/s/k/f"), "not to be removed")
      try assertNothingTemporary(there)
    }
  }

  func testAnInterruptStopsCleanlyAndTheSameCommandGoesOn() throws {
    let volume = try mount(query: "rate=1MiB") { volume in
      try Sys.put(volume.remote("large"), patterned(4 << 20, seed: 5))
      try Sys.put(volume.remote("small"), "small")
    }
    let program = try Subprocess(
      [MountedVolume.binary, "migrate", "to-local", volume.mountpoint, local, "--move"], environment: volume.variables)
    assertEventually("one is there, the other under way") { (try? Sys.names(local).count) == 2 }
    program.signal(SIGINT)
    let outcome = program.finish(within: 30)
    XCTAssertEqual(outcome.status, 75, "\(outcome)")
    XCTAssertTrue(outcome.errors.contains("the same command goes on"), outcome.errors)
    try assertNothingTemporary(local)
    assertBytes(try Sys.contents(volume.remote("large")), patterned(4 << 20, seed: 5))
    volume.query = ""
    try volume.remount()
    try must(volume, "to-local", volume.mountpoint, local, "--move")
    assertBytes(try Sys.contents(local + "/large"), patterned(4 << 20, seed: 5))
    XCTAssertEqual(try volume.names(), [])
  }

  func testOneEntryByTwoPathsIsNotRemoved() throws {
    try skipUnlessRoot()
    let (from, to) = (try outside("from"), try outside("to"))
    try Sys.makeFolder(from + "/d")
    try Sys.makeFolder(to + "/d")
    try Sys.put(to + "/d/f", "the only one")
    try Sys.link(to + "/d/f", to + "/d/second name")
    try Shell.must("mount --bind '\(to)/d' '\(from)/d'")
    defer { _ = Shell.run(["umount", from + "/d"]) }
    var options = Migration.Options(.move)
    options.journal = DocumentPath(try outside("journal"))
    let report = try Migration(source: DocumentPath(from), destination: DocumentPath(to), options: options).run()
    XCTAssertEqual(report.count(.failed), 2)
    XCTAssertEqual(try Sys.names(to + "/d"), ["f", "second name"])
    XCTAssertTrue(report.files.allSatisfy { $0.reason?.contains("one and the same file") == true })
  }

  // MARK: Disks

  func testADestinationThatIsTooSmallIsToldBeforehand() throws {
    let volume = try mount()
    let disk = try disk("small", megabytes: 16)
    try Sys.put(local + "/large", patterned(32 << 20, seed: 1))
    let outcome = migrate(volume, "to-local", local, disk.path, "--move")
    XCTAssertEqual(outcome.status, 1, "\(outcome)")
    XCTAssertTrue(outcome.errors.contains("make room"), outcome.errors)
    XCTAssertTrue(Sys.exists(local + "/large"))
  }

  func testADiskThatFillsUpStopsTheRunAtOnce() throws {
    let disk = try disk("small", megabytes: 24)
    for number in 0..<8 { try Sys.put(local + "/f\(number)", patterned(1 << 20, seed: UInt64(number))) }
    var options = Migration.Options(.move)
    options.journal = DocumentPath(try outside("journal"))
    options.jobs = 1
    let filled = local + "/filled"
    options.crashPoint = { step, path in
      if step == "copy", path == DocumentPath("f3"), !Sys.exists(filled) { try? disk.fill(leaving: 300_000) }
    }
    let migration = Migration(
      source: DocumentPath(local), destination: DocumentPath(disk.path + "/d"), options: options)
    let report = try migration.run()
    XCTAssertNotNil(report.stopped)
    XCTAssertEqual(
      report.files.map(\.outcome), [.moved, .moved, .moved, .failed] + Array(repeating: .notTried, count: 4))
    XCTAssertEqual(report.files[3].category, .outOfSpace)
    XCTAssertEqual(report.files[3].advice, "make room, then run the same command again")
    try assertNothingTemporary(disk.path)
    try disk.empty()
    var again = options
    again.crashPoint = nil
    XCTAssertTrue(
      try Migration(source: DocumentPath(local), destination: DocumentPath(disk.path + "/d"), options: again).run()
        .isComplete)
    for number in 0..<8 {
      assertBytes(try Sys.contents(disk.path + "/d/f\(number)"), patterned(1 << 20, seed: UInt64(number)))
    }
    XCTAssertEqual(try Sys.names(local), [])
  }

  /// Power is lost right before each document's turn to leave the source, and at a moment in between.
  func testWhatHasLeftTheSourceSurvivesAPowerLoss() throws {
    for (step, name) in [("look", "f5"), ("release", "f5"), ("place", "f5"), ("syncFolder", "d/f8")] {
      let disk = try disk("disk-\(step)", megabytes: 32)
      let source = try outside("source-\(step)")
      var documents = FolderTree()
      documents["d"] = .folder
      for number in 0..<10 {
        documents["f\(number)"] = .file(patterned(100_000 + number, seed: UInt64(number)))
        documents["d/f\(number)"] = .file(patterned(5_000 + number, seed: UInt64(number)))
      }
      try documents.write(to: source)
      var options = Migration.Options(.move)
      options.journal = DocumentPath(try outside("journal-\(step)"))
      options.jobs = 1
      options.patience = 0
      var first = options
      first.crashPoint = { now, path in
        if now == step, path == DocumentPath(name) { try? disk.losePower() }
      }
      func migration(_ options: Migration.Options) -> Migration {
        Migration(source: DocumentPath(source), destination: DocumentPath(disk.path + "/to"), options: options)
      }
      try Sys.makeFolder(disk.path + "/to")
      XCTAssertFalse(try migration(first).run().isComplete, step)
      try disk.powerUp()
      let held = documents.documents.isHeld(by: try FolderTree(at: source), try FolderTree(at: disk.path + "/to"))
      XCTAssertEqual(held, [], step)
      XCTAssertLessThan(try FolderTree(at: source).documents.nodes.count, 20, "some had left")
      try Sys.makeFolders(disk.path + "/to")
      XCTAssertTrue(try migration(options).run().isComplete, step)
      XCTAssertEqual(try FolderTree(at: disk.path + "/to"), documents, step)
      XCTAssertTrue(try FolderTree(at: source).isEmpty, step)
      try assertNothingTemporary(disk.path)
    }
  }

  // MARK: The command line

  func testMistakesAreOneLineEach() throws {
    let volume = try mount()
    try Sys.put(local + "/f", "x")
    let mistakes: [([String], Int32, String)] = [
      (["to-cloud", local, volume.mountpoint], 64, "--move"),
      (["to-cloud", local, volume.mountpoint, "--move", "--keep"], 64, "--keep"),
      (["to-local", local, volume.mountpoint, "--move"], 64, "did you mean to-cloud?"),
      (["to-clod", local, volume.mountpoint], 64, "did you mean to-cloud?"),
      (["to-cloud", local + "/none", volume.mountpoint, "--move"], 69, "no such file"),
      (["to-cloud", local, volume.mountpoint + "/a/b", "--move"], 69, "is its disk or mount there?"),
      (["to-cloud", local, local + "/below", "--move"], 64, "apart"),
      (["to-cloud", local, volume.mountpoint, "--move", "--on-conflict", "replce"], 64, "did you mean replace?"),
      (["relocate", "--home", local], 64, "--rule"),
      (["relocate", "--home", local, "--rule", "x=../y"], 64, "outside Documents"),
      (["audit", "--home", local], 69, "Documents"),
    ]
    for (words, status, hint) in mistakes {
      let outcome = Shell.run([MountedVolume.binary, "migrate"] + words, environment: volume.variables)
      XCTAssertEqual(outcome.status, status, "\(words): \(outcome)")
      XCTAssertEqual(outcome.errors.split(separator: "\n").count, 1, outcome.errors)
      XCTAssertTrue(outcome.errors.contains(hint), outcome.errors)
    }
    XCTAssertEqual(try volume.names(), [])
  }

  func testOneMigrationOfTheSameFoldersAtATime() throws {
    let volume = try mount(query: "rate=1MiB") { try Sys.put($0.remote("large"), patterned(4 << 20, seed: 5)) }
    let first = try Subprocess(
      [MountedVolume.binary, "migrate", "to-local", volume.mountpoint, local, "--keep"], environment: volume.variables)
    assertEventually("it is at work") { (try? Sys.names(self.local).count) == 1 }
    let second = migrate(volume, "to-local", volume.mountpoint, local, "--keep")
    XCTAssertEqual(second.status, 75, "\(second)")
    XCTAssertTrue(second.errors.contains("another migration of these folders is running"), second.errors)
    XCTAssertEqual(first.finish(within: 60).status, 0)
    assertBytes(try Sys.contents(local + "/large"), patterned(4 << 20, seed: 5))
  }

  func testEventsAreLinesOfJSON() throws {
    let volume = try mount()
    try tree.write(to: local)
    let outcome = try must(volume, "to-cloud", local, volume.mountpoint, "--keep", "--events")
    XCTAssertTrue(outcome.lines.allSatisfy { $0.hasPrefix("{\"event\":\"") }, outcome.text)
    let events = try outcome.lines.map { try JSONDecoder().decode(MigrationEvent.self, from: Data($0.utf8)) }
    let files = events.filter { if case .file = $0 { true } else { false } }.count
    XCTAssertEqual(files, tree.documents.nodes.count)
    guard case .ended(let summary) = events.last else { return XCTFail("the end is told") }
    XCTAssertEqual(summary.counts, ["copied": files])
    XCTAssertNil(summary.stopped)
  }

  /// The second source document's scene, as an app would call it.
  func testRelocateAtEachLaunch() throws {
    let volume = try mount()
    try skipUnlessInstalled("sqlite3")
    let database = local + "/Documents/cafes.sqlite"
    try Sys.makeFolders(local + "/Documents")
    try Shell.must("sqlite3 '\(database)' 'create table cafe (name); insert into cafe values (\"しるべ\");'")
    let rule = ["relocate", "--home", local, "--rule", "*.sqlite=Library/Caches"]
    func launch() -> Outcome { Shell.run([MountedVolume.binary, "migrate"] + rule, environment: volume.variables) }
    XCTAssertTrue(launch().text.contains("moved to Library/Caches/cafes.sqlite"))
    for _ in 0..<2 {
      let outcome = launch()
      XCTAssertEqual(outcome.status, 0)
      XCTAssertTrue(outcome.text.contains("is at Library/Caches/cafes.sqlite already"), "\(outcome)")
    }
    let name = try Shell.must("sqlite3 '\(local)/Library/Caches/cafes.sqlite' 'select name from cafe'")
    XCTAssertEqual(name.text, "しるべ")
    try Sys.remove(local + "/Library/Caches/cafes.sqlite")
    let purged = launch()
    XCTAssertEqual(purged.status, 2)
    XCTAssertTrue(purged.errors.contains("has to be downloaded again"), "\(purged)")
  }
}
