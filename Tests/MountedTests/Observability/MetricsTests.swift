import Foundation
import StorageErrors
import TestSupport
import XCTest

/// `-o metrics=`: what is served agrees with what was done.
final class MetricsTests: MountedTestCase {
  private let mebibyte = 1 << 20

  func testReadsWritesUploadsAndFetches() throws {
    let volume = try mount("metrics=127.0.0.1:0")
    // Past the kernel's cache each call arrives as it is.
    try volume.must("dd if=/dev/urandom of=$M/a bs=64K count=16 oflag=direct status=none; mkdir $M/d; ln -s a $M/l")
    try volume.settle()
    try volume.evict("a")
    let before = try MetricsPage(of: volume)
    XCTAssertEqual(before["docsfs_written_bytes_total"], mebibyte)
    XCTAssertEqual(before.operations("write"), 16)
    XCTAssertEqual(before.operations("mkdir"), 1)
    XCTAssertEqual(before.operations("symlink"), 1)
    XCTAssertEqual(before.operations("create"), 1)
    XCTAssertEqual(before["docsfs_read_bytes_total"], 0)
    XCTAssertEqual(before["docsfs_uploaded_bytes_total"], mebibyte)
    XCTAssertEqual(before["docsfs_container_sent_bytes_total"], mebibyte)
    XCTAssertEqual(before["docsfs_changes_uploaded_total{change=\"put\"}"], 1)
    XCTAssertEqual(before["docsfs_changes_uploaded_total{change=\"make_folder\"}"], 1)
    XCTAssertEqual(before["docsfs_changes_uploaded_total{change=\"make_symlink\"}"], 1)
    XCTAssertEqual(before.requests("upload"), 1)
    XCTAssertEqual(before["docsfs_evictions_total"], 1)
    XCTAssertEqual(before["docsfs_evicted_bytes_total"], mebibyte)
    XCTAssertEqual(before["docsfs_cache_bytes"], 0)
    XCTAssertEqual(before["docsfs_pending_items"], 0)
    XCTAssertEqual(before["docsfs_link_up"], 1)
    XCTAssertGreaterThan(before["process_resident_memory_bytes"], mebibyte)
    XCTAssertGreaterThan(before["process_open_fds"], 5)

    try volume.must("dd if=$M/a of=/dev/null bs=64K iflag=direct status=none")
    assertEventually("the whole file comes") { (try? volume.state("a")) == "materialized" }
    let after = try MetricsPage(of: volume)
    XCTAssertEqual(after["docsfs_read_bytes_total"], mebibyte)
    XCTAssertEqual(after["docsfs_written_bytes_total"], mebibyte)
    XCTAssertEqual(after["docsfs_fetched_bytes_total"], mebibyte)
    XCTAssertEqual(after["docsfs_container_received_bytes_total"], mebibyte)
    XCTAssertEqual(after["docsfs_cache_bytes"], mebibyte)

    XCTAssertFalse(volume.shell("cat $M/nothing").succeeded)
    XCTAssertGreaterThan(try MetricsPage(of: volume).operations("lookup", "ENOENT"), 0)
  }

  /// In parts, each of which is read more than once.
  func testBytesOfACloud() throws {
    let place = try CloudPlace(.s3)
    let volume = try unmounted(["metrics=127.0.0.1:0"])
    volume.url = place.url
    volume.environment = place.server.values.filter { $0.key.hasPrefix("AWS_") }
    try volume.mount()
    try volume.must("head -c 20000000 /dev/urandom > $M/big")
    try volume.settle()
    try volume.evict("big")
    try volume.must("sha256sum $M/big")
    let page = try MetricsPage(of: volume)
    for name in ["written", "uploaded", "container_sent", "fetched", "container_received"] {
      XCTAssertEqual(page["docsfs_\(name)_bytes_total"], 20_000_000, name)
    }
    XCTAssertEqual(page.requests("upload"), 1)
  }

  func testFaultsOfTheMount() throws {
    let volume = try mount("metrics=127.0.0.1:0")
    try volume.control("add op=mkdir errno=EACCES times=3", "add op=write errno=ENOSPC path=/f times=2")
    for number in 0..<3 { assertErrno(.EACCES) { try Sys.makeFolder(volume.path("d\(number)")) } }
    try Sys.makeFolder(volume.path("d"))
    let file = try OpenFile(volume.path("f"), O_WRONLY | O_CREAT)
    for _ in 0..<2 { assertErrno(.ENOSPC) { _ = try file.write("x", at: 0) } }
    _ = try file.write("xyz", at: 0)
    try file.close()
    let page = try MetricsPage(of: volume)
    XCTAssertEqual(page["docsfs_faults_fired_total"], 5)
    XCTAssertEqual(page["docsfs_fault_rules"], 2)
    XCTAssertEqual(page.operations("mkdir", "EACCES"), 3)
    XCTAssertEqual(page.operations("mkdir"), 1)
    XCTAssertEqual(page.operations("write", "ENOSPC"), 2)
    XCTAssertEqual(page.operations("write"), 1)
    XCTAssertEqual(page["docsfs_written_bytes_total"], 3)
    try volume.control("clear")
    XCTAssertEqual(try MetricsPage(of: volume)["docsfs_faults_fired_total"], 5, "a counter never falls")
  }

  func testFailuresOfTheCloudAndWhatBecomesOfThem() throws {
    let volume = try mount("metrics=127.0.0.1:0")
    try volume.control("cloud status=503 op=upload times=2")
    try Sys.put(volume.path("f"), "two attempts fail, the third does not")
    try volume.settle()
    let page = try MetricsPage(of: volume)
    XCTAssertEqual(page.requests("upload", "busy"), 2)
    XCTAssertEqual(page.requests("upload"), 1)
    XCTAssertEqual(page["docsfs_container_request_duration_seconds_count{operation=\"upload\"}"], 3)
    XCTAssertEqual(page["docsfs_container_retries_total"], 2)
    XCTAssertEqual(page["docsfs_cloud_faults_total"], 2)
    XCTAssertEqual(page["docsfs_upload_failures_total"], 0)

    try volume.control("cloud quota=4")
    try Sys.put(volume.path("g"), "too long")
    assertEventually("it fails") { (try? volume.sync("g")) == "error" }
    let full = try MetricsPage(of: volume)
    XCTAssertGreaterThan(full["docsfs_upload_failures_total"], 0)
    XCTAssertEqual(full["docsfs_failing_items"], 1)
    XCTAssertEqual(full["docsfs_pending_items"], 1)
    try volume.control("cloud online")
    try volume.settle()
    XCTAssertEqual(try MetricsPage(of: volume)["docsfs_failing_items"], 0)
  }

  func testConflictsAndTheLink() throws {
    let volume = try mount("metrics=127.0.0.1:0", "poll=1s")
    try Sys.put(volume.path("f"), "both")
    try volume.settle()
    try volume.run("disconnect", volume.mountpoint)
    let down = try MetricsPage(of: volume)
    XCTAssertEqual(down["docsfs_link_up"], 0)
    XCTAssertEqual(down["docsfs_conflicts_total"], 0)
    try Sys.put(volume.path("f"), "mine")
    try Sys.put(volume.remote("f"), "theirs, longer")
    try volume.run("reconnect", volume.mountpoint)
    assertEventually("both are kept") { ((try? volume.names()) ?? []).count == 2 }
    try volume.settle()
    let page = try MetricsPage(of: volume)
    XCTAssertEqual(page["docsfs_conflicts_total"], 1)
    XCTAssertEqual(page["docsfs_link_up"], 1)
    XCTAssertEqual(page["docsfs_link_reconnects_total"], 1)
  }

  /// docs/OBSERVABILITY.md tells all of them. `DOCSFS_WRITE_DOCS=1` writes its table anew.
  func testTheTableInTheDocs() throws {
    let volume = try mount("metrics=127.0.0.1:0", "cache_size=1GiB")
    try volume.control("pause")
    try Sys.put(volume.path("f"), "waits")
    let page = try MetricsPage(of: volume)
    let rows = page.families.map { "| `\($0.name)` | \($0.type) | \($0.help) |" }
    let place = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("docs/OBSERVABILITY.md")
    let text = try String(contentsOf: place, encoding: .utf8)
    let parts = text.components(separatedBy: "<!-- metrics -->\n")
    XCTAssertEqual(parts.count, 3, "the table lies between two marks")
    let table = (["| metric | type | |", "| --- | --- | --- |"] + rows).joined(separator: "\n") + "\n"
    if ProcessInfo.processInfo.environment["DOCSFS_WRITE_DOCS"] == "1" {
      try ([parts[0], table, parts[2]].joined(separator: "<!-- metrics -->\n")).write(
        to: place, atomically: true, encoding: .utf8)
    } else {
      XCTAssertEqual(parts[1], table)
    }
    if Shell.has("promtool") {
      let url = try volume.statusText("metrics")
      let check = Shell.run("set -o pipefail; curl -sf '\(url)' | promtool check metrics")
      XCTAssertTrue(check.succeeded && check.text.isEmpty && check.errors.isEmpty, "\(check)")
    }
    try volume.control("resume")
  }

  func testNothingElseIsServed() throws {
    let volume = try mount("metrics=[::1]:0")
    let url = try volume.statusText("metrics")
    func code(_ arguments: String) -> String {
      Shell.run("curl -s -g --max-time 20 -o /dev/null -w '%{http_code} %{content_type}' \(arguments)").text
    }
    XCTAssertEqual(code("'\(url)'"), "200 text/plain; version=0.0.4; charset=utf-8")
    XCTAssertEqual(code("-I '\(url)'"), "200 text/plain; version=0.0.4; charset=utf-8")
    XCTAssertEqual(code("'\(url)?x=1'"), "200 text/plain; version=0.0.4; charset=utf-8")
    for arguments in [
      "'\(url)/'", "'\(url.dropLast(7))'", "-X POST -d x=1 '\(url)'", "-X DELETE '\(url)'",
      "-T /etc/hostname '\(url)'", "--path-as-is '\(url)/../metrics'",
    ] {
      XCTAssertEqual(code(arguments), "404 text/plain; charset=utf-8", arguments)
    }
    let taken = try unmounted(["metrics=\(url.dropFirst(7).dropLast(8))"], name: "w")
    let refused = taken.docsfs(taken.mountArguments)
    XCTAssertEqual(refused.status, 1, "\(refused)")
    XCTAssertTrue(refused.errors.contains("address already in use; choose another port"), refused.errors)
    XCTAssertFalse(taken.isMounted)
  }

  /// Neither a mount that hangs nor clients that say nothing keep anybody from it, nor they the mount.
  func testItAnswersWhileTheMountHangsAndClientsStall() throws {
    let volume = try mount("metrics=127.0.0.1:0")
    try Sys.put(volume.path("f"), "x")
    let url = try volume.statusText("metrics")
    let port = url.dropLast(8).split(separator: ":").last ?? ""
    let stalled = try Subprocess([
      "python3", "-c",
      "import socket,sys,time\ns=[socket.create_connection(('127.0.0.1',\(port))) for _ in range(40)]\n"
        + "[c.send(b'GET /met') for c in s[:20]]\nprint('there',flush=True)\ntime.sleep(600)",
    ])
    defer { stalled.signal(SIGKILL) }
    assertEventually("they are there") { stalled.outcome.text == "there" }
    try volume.run("fault", volume.mountpoint, "add id=h op=getattr path=/f hang")
    let hanging = try Subprocess(["stat", volume.path("f")])
    defer { hanging.signal(SIGKILL) }
    try volume.run("fault", volume.mountpoint, "wait id=h fired=1 timeout=20s")
    try Sys.put(volume.path("g"), "the mount goes on")
    assertEventually(within: 60, "a scrape is answered") { (try? MetricsPage(of: volume)) != nil }
    try volume.run("fault", volume.mountpoint, "clear")
    XCTAssertEqual(hanging.finish(within: 20).status, 0)
  }
}
