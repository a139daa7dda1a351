import CLinux
import Faults
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// Every cell of the profile table, on a real mount.
final class LinkProfileTests: MountedTestCase {
  /// In this order: a write, then the sync that fails, then what is "later".
  private static let cells: [Cell] = [
    Cell(name: "lookup", operation: .lookup) { _ = try Sys.info($0.volume.path("local")) },
    Cell(name: "getattr", operation: .getattr) { _ = try $0.old.info() },
    Cell(name: "mutate", operation: .chmod) { try Sys.check(fchmod($0.old.fd, 0o640)) },
    Cell(name: "open for reading", operation: .open, contentIsLocal: true) { try $0.reopen($0.old, O_RDONLY) },
    Cell(name: "open for writing", operation: .open, opensForWriting: true, contentIsLocal: true) {
      try $0.reopen($0.old, O_WRONLY)
    },
    Cell(name: "read of local bytes", operation: .read, contentIsLocal: true) { _ = try $0.old.read(10, at: 0) },
    // Beyond the end, where the kernel asks for the size first.
    Cell(name: "read of all bytes", operation: .read, contentIsLocal: true) { _ = try $0.old.read(512, at: 0) },
    Cell(name: "read of missing bytes", operation: .read, contentIsLocal: false) {
      _ = try $0.placeholder.read(10, at: 0)
    },
    Cell(name: "flush", operation: .flush) { try Sys.check(close(dup($0.old.fd))) },
    Cell(name: "write", operation: .write) { try $0.old.write("WRITTEN", at: 0) },
    Cell(name: "flush with unsynced bytes", operation: .flush, hasUnsynced: true) {
      try Sys.check(close(dup($0.old.fd)))
    },
    Cell(name: "opendir", operation: .opendir) { try $0.reopen($0.folder, O_RDONLY | O_DIRECTORY) },
    Cell(name: "readdir", operation: .readdir) { try $0.list() },
    Cell(name: "statfs", operation: .statfs) {
      var info = statvfs()
      try Sys.check(fstatvfs($0.old.fd, &info))
    },
    Cell(name: "getxattr", operation: .getxattr) {
      var room = [UInt8](repeating: 0, count: 100)
      _ = try Sys.check(fgetxattr($0.old.fd, "user.docsfs.state", &room, room.count))
    },
    Cell(name: "fsync", operation: .fsync) { try $0.old.sync() },
    Cell(name: "later write", operation: .write, isLater: true) { try $0.old.write("LATER", at: 0) },
  ]

  private func outcome(_ body: () throws -> Void) throws -> String {
    do {
      try body()
      return "ok"
    } catch let error as Errno { return error.name }
  }

  /// What the table says that a cell comes to.
  private func expected(_ cell: Cell, _ profile: LinkProfile, unsynced: Bool) -> String {
    // A flush asks for unsynced bytes; a write that was refused has left none.
    let hasUnsynced = cell.hasUnsynced && unsynced
    switch profile.answer(
      cell.operation, opensForWriting: cell.opensForWriting, contentIsLocal: cell.contentIsLocal, isLater: cell.isLater,
      isPlaceholder: cell.contentIsLocal == false, handleIsOld: cell.handleIsOld, hasUnsynced: hasUnsynced)
    {
    case .ok, .engine: return "ok"
    case .hang: return "hang"
    case .fail(let errno): return errno.name
    }
  }

  func testEveryCellOfTheTable() throws {
    for profile in LinkProfile.all where !profile.isEngines && profile.name != "nfs-hard" {
      let scene = try Scene(mount("materialize=range", name: profile.name))
      try scene.volume.control("disconnect profile=\(profile.name)")
      try walk(profile, scene)
      try checkAfterReconnect(profile, scene)
    }
  }

  private func walk(_ profile: LinkProfile, _ scene: Scene) throws {
    var failures: [(operation: String, errno: String)] = []
    var wrote = false
    for cell in Self.cells {
      let wanted = expected(cell, profile, unsynced: wrote)
      let got = try outcome { try cell.call(scene) }
      XCTAssertEqual(got, wanted, "\(profile.name): \(cell.name)")
      if got != "ok" { failures.append((cell.operation.rawValue, got)) }
      if cell.operation == .write, got == "ok" { wrote = true }
    }
    XCTAssertEqual(try scene.volume.shownNumber("linkFailures"), failures.count, profile.name)
    let logged = try scene.volume.log().filter { $0["effect"] == "link=\(profile.name)" }
    XCTAssertEqual(
      logged.map { "\($0["op"] ?? "") \($0["errno"] ?? "")" }, failures.map { "\($0.operation) \($0.errno)" },
      "the log of \(profile.name)")
    XCTAssertEqual(try scene.volume.statusText("link"), "disconnected(\(profile.name))")
  }

  private func checkAfterReconnect(_ profile: LinkProfile, _ scene: Scene) throws {
    try scene.volume.control("reconnect")
    let wanted = profile.oldHandle?.name ?? "ok"
    XCTAssertEqual(try outcome { _ = try scene.old.read(10, at: 0) }, wanted, "\(profile.name): old handle, read")
    XCTAssertEqual(try outcome { try scene.old.sync() }, wanted, "\(profile.name): old handle, fsync")
    XCTAssertEqual(try outcome { try scene.list() }, wanted, "\(profile.name): old folder")
    let takesWrites = profile.answer(.write) == .ok
    let syncFails = profile.answer(.fsync) != .ok
    let kept = takesWrites && !(syncFails && profile.dropsUnsynced)
    let text = try Sys.text(scene.volume.path("local"))
    // A write that came after the sync that failed counts anew.
    let later = takesWrites && profile.answer(.write, isLater: true) == .ok ? "LATER" : ""
    let base = kept ? "WRITTEN789" : "0123456789"
    XCTAssertEqual(text, later + base.dropFirst(later.count), "\(profile.name): what is left of the writes")
    let new = try OpenFile(scene.volume.path("local"), O_RDWR)
    XCTAssertEqual(try new.write("new", at: 0), 3, profile.name)
    try new.sync()
    XCTAssertEqual(try new.text(3, at: 0), "new")
    XCTAssertEqual(try Sys.text(scene.volume.path("remote")), "0123456789")
    XCTAssertEqual(try scene.volume.statusText("link"), "connected")
  }

  /// Every call of a hard mount blocks, and its caller can be killed; the others go on when the link is back. Each has
  /// a folder of its own: the kernel lets others wait behind a call in the same one, and those cannot be killed.
  func testAHardMountBlocksUntilItIsBack() throws {
    let volume = try mount()
    let calls = [
      "os.stat(path)", "os.fstat(fd)", "os.pread(fd, 5, 0)", "os.pwrite(fd, b'x', 0)", "os.fsync(fd)", "os.statvfs(fd)",
      "os.open(f'/proc/self/fd/{fd}', os.O_RDONLY)", "os.listdir(os.path.dirname(path))", "os.fchmod(fd, 0o600)",
      "os.getxattr(fd, 'user.docsfs.state')", "os.rename(path, path + '2')", "os.mkdir(path + '.d')",
    ]
    let signs = try outside("signs")
    let script = """
      import os, sys, time
      path, sign = sys.argv[1:]
      fd = os.open(path, os.O_RDWR)
      open(sign + '.ready', 'w').close()
      while not os.path.exists(sign + '.go'): time.sleep(0.005)
      CALL
      """
    func start(_ name: String, _ call: String) throws -> Subprocess {
      try Sys.makeFolder(volume.path(name))
      try Sys.put(volume.path(name + "/f"), "bytes")
      return try Subprocess([
        "/usr/bin/python3", "-c", script.replacingOccurrences(of: "CALL", with: call), volume.path(name + "/f"),
        signs + "/" + name,
      ])
    }
    var callers: [Subprocess] = []
    for (index, call) in (calls + calls).enumerated() { callers.append(try start("d\(index)", call)) }
    assertEventually("all have opened") { callers.indices.allSatisfy { Sys.exists("\(signs)/d\($0).ready") } }
    try volume.control("disconnect profile=nfs-hard")
    for index in callers.indices { try Sys.put("\(signs)/d\(index).go", "") }
    try assertEventually("all are held") { try volume.statusNumber("held") == callers.count }
    XCTAssertTrue(callers.allSatisfy(\.isRunning))
    let (doomed, patient) = (callers[..<calls.count], callers[calls.count...])
    for caller in doomed { caller.signal(SIGKILL) }
    // Killed, they close what they had open, and nothing of that was written.
    for (caller, call) in zip(doomed, calls) {
      XCTAssertEqual(caller.wait(20)?.status, 128 + SIGKILL, "not killed: \(call)")
    }
    try volume.control("reconnect")
    for (caller, call) in zip(patient, calls) { XCTAssertEqual(caller.finish(within: 30).status, 0, call) }
  }

  func testTheCloudProfileIsTheEngines() throws {
    let volume = try mount("materialize=range")
    try Sys.put(volume.path("local"), "0123456789")
    let bytes = patterned(2 << 20, seed: 5)
    try volume.putPlaceholder("remote", bytes)
    let old = try OpenFile(volume.path("remote"), O_RDONLY)
    assertBytes(try old.read(4096, at: 0), Array(bytes[..<4096]))
    let epoch = try volume.statusNumber("epoch")
    try volume.control("disconnect")
    XCTAssertEqual(try volume.statusText("link"), "disconnected(cloud)")
    XCTAssertEqual(try Sys.size(volume.path("remote")), 2 << 20)
    assertErrno(.ENXIO) { try OpenFile(volume.path("remote"), O_RDONLY).close() }
    assertErrno(.EIO) { _ = try old.read(4096, at: 1 << 20) }
    assertBytes(try old.read(4096, at: 0), Array(bytes[..<4096]))
    try Sys.put(volume.path("new"), "made offline")
    try Sys.put(volume.path("local"), "changed offline")
    try OpenFile(volume.path("local"), O_RDONLY).sync()
    _ = try Sys.volumeInfo(volume.path("local"))
    usleep(1_500_000)
    XCTAssertFalse(Sys.exists(volume.remote("new")), "nothing is uploaded")
    try volume.control("reconnect")
    XCTAssertEqual(try volume.statusText("link"), "connected")
    XCTAssertEqual(try volume.statusNumber("epoch"), epoch + 1)
    assertBytes(try old.read(4096, at: 1 << 20), Array(bytes[(1 << 20)..<(1 << 20) + 4096]))
    try volume.settle()
    XCTAssertEqual(try Sys.text(volume.remote("new")), "made offline")
    XCTAssertEqual(try Sys.text(volume.remote("local")), "changed offline")
  }

  func testDisconnectsEndByThemselvesReplaceEachOtherAndRepeat() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "bytes")
    let first = try OpenFile(volume.path("f"), O_RDONLY)
    try volume.control("disconnect profile=smb for=300ms")
    assertErrno(Errno(name: "EHOSTDOWN")!) { _ = try Sys.info(volume.path("f")) }
    assertEventually("back by itself") { (try? Sys.info(volume.path("f"))) != nil }
    assertErrno(.ESTALE) { _ = try first.read(5, at: 0) }
    let second = try OpenFile(volume.path("f"), O_RDONLY)
    try volume.control("disconnect profile=nfs-soft", "disconnect profile=unplugged")
    assertErrno(.EIO) { _ = try second.read(5, at: 0) }
    assertErrno(.ENXIO) { _ = try Sys.info(volume.path("f")) }
    try volume.control("reconnect")
    assertErrno(.ESTALE, "the second of the two took it away") { _ = try second.read(5, at: 0) }
    XCTAssertEqual(try Sys.text(volume.path("f")), "bytes")
    assertErrno(.ESTALE, "for good") { _ = try first.read(5, at: 0) }
    try volume.control("reconnect")
  }

  /// fstat(2) tells the mount no handle: one that another process holds from before must not be taken for this one's.
  func testAnothersOldHandleIsNotTakenForOnesOwn() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), "bytes")
    let old = try OpenFile(volume.path("f"), O_RDONLY)
    for command in ["disconnect profile=nfs-stale", "reconnect"] {
      try volume.control(command)
      let reader = Shell.run(["cat", volume.path("f")])
      XCTAssertEqual(reader.text, "bytes", "\(command): \(reader)")
      assertErrno(.ESTALE, command) { _ = try old.info() }
      assertErrno(.ESTALE, command) { _ = try old.read(5, at: 0) }
    }
  }

  /// What was read and mapped before is gone with the drive, and a program that maps it gets SIGBUS, not a hang.
  func testCachedBytesAreGoneWithTheDrive() throws {
    let volume = try mount()
    try Sys.put(volume.path("f"), patterned(1 << 20, seed: 6))
    let file = try OpenFile(volume.path("f"), O_RDONLY)
    _ = try file.read(1 << 20, at: 0)
    let script = """
      import mmap, os, sys, time
      f = open(sys.argv[1], "rb"); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
      print(m[0], flush=True)
      while not os.path.exists(sys.argv[2]): time.sleep(0.01)
      print(m[500000])
      """
    let sign = try outside("signs") + "/go"
    let mapper = try Subprocess(["/usr/bin/python3", "-c", script, volume.path("f"), sign])
    assertEventually("mapped") { !mapper.outcome.output.isEmpty }
    try volume.control("disconnect profile=unplugged")
    assertErrno(.EIO) { _ = try file.read(10, at: 0) }
    try Sys.put(sign, "")
    XCTAssertEqual(mapper.finish(within: 30).status, 128 + SIGBUS)
  }
}

/// A volume with what a cell can depend on: a file whose bytes are local, one whose bytes are not, and handles from
/// before the link goes down.
private final class Scene {
  let volume: MountedVolume
  let old: OpenFile
  let placeholder: OpenFile
  let folder: OpenFile
  /// `folder` as readdir(3) wants it.
  private let stream: OpaquePointer

  init(_ volume: MountedVolume) throws {
    self.volume = volume
    try Sys.put(volume.path("local"), "0123456789")
    try Sys.put(volume.path("remote"), "0123456789")
    try Sys.makeFolder(volume.path("d"))
    try Sys.put(volume.path("d/f"), "f")
    try volume.settle()
    try volume.evict("remote")
    old = try OpenFile(volume.path("local"), O_RDWR)
    // Synced, so that nothing from before can be lost.
    try old.sync()
    placeholder = try OpenFile(volume.path("remote"), O_RDONLY)
    folder = try OpenFile(volume.path("d"), O_RDONLY | O_DIRECTORY)
    stream = try XCTUnwrap(fdopendir(dup(folder.fd)))
    _ = try old.text(10, at: 0)
    _ = try Sys.names(volume.path("d"))
  }

  deinit { closedir(stream) }

  func list() throws { try folder.list(stream) }

  /// Opens what `file` has open once more, by no path: so no lookup fails first.
  func reopen(_ file: OpenFile, _ flags: Int32) throws { try OpenFile("/proc/self/fd/\(file.fd)", flags).close() }
}

private struct Cell: Sendable {
  var name: String
  var operation: FaultOperation
  var opensForWriting = false
  var contentIsLocal: Bool?
  var isLater = false
  var handleIsOld = true
  var hasUnsynced = false
  var call: @Sendable (Scene) throws -> Void
}
