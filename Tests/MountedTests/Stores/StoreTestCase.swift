import Foundation
import StorageErrors
import TestSupport
import XCTest

/// A short form of what a mount promises, over one kind of store: two devices, the store's faults, its absence.
class StoreTestCase: MountedTestCase {
  enum Store {
    case directory
    case s3
    case webdav

    var server: CloudServer.Kind? {
      switch self {
      case .directory: nil
      case .s3: .s3
      case .webdav: .webdav
      }
    }
  }
  var store: Store { .directory }
  /// A server of the test's own, where it must be stopped.
  private var ownServer: CloudServer?
  private var serverData: TemporaryFolder?
  private var place: CloudPlace?
  private var folder = ""

  override func tearDownWithError() throws {
    try super.tearDownWithError()
    ownServer?.stop()
    serverData?.remove()
    (ownServer, serverData, place) = (nil, nil, nil)
  }

  // MARK: - Devices

  func device(_ name: String, _ options: String...) throws -> MountedVolume {
    try openStore()
    let volume = try unmounted(["poll=1s"] + options, container: folder.isEmpty ? nil : folder, name: name)
    volume.url = place?.url
    for (name, value) in place?.server.values ?? [:] where name.hasPrefix("AWS_") { volume.environment[name] = value }
    try volume.mount()
    return volume
  }

  /// A store that can be taken away.
  func useOwnStore() throws {
    guard let kind = store.server else { return }
    let data = try TemporaryFolder()
    let server = try CloudServer(kind, keepingIn: data.path)
    (ownServer, serverData) = (server, data)
    place = try CloudPlace(on: server)
  }

  private func openStore() throws {
    guard let kind = store.server else {
      if folder.isEmpty { folder = try outside("store") }
      return
    }
    if place == nil { place = try CloudPlace(kind) }
  }

  /// The server ends, or the folder is unmounted.
  func takeStoreAway() throws {
    if let ownServer { ownServer.stop() } else { try Sys.rename(folder, folder + ".away") }
  }

  func bringStoreBack() throws {
    if let ownServer { try ownServer.start() } else { try Sys.rename(folder + ".away", folder) }
  }

  // MARK: - What is asked

  private func text(_ volume: MountedVolume, _ name: String) -> String? { try? Sys.text(volume.path(name)) }

  private func status(_ volume: MountedVolume) -> String {
    let outcome = volume.docsfs("status", volume.mountpoint)
    return outcome.text + outcome.errors
  }

  /// Everything of a volume's tree, as text; what cannot be read too.
  private func tree(_ volume: MountedVolume) -> String {
    volume.shell("cd $M; find . -printf '%y %p %l\\n' | sort; find . -type f -exec sha256sum {} + 2>&1 | sort").text
  }

  private func assertAlike(_ one: MountedVolume, _ two: MountedVolume, line: UInt = #line) {
    XCTAssert(eventually(within: 60) { tree(one) == tree(two) }, "\(tree(one))\n---\n\(tree(two))", line: line)
  }

  // MARK: - POSIX

  private static let posix = ["FileTests", "FolderTests", "RenameTests", "AttributeTests", "UnlinkedFileTests"]

  /// The POSIX tests, on a mount of this store.
  func posixHolds() throws {
    try openStore()
    var environment = place.map { ["DOCSFS_CONTAINER": $0.url] } ?? [:]
    for (name, value) in place?.server.values ?? [:] where name.hasPrefix("AWS_") { environment[name] = value }
    let list = Self.posix.map { "MountedTests.\($0)" }.joined(separator: ",")
    let outcome = Shell.run([try Sys.readlink("/proc/self/exe"), list], environment: environment, within: 230)
    let errors = outcome.lines.filter { $0.contains("error:") }.joined(separator: "\n")
    XCTAssert(outcome.succeeded, errors.isEmpty ? "\(outcome)" : errors)
    XCTAssertFalse(outcome.text.contains("Executed 0 tests"), outcome.text)
  }

  /// What programs do in a folder reaches another device as it is here.
  func aTreeArrivesAsItIs() throws {
    let (one, two) = (try device("one"), try device("two"))
    try one.must(
      """
      cd $M; mkdir -p a/b 'with space'; seq 50000 > a/numbers; : > empty; ln -s a/numbers link; echo x > 'with space/ü'
      cp -a a/numbers a/b/copy; echo more >> a/b/copy; truncate -s 100 a/numbers; mv a/b moved; chmod 640 moved/copy
      touch -d '2001-02-03 04:05:06' moved/copy; echo 1 > replaced; echo 2 > new; mv new replaced; echo gone > t; rm t
      """)
    try one.settle()
    assertAlike(one, two)
    XCTAssertEqual(text(two, "replaced"), "2\n")
    XCTAssertEqual(try Sys.info(two.path("moved/copy")).permissions, 0o640)
    XCTAssertEqual(
      try Sys.info(two.path("moved/copy")).st_mtim.nanoseconds, try Sys.info(one.path("moved/copy")).st_mtim.nanoseconds
    )
  }

  // MARK: - Placeholders

  func placeholdersComeGoAndStay() throws {
    let (one, two) = (try device("one"), try device("two"))
    let bytes = patterned(3_000_000, seed: 7)
    try Sys.makeFolder(one.path("d"))
    try Sys.put(one.path("d/big"), bytes)
    try one.settle()
    assertEventually("listed") { Sys.exists(two.path("d/big")) }
    XCTAssertEqual(try two.state("d/big"), "placeholder")
    XCTAssertEqual(try Sys.size(two.path("d/big")), 3_000_000)
    try two.must("ls -lR $M > /dev/null; du -s $M > /dev/null; mv $M/d/big $M/d/huge; chmod 600 $M/d/huge")
    XCTAssertEqual(try two.statusNumber("fetchedBytes"), 0, "looking, renaming and modes fetch nothing")
    let inode = try Sys.info(two.path("d/huge")).st_ino
    let file = try OpenFile(two.path("d/huge"), O_RDONLY)
    assertBytes(try file.read(1_000, at: 2_000_000), Array(bytes[2_000_000..<2_001_000]))
    assertBytes(try Sys.contents(two.path("d/huge")), bytes)
    try assertEventually("materialized") { try two.state("d/huge") == "materialized" }
    XCTAssertNotEqual(two.docsfs("evict", two.path("d/huge")).status, 0, "it is open")
    try file.close()
    try two.settle()
    try two.evict("d/huge")
    XCTAssertEqual(try two.state("d/huge"), "placeholder")
    XCTAssertEqual(try Sys.info(two.path("d/huge")).st_ino, inode)
    try two.run("pin", two.path("d"))
    try assertEventually("a pin brings it") { try two.state("d/huge") == "materialized" }
    XCTAssertNotEqual(two.docsfs("evict", two.path("d/huge")).status, 0, "it is pinned")
    try Sys.put(one.path("d/later"), "arrives")
    try assertEventually("a pin is inherited") {
      try Sys.exists(two.path("d/later")) && two.state("d/later") == "materialized"
    }
    try two.run("unpin", two.path("d"))
    try two.evict("d/huge")
    assertBytes(try Sys.contents(two.path("d/huge")), bytes)
  }

  // MARK: - Several devices

  func whatOneDeviceDoesReachesTheOther() throws {
    let (one, two) = (try device("one"), try device("two"))
    try one.must("cd $M; mkdir d e; echo first > d/f; echo stays > d/s; echo moves > d/m")
    try one.settle()
    assertEventually("listed") { text(two, "d/f") == "first\n" && text(two, "d/m") == "moves\n" }
    _ = try two.names("e")
    let old = try OpenFile(two.path("d/f"), O_RDONLY)
    XCTAssertEqual(try old.text(100, at: 0), "first\n")
    try one.must("cd $M; echo second > d/f; mv d/m e/n; rm d/s; mkdir d/new; echo deep > d/new/leaf")
    try one.settle()
    assertEventually("the edit") { text(two, "d/f") == "second\n" }
    assertEventually("the rest") { (try? two.names("e")) == ["n"] && (try? two.names("d")) == ["f", "new"] }
    XCTAssertEqual(try old.text(100, at: 0), "first\n", "an old handle keeps its version")
    assertAlike(one, two)
  }

  func editsOfBothAreKept() throws {
    let (one, two) = (try device("one"), try device("two"))
    try Sys.put(one.path("f"), "before")
    try one.settle()
    assertEventually("listed") { text(two, "f") == "before" }
    for volume in [one, two] { try volume.run("disconnect", volume.mountpoint) }
    try Sys.put(one.path("f"), "of one")
    try Sys.put(two.path("f"), "of two")
    try Sys.put(one.path("n"), "new of one")
    try Sys.put(two.path("n"), "new of two")
    for volume in [one, two] {
      try volume.run("reconnect", volume.mountpoint)
      try volume.settle()
    }
    assertAlike(one, two)
    let names = try one.names()
    XCTAssertEqual(names.count, 4, "\(names)")
    XCTAssertEqual(names.filter { $0.contains("(conflict ") }.count, 2, "\(names)")
    XCTAssertEqual(Set(names.compactMap { text(one, $0) }), ["of one", "of two", "new of one", "new of two"])
  }

  // MARK: - Death

  func aKilledDaemonLosesNothing() throws {
    let (one, two) = (try device("one"), try device("two"))
    let bytes = patterned(6_000_000, seed: 11)
    try one.control("cloud rate=1MiB/s")
    try one.must("mkdir $M/d; echo small > $M/d/s")
    try Sys.put(one.path("d/big"), bytes)
    try assertEventually("it is on its way") { try one.sync("d/big") == "uploading" }
    try one.must("mv $M/d/s $M/d/t; echo late > $M/late")
    one.killDaemon()
    XCTAssertFalse(
      try two.names("d").contains("big") && Sys.size(two.path("d/big")) != 6_000_000, "nothing half is shown")
    try one.mount()
    assertBytes(try Sys.contents(one.path("d/big")), bytes)
    try one.settle()
    XCTAssertEqual(text(one, "d/t"), "small\n")
    assertAlike(one, two)
    XCTAssertEqual(try two.names("d"), ["big", "t"])
    XCTAssertEqual(text(two, "late"), "late\n")
  }

  // MARK: - A bad cloud

  /// An upload that cannot be: the edit stays here, the old version stays whole there, `status` says why.
  func uploadsThatFailLoseNothing() throws {
    let (one, two) = (try device("one"), try device("two"))
    let text = String(repeating: "old ", count: 50_000)
    try Sys.put(one.path("f"), text)
    try one.settle()
    assertEventually("listed") { self.text(two, "f") == text }
    for (number, (condition, reason)) in [
      ("status=429", "HTTP 429"), ("status=503", "HTTP 503"), ("truncate=64K", "connection broke"),
      ("corrupt", "altered"), ("auth=expired", "credentials"), ("quota=1K", "no room"),
    ].enumerated() {
      let before = self.text(two, "f")
      let now = String(repeating: "\(number) ", count: 100_000)
      try one.control("cloud \(condition) op=upload")
      try Sys.put(one.path("f"), now)
      try Sys.put(one.path("new\(number)"), now)
      try assertEventually("\(condition): the state") { try one.sync("f") == "error" }
      assertEventually("\(condition): the reason") { status(one).contains(reason) }
      XCTAssertEqual(self.text(one, "f"), now, condition)
      XCTAssertEqual(self.text(two, "f"), before, condition)
      try one.control("cloud online")
      try one.settle()
      assertEventually("\(condition): it arrives") {
        self.text(two, "f") == now && self.text(two, "new\(number)") == now
      }
    }
    XCTAssertFalse(status(one).contains("HTTP"), "it is over")
    assertAlike(one, two)
  }

  /// A fetch that cannot be: right bytes or an error, and `status` says why.
  func fetchesThatFailServeNothingWrong() throws {
    let (one, two) = (try device("one"), try device("two", "timeo=2s"))
    let bytes = patterned(2_500_000, seed: 5)
    for number in 0..<5 { try Sys.put(one.path("f\(number)"), bytes) }
    try one.settle()
    assertEventually("listed") { (try? two.names().count) == 5 }
    for (number, (condition, errno, reason)) in [
      ("status=429", Errno.EIO, "HTTP 429"), ("status=503", .EIO, "HTTP 503"), ("auth=expired", .EACCES, "credentials"),
    ].enumerated() {
      try two.control("cloud \(condition) op=fetch")
      assertErrno(errno, condition) { _ = try Sys.contents(two.path("f\(number)")) }
      assertEventually("\(condition): the reason") { status(two).contains(reason) }
      try two.control("cloud online")
      assertBytes(try Sys.contents(two.path("f\(number)")), bytes, condition)
    }
    try two.control("cloud truncate=300K op=fetch")
    assertBytes(try Sys.contents(two.path("f3")), bytes, "fetched piece by piece")
    try two.control("cloud online")
    // Stores without checksums cannot tell.
    if case .s3 = store {
      try two.control("cloud corrupt op=fetch")
      assertErrno(.EIO, "corrupt") { _ = try Sys.contents(two.path("f4")) }
      assertEventually("corrupt: the reason") { status(two).contains("do not match") }
      try two.control("cloud online")
      // One too large to be proven before it is read: what was wrong is not kept, in the kernel's cache neither.
      let large = patterned(9_000_000, seed: 6)
      try Sys.put(one.path("large"), large)
      try one.settle()
      assertEventually("listed") { Sys.exists(two.path("large")) }
      try two.control("cloud corrupt times=1 op=fetch")
      _ = try? Sys.contents(two.path("large"))
      try assertEventually("fetched again") { try two.state("large") == "materialized" }
      assertBytes(try Sys.contents(two.path("large")), large, "fetched again")
    }
    assertBytes(try Sys.contents(two.path("f4")), bytes)
    assertEventually("it is over") { !status(two).contains("HTTP") && !status(two).contains("match") }
  }

  /// Listings that fail or are cut remove nothing.
  func listingsThatFailRemoveNothing() throws {
    let (one, two) = (try device("one"), try device("two"))
    try one.must("mkdir $M/d; for i in 1 2 3 4 5 6 7 8; do echo $i > $M/d/$i; done")
    try one.settle()
    assertEventually("listed") { (try? two.names("d").count) == 8 }
    for condition in ["status=503", "truncate=1", "auth=expired"] {
      try two.control("cloud \(condition) op=list,look")
      let reason = ["status=503": "HTTP 503", "truncate=1": "ends in the middle", "auth=expired": "credentials"][
        condition]!
      _ = two.docsfs("fault", two.mountpoint, "refresh", "d")
      assertEventually("\(condition): the reason") { status(two).contains(reason) }
      XCTAssertEqual(try two.names("d").count, 8, condition)
      XCTAssertEqual(text(two, "d/8"), "8\n", condition)
      try two.control("cloud online")
    }
    try Sys.remove(one.path("d/1"))
    assertEventually("it goes on") { (try? two.names("d").count) == 7 }
    assertEventually("it is over") { !status(two).contains("HTTP") }
  }

  /// Refusals come and go while both work.
  func aStormOfRefusalsPasses() throws {
    let (one, two) = (try device("one"), try device("two"))
    for volume in [one, two] { _ = try volume.names() }
    for volume in [one, two] { try volume.control("cloud status=503 times=60") }
    for (volume, name) in [(one, "a"), (two, "b")] {
      try volume.must("mkdir $M/\(name) && for i in $(seq 20); do echo $i > $M/\(name)/$i; done")
    }
    for volume in [one, two] { try volume.settle() }
    assertAlike(one, two)
    XCTAssertEqual(try one.names("b").count, 20)
  }

  // MARK: - No network

  func workGoesOnWithoutTheStore() throws {
    try useOwnStore()
    let one = try device("one")
    try one.must("mkdir $M/d; echo here > $M/d/here; seq 100000 > $M/d/there; echo goes > $M/d/goes")
    try one.settle()
    try one.evict("d/there")
    try one.unmount()
    try takeStoreAway()
    // What was known is there, and what was local.
    try one.mount()
    XCTAssertNotEqual(try one.statusText("link"), "connected")
    XCTAssertEqual(try one.names("d"), ["goes", "here", "there"])
    XCTAssertEqual(text(one, "d/here"), "here\n")
    XCTAssertEqual(try Sys.size(one.path("d/there")), 588_895)
    assertErrno(.ENXIO) { _ = try OpenFile(one.path("d/there"), O_RDONLY) }
    try one.must(
      "cd $M; mkdir n; echo 1 > n/f; echo 2 > n/f; mv n/f d/moved; rm d/goes; echo edited > d/here; mv n m; echo x > m/x; mv d/there m/"
    )
    let report = status(one)
    XCTAssert(report.contains("disconnected"), report)
    XCTAssertGreaterThan(try one.statusNumber("dirtyItems"), 3)
    XCTAssert(try one.statusText("linkReason").contains(store.server == nil ? "store" : "127.0.0.1"))
    let waiting = one.docsfs("sync", one.mountpoint, "--timeout", "1")
    XCTAssertNotEqual(waiting.status, 0)
    XCTAssert((waiting.text + waiting.errors).contains("d/moved"), "what is not uploaded is listed: \(waiting)")
    try one.remount()
    XCTAssertEqual(text(one, "d/moved"), "2\n", "another mount without network")
    one.killDaemon()
    try one.mount()
    XCTAssertEqual(text(one, "d/here"), "edited\n")
    try bringStoreBack()
    try assertEventually(within: 60, "connected by itself") { try one.statusText("link") == "connected" }
    try one.settle()
    XCTAssertEqual(try one.statusNumber("dirtyItems"), 0)
    let two = try device("two")
    assertAlike(one, two)
    XCTAssertEqual(try two.names("d"), ["here", "moved"])
    XCTAssertEqual(try two.names("m"), ["there", "x"])
    XCTAssertEqual(try Sys.size(two.path("m/there")), 588_895)
  }

  /// The store goes in the middle of work, and comes back with somebody else's changes.
  func theStoreGoesAndComesBackWhileMounted() throws {
    try useOwnStore()
    let (one, two) = (try device("one"), try device("two"))
    try one.must("echo before > $M/f; echo other > $M/g")
    try one.settle()
    assertEventually("listed") { text(two, "f") == "before\n" && text(two, "g") == "other\n" }
    try takeStoreAway()
    try Sys.put(one.path("f"), "of one")
    try Sys.put(two.path("f"), "of two")
    try Sys.remove(two.path("g"))
    try Sys.put(one.path("only"), "one")
    for volume in [one, two] {
      try assertEventually("noticed") { try volume.statusText("link") != "connected" }
    }
    XCTAssertEqual(text(one, "f"), "of one")
    try bringStoreBack()
    for volume in [one, two] {
      try assertEventually(within: 60, "connected") { try volume.statusText("link") == "connected" }
      try volume.settle()
    }
    assertAlike(one, two)
    let names = try one.names()
    XCTAssertEqual(names.filter { $0.hasPrefix("f") }.count, 2, "\(names)")
    XCTAssertEqual(Set(names.compactMap { text(one, $0) }), ["of one", "of two", "one"])
  }
}
