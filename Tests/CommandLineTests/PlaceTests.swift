import XCTest

@testable import docsfs

final class PlaceTests: XCTestCase {
  private let table = MountTable(
    parsing: Array(
      #"""
      22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
      23 22 0:5 / /proc rw - proc proc rw
      40 22 0:41 / /home/x/Cloud\040Docs rw,nosuid shared:9 master:2 - fuse.docsfs /home/x/.local/state/docsfs/a\134b rw,user_id=0
      41 22 0:42 /sub /bind rw - fuse.docsfs /state rw
      42 22 0:43 / /over rw - tmpfs tmpfs rw
      43 42 0:44 / /over rw - fuse.docsfs /state2 rw
      44 22 0:45 / /under rw - fuse.docsfs /state3 rw
      45 44 0:46 / /under rw - tmpfs tmpfs rw
      short line
      """#.utf8))

  func testMountinfo() {
    XCTAssertEqual(table.entries.count, 8)
    XCTAssertEqual(
      table.mount(at: FilePath("/home/x/Cloud Docs"))?.source, FilePath(#"/home/x/.local/state/docsfs/a\b"#))
    XCTAssertEqual(table.mount(holding: FilePath("/home/x/Cloud Docs/a"))?.type, "fuse.docsfs")
    XCTAssertEqual(table.mount(holding: FilePath("/home/x/Cloud Docsy"))?.type, "ext4")
    XCTAssertEqual(table.mount(at: FilePath("/over"))?.type, "fuse.docsfs", "what lies on top")
    XCTAssertEqual(
      table.docsfs.map(\.mountpoint.description), ["/home/x/Cloud Docs", "/bind", "/over"],
      "what is covered is not seen")
    XCTAssertEqual(MountTable.unescaped(Array(#"a\0"#.utf8)), Array(#"a\0"#.utf8))
  }

  private func resolver(_ links: [String: String] = [:], cwd: String = "/home/x") -> PathResolver {
    PathResolver(table: table, workingDirectory: FilePath(cwd)) { links[$0.text].map { FilePath($0) } }
  }

  func testPathsAreFoundWithoutAskingTheMount() {
    var asked: [FilePath] = []
    let resolver = PathResolver(table: table, workingDirectory: FilePath("/home/x")) {
      asked.append($0)
      return nil
    }
    let place = resolver.place(FilePath("Cloud Docs/a/./b//../c"))
    XCTAssertEqual(place?.relative, Array("a/c".utf8))
    XCTAssertEqual(place?.mount.mountpoint, FilePath("/home/x/Cloud Docs"))
    XCTAssertFalse(asked.contains { $0.isWithin(FilePath("/home/x/Cloud Docs")) })
  }

  func testSymlinksBeforeTheLastName() {
    let resolver = resolver(["/home/x/l": "Cloud Docs", "/loop": "/loop"])
    XCTAssertEqual(resolver.place(FilePath("l/a"))?.relative, Array("a".utf8))
    XCTAssertEqual(resolver.place(FilePath("l"))?.relative, [], "a symlink to a mountpoint means the mount")
    XCTAssertEqual(resolver.place(FilePath("/home/x/Cloud Docs/../l/z"))?.relative, Array("z".utf8))
    XCTAssertNil(resolver.place(FilePath("/loop/a")))
    XCTAssertNil(resolver.place(FilePath("Cloud Docs/..")))
    XCTAssertEqual(resolver.resolve(FilePath("/../..")), FilePath("/"))
  }

  func testBindMountsOfAPart() {
    XCTAssertEqual(resolver().place(FilePath("/bind/a"))?.relative, Array("sub/a".utf8))
    XCTAssertEqual(try resolver().requireMount(FilePath("/bind")).source, FilePath("/state"))
  }

  func testPathsOutside() {
    XCTAssertThrowsError(try resolver().requirePlace(FilePath("/etc/passwd"))) {
      XCTAssertEqual(($0 as? Failure)?.exitCode, 69)
    }
    XCTAssertThrowsError(try resolver().requireMount(FilePath("Cloud Docs/a"))) {
      XCTAssertEqual(($0 as? Failure)?.exitCode, 69)
    }
  }

  func testContainerAddresses() throws {
    func address(_ text: String) throws -> ContainerAddress { try ContainerAddress(Array(text.utf8)) }
    XCTAssertEqual(try address("/nowhere/a b").identity, "dir:/nowhere/a%20b")
    XCTAssertEqual(try address("/nowhere/a b").text, "/nowhere/a b")
    XCTAssertEqual(try address("dir:/x/y?latency=80ms").identity, "dir:/x/y")
    XCTAssertEqual(try address("dir:/x/y?latency=80ms").text, "dir:/x/y?latency=80ms")
    XCTAssertEqual(try address("dir:/x/y?latency=80ms").url.latency, 0.08)
    XCTAssertEqual(try address("/x/why?").folder, FilePath("/x/why?"))
    let text = try address("dir:/x/a%3fb%ff?rate=1MiB").text
    XCTAssertEqual(try address(text).text, text, "it opens the same container again")
    XCTAssertEqual(try address(text).folder, FilePath(Array("/x/a?b".utf8) + [0xff]))
    XCTAssertThrowsError(try address("")) { XCTAssertEqual(($0 as? Failure)?.exitCode, 64) }
    XCTAssertThrowsError(try address("s4://x")) { XCTAssertEqual(($0 as? Failure)?.exitCode, 64) }
  }

  func testStateNames() {
    XCTAssertEqual(stateName(of: "dir:/home/x/My Docs").prefix(7), "MyDocs-")
    XCTAssertNotEqual(stateName(of: "dir:/a/x"), stateName(of: "dir:/b/x"))
    XCTAssertEqual(stateName(of: "dir:/").count, "dir-".count + 16)
  }

  func testStateDirectoryLock() throws {
    let folder = try TemporaryFolder()
    defer { try? folder.remove() }
    let state = StateDirectory(path: folder.path.appending("s"))
    try state.check()
    try state.make()
    XCTAssertNil(state.holder())
    let lock = try StateLock.acquire(state, mountpoint: FilePath("/m"))
    XCTAssertEqual(state.holder(), LockHolder(pid: getpid(), mountpoint: "/m"))
    XCTAssertThrowsError(try StateLock.acquire(state, mountpoint: FilePath("/n"))) {
      XCTAssertEqual(($0 as? Failure)?.exitCode, 75)
      XCTAssertTrue("\($0)".contains("process \(getpid()), mounted at /m"), "\($0)")
    }
    lock.release()
    XCTAssertNil(state.holder())
    let about = About(container: "/c", mountpoint: "/m", version: "1")
    try state.write(about)
    XCTAssertEqual(state.about(), about)
  }

  func testAFolderOfSomebodysIsNoStateDirectory() throws {
    let folder = try TemporaryFolder()
    defer { try? folder.remove() }
    _ = try folder.path.makingFolder("photos")
    XCTAssertThrowsError(try StateDirectory(path: folder.path).check())
  }
}
