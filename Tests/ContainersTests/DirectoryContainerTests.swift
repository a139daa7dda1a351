import CLinux
import Foundation
import StorageErrors
import TestSupport
import XCTest

@testable import Containers

/// What is particular to a folder: other programs, odd files, a root that goes away.
final class DirectoryContainerTests: XCTestCase {
  private func make() throws -> (folder: TemporaryFolder, container: DirectoryContainer) {
    let folder = try TemporaryFolder()
    let container = DirectoryContainer(path: Array(folder.path.utf8))
    _ = try container.identify(create: true, CallContext())
    addTeardownBlock { folder.remove() }
    return (folder, container)
  }

  private func item(_ container: any Container, _ name: String) throws -> RemoteItem {
    try XCTUnwrap(container.item(at: path(name), CallContext()), name)
  }

  // MARK: - Versions

  func testEveryEditMakesAnotherVersion() throws {
    let (folder, container) = try make()
    try folder.write("a", "one")
    var versions: Set<Version> = [try item(container, "a").version]
    let edits: [(String, () throws -> Void)] = [
      ("same size in place, mtime put back", { try self.editKeepingTimes(folder.path + "/a", "two") }),
      (
        "replaced by another file",
        { try "two".write(toFile: folder.path + "/a", atomically: true, encoding: .utf8) }
      ),
      ("longer", { try folder.write("a", "longer") }),
      ("touched", { XCTAssertEqual(utimes(folder.path + "/a", nil), 0) }),
    ]
    for (what, edit) in edits {
      try edit()
      XCTAssert(versions.insert(try item(container, "a").version).inserted, what)
    }
  }

  private func editKeepingTimes(_ file: String, _ text: String) throws {
    var before = stat()
    XCTAssertEqual(stat(file, &before), 0)
    usleep(20_000)
    let fd = open(file, O_WRONLY)
    defer { close(fd) }
    XCTAssertEqual(write(fd, text, text.utf8.count), text.utf8.count)
    XCTAssertEqual(futimens(fd, [before.st_atim, before.st_mtim]), 0)
  }

  func testAFolderKeepsItsVersionWhenItsEntriesChange() throws {
    let (folder, container) = try make()
    mkdir(folder.path + "/d", 0o755)
    let before = try item(container, "d")
    try folder.write("d/a", "x")
    XCTAssertEqual(try item(container, "d").version, before.version)
  }

  func testAForeignRenameKeepsTheIdentity() throws {
    let (folder, container) = try make()
    try folder.write("a", "x")
    let before = try item(container, "a")
    Glibc.rename(folder.path + "/a", folder.path + "/b")
    XCTAssertEqual(try item(container, "b").identity, before.identity)
    try folder.write("c", "x")
    XCTAssertNotEqual(try item(container, "c").identity, before.identity)
    link(folder.path + "/b", folder.path + "/b2")
    XCTAssertNil(try item(container, "b").identity, "two names are two items, not a rename")
  }

  // MARK: - Nothing leads out, nothing hangs

  func testSymlinksAreNeverFollowed() throws {
    let (folder, container) = try make()
    let outside = try TemporaryFolder()
    try outside.write("secret", "x")
    symlink("/", folder.path + "/evil")
    symlink(outside.path, folder.path + "/out")
    symlink(outside.path + "/secret", folder.path + "/file")
    let names = path("out").names
    XCTAssertNil(try container.item(at: path("out/secret"), CallContext()))
    XCTAssertNil(try container.item(at: path("evil/etc/passwd"), CallContext()))
    assertCode(.notFound) { _ = try container.list(ContainerPath(names), CallContext()) }
    assertCode(.notFound) { try container.put(path("out/new"), "x") }
    assertCode(.notFound) { _ = try container.makeFolder(path("out/d"), attributes: .init(), CallContext()) }
    assertCode(.notFound) {
      _ = try container.rename(path("out/secret"), to: path("mine"), version: nil, CallContext())
    }
    assertCode(.notFound) {
      try container.remove(path("out/secret"), kind: .file, version: nil, CallContext())
    }
    let file = try item(container, "file")
    XCTAssertEqual(file.kind, .symlink)
    XCTAssertEqual(file.target, Array((outside.path + "/secret").utf8))
    assertCode(.versionChanged) { _ = try container.contents(path("file"), file, 0..<1) }
    _ = try container.setAttributes(
      path("file"), .init(mtime: Timestamp(nanoseconds: 7)), version: nil, CallContext())
    try container.put(path("file"), "mine", if: .version(try item(container, "file").version))
    XCTAssertEqual(try outside.read("secret"), "x")
    XCTAssertEqual(try outside.names(), ["secret"])
    XCTAssertEqual(try folder.read("file"), "mine")
  }

  func testASymlinkInPlaceOfTheHiddenFolderIsRefused() throws {
    let folder = try TemporaryFolder()
    let outside = try TemporaryFolder()
    symlink(outside.path, folder.path + "/.docsfs-container")
    let container = DirectoryContainer(path: Array(folder.path.utf8))
    XCTAssertThrowsError(try container.identify(create: true, CallContext()))
    XCTAssertThrowsError(try container.put(path("a"), "x"))
    XCTAssertEqual(try outside.names(), [])
  }

  func testFifosSocketsAndDevicesAreLeftOut() throws {
    let (folder, container) = try make()
    XCTAssertEqual(mkfifo(folder.path + "/fifo", 0o644), 0)
    try folder.write("a", "x")
    let seen = try item(container, "a")
    XCTAssertEqual(try container.list(.root, CallContext()).map(\.name.description), ["a"])
    XCTAssertNil(try container.item(at: path("fifo"), CallContext()))
    assertCode(.notFound) { _ = try container.contents(path("fifo"), seen) }
    assertCode(.preconditionFailed) { try container.put(path("fifo"), "x") }
    assertCode(.notFound) { try container.remove(path("fifo"), kind: .file, version: nil, CallContext()) }
    unlink(folder.path + "/a")
    mkfifo(folder.path + "/a", 0o644)
    assertCode(.notFound) { _ = try container.contents(path("a"), seen) }
    assertCode(.preconditionFailed) { try container.put(path("a"), "x", if: .version(seen.version)) }
  }

  func testTheHiddenFolderIsOutOfReach() throws {
    let (folder, container) = try make()
    var status = stat()
    XCTAssertEqual(stat(folder.path + "/.docsfs-container", &status), 0)
    XCTAssertEqual(status.st_mode & 0o777, 0o700)
    XCTAssertEqual(try container.list(.root, CallContext()), [])
    XCTAssertNil(try container.item(at: path(".docsfs-container"), CallContext()))
    XCTAssertNil(try container.item(at: path(".docsfs-container/id"), CallContext()))
    assertCode(.notFound) { _ = try container.list(path(".docsfs-container"), CallContext()) }
    assertCode(.notRepresentable) { try container.put(path(".docsfs-container/x"), "x") }
    assertCode(.notRepresentable) {
      _ = try container.makeFolder(path(".docsfs-container"), attributes: .init(), CallContext())
    }
    assertCode(.notRepresentable) {
      try container.remove(path(".docsfs-container/id"), kind: .file, version: nil, CallContext())
    }
    try container.put(path("a"), "x")
    assertCode(.notRepresentable) {
      _ = try container.rename(path("a"), to: path(".docsfs-container/id"), version: nil, CallContext())
    }
    _ = try container.makeFolder(path("d"), attributes: .init(), CallContext())
    try container.put(path("d/.docsfs-container"), "only the root's is special")
    XCTAssertEqual(try container.list(path("d"), CallContext()).count, 1)
  }

  // MARK: - Sizes

  func testTreesDeeperThanAPathCanBe() throws {
    let (_, container) = try make()
    var path = ContainerPath.root
    for level in 0..<40 {
      path = path.appending(try ItemName(String(repeating: "n", count: 200) + "\(level)"))
      _ = try container.makeFolder(path, attributes: .init(), CallContext())
    }
    XCTAssertGreaterThan(path.bytes.count, 8_000)
    let file = path.appending(try ItemName("file"))
    let item = try container.put(file, "deep")
    XCTAssertEqual(try container.list(path, CallContext()), [item])
    let next = try container.put(file, "deeper", if: .version(item.version))
    XCTAssertEqual(try container.contents(file, next), Array("deeper".utf8))
    try container.remove(file, kind: .file, version: next.version, CallContext())
    while !path.isRoot {
      try container.remove(path, kind: .folder, version: nil, CallContext())
      path = path.parent
    }
  }

  func testRangesBeyondFourGiB() throws {
    let (folder, container) = try make()
    let fd = open(folder.path + "/big", O_RDWR | O_CREAT, 0o644)
    let end = (Int64(1) << 32) + 1
    XCTAssertEqual(pwrite(fd, "z", 1, off_t(end - 1)), 1)
    close(fd)
    let big = try item(container, "big")
    XCTAssertEqual(big.size, end)
    XCTAssertEqual(try container.contents(path("big"), big, (end - 3)..<end), [0, 0, 0x7a])
  }

  func testSparseUploadsStaySparse() throws {
    let (folder, container) = try make()
    var bytes = [UInt8](repeating: 0, count: 8 << 20)
    bytes[5 << 20] = 1
    let item = try container.put(
      path("a"), from: BytesSource(bytes), attributes: .init(), if: .absent, CallContext())
    XCTAssertEqual(try container.contents(path("a"), item), bytes)
    var status = stat()
    XCTAssertEqual(stat(folder.path + "/a", &status), 0)
    XCTAssertLessThan(status.st_blocks * 512, 2 << 20)
  }

  // MARK: - Attributes

  func testForeignXattrsAndModesAreSeen() throws {
    let (folder, container) = try make()
    try folder.write("a", "x")
    let value = [UInt8](repeating: 7, count: 3_000)
    XCTAssertEqual(setxattr(folder.path + "/a", "user.long", value, value.count, 0), 0)
    chmod(folder.path + "/a", 0o4711)
    let seen = try item(container, "a").attributes
    XCTAssertEqual(seen.xattrs, [Array("user.long".utf8): value])
    XCTAssertEqual(seen.mode, 0o4711)
  }

  func testTimesBeforeTheEpochAndAtTheLimits() throws {
    XCTAssertEqual(nanoseconds(timespec(nanoseconds: -1)), -1)
    XCTAssertEqual(timespec(nanoseconds: -1).tv_nsec, 999_999_999)
    XCTAssertEqual(nanoseconds(timespec(nanoseconds: .min)), .min)
    XCTAssertEqual(nanoseconds(timespec(nanoseconds: .max)), .max)
    XCTAssertEqual(nanoseconds(timespec(tv_sec: 1 << 40, tv_nsec: 0)), .max)
    XCTAssertEqual(nanoseconds(timespec(tv_sec: -(1 << 40), tv_nsec: 0)), .min)
  }

  // MARK: - Failures

  func testErrnosHaveOneMeaning() {
    let expected: [(Int32, ContainerError.Code)] = [
      (ENOENT, .notFound), (ENOTDIR, .notFound), (EACCES, .permissionDenied), (EPERM, .permissionDenied),
      (ENOSPC, .outOfSpace), (EDQUOT, .outOfSpace), (EROFS, .readOnly), (ENAMETOOLONG, .notRepresentable),
      (EILSEQ, .notRepresentable), (ENOTEMPTY, .notEmpty), (EEXIST, .preconditionFailed),
      (ENODEV, .unreachable),
      (ENXIO, .unreachable), (ESTALE, .unreachable), (ENOTCONN, .unreachable), (EHOSTDOWN, .unreachable),
      (ETIMEDOUT, .unreachable), (EIO, .system(.EIO)), (EMFILE, .system(Errno(rawValue: EMFILE))),
    ]
    for (number, code) in expected {
      XCTAssertEqual(ContainerError(Errno(rawValue: number), "read", path("a/b")).code, code, "\(number)")
    }
    XCTAssertEqual(
      ContainerError(.EIO, "read", path("a/b")).message, "cannot read a/b: Input/output error (EIO)")
  }

  func testAFolderThatMayNotBeReadIsAnErrorNotEmpty() throws {
    let (folder, container) = try make()
    mkdir(folder.path + "/d", 0o755)
    try folder.write("d/a", "x")
    chmod(folder.path + "/d", 0)
    defer { chmod(folder.path + "/d", 0o755) }
    if geteuid() == 0 {
      // Root may read all: let the process run out of descriptors instead.
      try withoutDescriptors {
        assertCode(.system(Errno(rawValue: EMFILE))) { _ = try container.list(path("d"), CallContext()) }
      }
    } else {
      assertCode(.permissionDenied) { _ = try container.list(path("d"), CallContext()) }
    }
  }

  /// Leaves two descriptors free: enough for the root and the folder, too few for what lies in it.
  private func withoutDescriptors(_ body: () throws -> Void) throws {
    var old = rlimit()
    getrlimit(__rlimit_resource_t(7), &old)
    defer { setrlimit(__rlimit_resource_t(7), &old) }
    let next = dup(0)
    close(next)
    var few = rlimit(rlim_cur: rlim_t(next) + 2, rlim_max: old.rlim_max)
    XCTAssertEqual(setrlimit(__rlimit_resource_t(7), &few), 0)
    try body()
  }

  func testPutLeavesNothingBehindWhenItFails() throws {
    let (folder, container) = try make()
    let one = try container.put(path("a"), "one")
    let short = BytesSource([1, 2], size: 100)
    XCTAssertThrowsError(
      try container.put(path("a"), from: short, attributes: .init(), if: .version(one.version), CallContext())
    )
    try folder.write("a", "two")
    XCTAssertThrowsError(try container.put(path("a"), "three", if: .version(one.version)))
    XCTAssertEqual(try folder.names(".docsfs-container/staging"), [])
    XCTAssertEqual(try folder.names(".docsfs-container/displaced"), [])
  }

  func testAReaderSeesOneVersionThoughTheFileIsEditedInPlace() throws {
    let (folder, container) = try make()
    let big = [UInt8](repeating: 1, count: 1 << 20)
    let one = try container.put(
      path("a"), from: BytesSource(big), attributes: .init(), if: .absent, CallContext())
    var pieces = 0
    assertCode(.versionChanged) {
      try container.read(path("a"), version: one.version, range: 0..<one.size, CallContext()) { _ in
        pieces += 1
        guard pieces == 1 else { return }
        let fd = open(folder.path + "/a", O_WRONLY)
        pwrite(fd, "x", 1, 1 << 19)
        close(fd)
      }
    }
    XCTAssertEqual(pieces, 1, "a piece of another version was given")
    let two = try item(container, "a")
    assertCode(.versionChanged) {
      try container.read(path("a"), version: two.version, range: 0..<two.size, CallContext()) { _ in
        truncate(folder.path + "/a", 10)
      }
    }
  }
}
