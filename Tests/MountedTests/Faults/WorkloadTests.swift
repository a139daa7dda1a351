import CLinux
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// Faults under real work: reproducible from a seed, and nothing half at the container.
final class WorkloadTests: MountedTestCase {
  /// Writes, reads and lists in folders of its own, and passes over what fails. By threads in one process.
  private static let script = """
    import os, sys, threading
    root, threads = sys.argv[1], int(sys.argv[2])
    def attempt(call):
        try: return call()
        except OSError: return None
    def job(n):
        folder = f"{root}/w{n}"
        for i in range(30):
            path = f"{folder}/f{i}"
            fd = attempt(lambda: os.open(path, os.O_RDWR | os.O_CREAT))
            if fd is not None:
                for k in range(4): attempt(lambda: os.pwrite(fd, b"x" * 1000, k * 1000))
                attempt(lambda: os.fsync(fd))
                for k in range(4): attempt(lambda: os.pread(fd, 1000, k * 1000))
                attempt(lambda: os.close(fd))
            attempt(lambda: os.rename(path, path + ".new"))
            attempt(lambda: os.mkdir(f"{folder}/d{i}"))
    jobs = list(range(8))
    def worker():
        while True:
            try: n = jobs.pop()
            except IndexError: return
            job(n)
    workers = [threading.Thread(target=worker) for _ in range(threads)]
    for w in workers: w.start()
    for w in workers: w.join()
    """

  private func faults(_ threads: Int, seed: Int) throws -> [String] {
    let volume = try mount(name: "t\(threads)-\(seed)-\(UInt32.random(in: 0...UInt32.max))")
    for index in 0..<8 { try Sys.makeFolder(volume.path("w\(index)")) }
    try volume.control(
      "seed \(seed)", "add id=w op=write prob=5% errno=EIO", "add id=o op=create,rename,mkdir prob=5% errno=ENOSPC",
      "add id=r op=read prob=5% errno=ESTALE", "add id=s op=fsync prob=20% errno=EIO")
    let outcome = Shell.run(["/usr/bin/python3", "-c", Self.script, volume.mountpoint, "\(threads)"], within: 120)
    XCTAssertEqual(outcome.status, 0, outcome.errors)
    return try volume.log().map { line in
      ["rule", "op", "path", "newPath", "offset", "length", "errno", "effect"]
        .map { "\($0)=\(line[$0] ?? "")" }.joined(separator: " ")
    }.sorted()
  }

  /// The logs agree but for time, process and order.
  func testTheSameSeedGivesTheSameFaultsOnOneAndOnEightThreads() throws {
    let one = try faults(1, seed: 42)
    XCTAssertGreaterThan(one.count, 50)
    XCTAssertEqual(try faults(1, seed: 42), one)
    XCTAssertEqual(try faults(8, seed: 42), one)
    XCTAssertNotEqual(try faults(8, seed: 43), one)
  }

  /// A drive is pulled under a running rsync: it fails, goes on with the next run, and nothing is half at the container.
  func testADriveThatIsPulledUnderRsync() throws {
    try skipUnlessInstalled("rsync")
    let volume = try mount()
    let source = try outside("src")
    for index in 0..<40 { try Sys.put("\(source)/f\(index)", patterned(300_000, seed: UInt64(index))) }
    // Slow enough that it is under way when the link goes.
    try volume.control("add id=slow op=write delay=15ms")
    let sync = try Subprocess(["rsync", "-a", source + "/", volume.path("dst/")])
    try volume.run("fault", volume.mountpoint, "wait", "id=slow", "fired=20", "timeout=60s")
    try volume.control("disconnect profile=unplugged for=2s")
    let outcome = sync.finish(within: 60)
    XCTAssertNotEqual(outcome.status, 0)
    XCTAssertTrue(
      ["Input/output error", "No such device or address"].contains { outcome.errors.contains($0) }, outcome.errors)
    try volume.control("clear")
    assertEventually("back by itself") { (try? Sys.info(volume.path("dst"))) != nil }
    try volume.settle()
    for name in try volume.remoteNames("dst") where !name.hasPrefix(".") {
      let bytes = try Sys.contents(source + "/" + name)
      assertBytes(try Sys.contents(volume.remote("dst/" + name)), bytes, "half at the container: \(name)")
    }
    // What rsync had begun stays under its temporary name, which it could not remove from a drive that was gone.
    try volume.must("rsync -a \(source)/ $M/dst/ && diff -r -x '.f*' \(source) $M/dst")
    try volume.settle()
    try volume.must("diff -r -x '.f*' \(source) $C/dst")
  }

  /// With 64 calls that hang, the control file is answered, all go on, and others never noticed.
  func testTheControlFileIsAnsweredWhileSixtyFourCallsHang() throws {
    let volume = try mount()
    for index in 0..<64 { try Sys.put(volume.path("f\(index)"), "bytes") }
    try volume.control("add id=h op=open path=f* hang")
    let callers = try (0..<64).map { try Subprocess(["cat", volume.path("f\($0)")]) }
    try volume.run("fault", volume.mountpoint, "wait", "id=h", "fired=64", "timeout=60s")
    XCTAssertTrue(callers.allSatisfy(\.isRunning))
    try Sys.put(volume.path("other"), "others go on")
    XCTAssertEqual(try volume.shownNumber("held"), 64)
    callers[0].signal(SIGKILL)
    XCTAssertEqual(callers[0].finish(within: 20).status, 128 + SIGKILL)
    try volume.control("clear")
    for caller in callers[1...] { XCTAssertEqual(caller.finish(within: 20).text, "bytes") }
    XCTAssertEqual(try volume.shownNumber("held"), 0)
  }
}
