import CLinux
import Foundation
import TestSupport
import XCTest

@testable import Containers

/// The root and its marker: nothing may be concluded from a folder that is not the container.
final class DirectoryRootTests: XCTestCase {
  /// The root is a folder in `parent`, so that it can be moved away.
  private func make() throws -> (parent: TemporaryFolder, root: String, container: DirectoryContainer) {
    let parent = try TemporaryFolder()
    let root = parent.path + "/root"
    mkdir(root, 0o755)
    let container = DirectoryContainer(path: Array(root.utf8))
    _ = try container.identify(create: true, CallContext())
    addTeardownBlock { parent.remove() }
    return (parent, root, container)
  }

  private func assertUnreachable(_ container: any Container, line: UInt = #line) {
    assertCode(.unreachable, line: line) { _ = try container.list(.root, CallContext()) }
    assertCode(.unreachable, line: line) { _ = try container.item(at: path("a"), CallContext()) }
    assertCode(.unreachable, line: line) { _ = try container.put(path("b"), "x") }
    assertCode(.unreachable, line: line) {
      try container.remove(path("a"), kind: .file, version: nil, CallContext())
    }
    assertCode(.unreachable, line: line) {
      _ = try container.rename(path("a"), to: path("b"), version: nil, CallContext())
    }
    assertCode(.unreachable, line: line) {
      _ = try container.makeFolder(path("d"), attributes: .init(), CallContext())
    }
    assertCode(.unreachable, line: line) { _ = try container.quota(CallContext()) }
  }

  func testARootThatIsRenamedAway() throws {
    let (parent, root, container) = try make()
    try container.put(path("a"), "x")
    Glibc.rename(root, parent.path + "/elsewhere")
    assertUnreachable(container)
    assertCode(.unreachable) { _ = try container.identify(create: true, CallContext()) }
    Glibc.rename(parent.path + "/elsewhere", root)
    XCTAssertEqual(try container.list(.root, CallContext()).count, 1)
  }

  func testARootThatIsReplacedByAnEmptyFolder() throws {
    let (parent, root, container) = try make()
    try container.put(path("a"), "x")
    Glibc.rename(root, parent.path + "/elsewhere")
    mkdir(root, 0o755)
    assertUnreachable(container)
    assertCode(.identityMissing) { _ = try container.identify(create: false, CallContext()) }
    assertUnreachable(container)
    let other = DirectoryContainer(path: Array(root.utf8))
    let strange = try other.identify(create: true, CallContext())
    XCTAssertEqual(try container.identify(create: false, CallContext()), strange, "the caller compares")
    assertUnreachable(container)
  }

  func testACopyOfTheRootIsAdoptedOnceItIsIdentified() throws {
    let (parent, root, container) = try make()
    let id = try container.identify(create: false, CallContext())
    try container.put(path("a"), "x")
    try FileManager.default.copyItem(atPath: root, toPath: parent.path + "/copy")
    try FileManager.default.removeItem(atPath: root)
    assertUnreachable(container)
    Glibc.rename(parent.path + "/copy", root)
    assertUnreachable(container)
    XCTAssertEqual(try container.identify(create: false, CallContext()), id)
    XCTAssertEqual(try container.list(.root, CallContext()).count, 1)
  }

  func testAMarkerThatIsGoneOrAnothers() throws {
    let (_, root, container) = try make()
    try container.put(path("a"), "x")
    let marker = root + "/.docsfs-container/id"
    let text = try String(contentsOfFile: marker, encoding: .utf8)
    XCTAssertEqual(text.utf8.count, 33)
    unlink(marker)
    assertUnreachable(container)
    assertCode(.identityMissing) { _ = try container.identify(create: false, CallContext()) }
    try (String(repeating: "0", count: 32) + "\n").write(toFile: marker, atomically: false, encoding: .utf8)
    assertUnreachable(container)
    try text.write(toFile: marker, atomically: true, encoding: .utf8)
    XCTAssertEqual(try container.list(.root, CallContext()).count, 1)
    try "damaged".write(toFile: marker, atomically: false, encoding: .utf8)
    let new = DirectoryContainer(path: Array(root.utf8))
    assertCode(.identityMissing) { _ = try new.identify(create: true, CallContext()) }
    XCTAssertEqual(try String(contentsOfFile: marker, encoding: .utf8), "damaged")
  }

  func testManyWhoMakeTheMarkerAgreeOnOne() throws {
    let folder = try TemporaryFolder()
    let path = Array(folder.path.utf8)
    let ids = Guarded<Set<ContainerID>>([])
    onThreads(8) { _ in
      if let id = try? DirectoryContainer(path: path).identify(create: true, CallContext()) {
        ids.withLock { _ = $0.insert(id) }
      }
    }
    XCTAssertEqual(ids.withLock { $0.count }, 1)
    XCTAssertEqual(try folder.names(".docsfs-container/staging"), [])
  }

  func testNoSuchFolderAndAFileInItsPlace() throws {
    let folder = try TemporaryFolder()
    try folder.write("file", "x")
    for name in ["none", "file"] {
      let container = DirectoryContainer(path: Array((folder.path + "/" + name).utf8))
      assertCode(.unreachable) { _ = try container.identify(create: true, CallContext()) }
      assertCode(.unreachable) { _ = try container.item(at: path("a"), CallContext()) }
    }
  }

  func testADiskThatIsMountedReadOnly() throws {
    guard geteuid() == 0 else { throw XCTSkip("mounting needs root") }
    let (_, root, container) = try make()
    try container.put(path("a"), "x")
    try FileManager.default.removeItem(atPath: root + "/.docsfs-container")
    try inNamespaceOfItsOwn("mount --bind \(root) \(root) && mount -o remount,ro,bind \(root)") {
      let first = DirectoryContainer(path: Array(root.utf8))
      guard first.traits.isReadOnly else { return "not read-only" }
      guard let id = try? first.identify(create: true, CallContext()) else { return "no id" }
      let second = DirectoryContainer(path: Array((root + "/").utf8))
      guard try second.identify(create: false, CallContext()) == id else { return "another id" }
      guard try first.list(.root, CallContext()).count == 1 else { return "no listing" }
      do throws(ContainerError) {
        try first.put(path("b"), "x")
        return "a put succeeded"
      } catch {
        return error.code == .readOnly ? nil : error.message
      }
    }
  }

  /// Runs `setUp` by the shell in a mount namespace, and `body` on a thread in there.
  private func inNamespaceOfItsOwn(_ setUp: String, _ body: @escaping @Sendable () throws -> String?) throws {
    let result = Guarded<String?>("did not run")
    onThreads(1) { _ in
      guard DirectoryRootTests.leaveMountNamespace(), system("mount --make-rprivate / && " + setUp) == 0
      else {
        return result.withLock { $0 = "skip" }
      }
      do {
        let text = try body()
        result.withLock { $0 = text }
      } catch {
        result.withLock { $0 = "\(error)" }
      }
    }
    let text = result.withLock { $0 }
    if text == "skip" { throw XCTSkip("no mount namespace") }
    XCTAssertNil(text)
  }

  /// unshare(CLONE_NEWNS) of this thread; glibc hides it from Swift.
  private static func leaveMountNamespace() -> Bool {
    guard let symbol = dlsym(nil, "unshare") else { return false }
    let unshare = unsafeBitCast(symbol, to: (@convention(c) (Int32) -> Int32).self)
    return unshare(0x0002_0000) == 0
  }
}
