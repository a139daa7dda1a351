import CLinux
import Containers
import XCTest

/// What every container must do. A test class runs it on each kind: `ContainerContract(…).run()`.
package struct ContainerContract {
  /// A fresh, empty container as two devices see it, and what keeps it alive.
  package struct Fixture {
    package let container: any Container
    package let other: any Container
    package let keepAlive: AnyObject?
    package init(_ container: any Container, other: any Container, keepAlive: AnyObject? = nil) {
      self.container = container
      self.other = other
      self.keepAlive = keepAlive
    }
  }

  private let make: () throws -> Fixture
  /// Whether names may hold any bytes, and symlinks any target.
  private let holdsAnyBytes: Bool
  /// Whether a reader sees the old file or the new one, at no moment neither.
  private let replacesAtOnce: Bool
  /// Bytes that a name may have.
  private let longestName: Int

  package init(
    holdsAnyBytes: Bool, replacesAtOnce: Bool = true, longestName: Int = 255, make: @escaping () throws -> Fixture
  ) {
    self.longestName = longestName
    self.holdsAnyBytes = holdsAnyBytes
    self.replacesAtOnce = replacesAtOnce
    self.make = make
  }

  /// Runs every case on a container of its own; a failure names its case.
  package func run() {
    for (name, body) in cases {
      do { try body(make()) } catch { XCTFail("\(name): \(error)") }
    }
  }

  private var cases: [(String, (Fixture) throws -> Void)] {
    [
      ("identity", identity), ("put and read", putAndRead), ("put absent", putAbsent),
      ("put version", putVersion),
      ("put without a parent", putOrphan), ("put is cancelled", putCancelled),
      ("source ends early", putShort),
      ("remove", remove), ("folders", folders), ("rename", rename), ("rename a folder", renameFolder),
      ("ranges", ranges), ("read an old version", readOld), ("replaced during a read", replacedDuringRead),
      ("the sink ends a read", sinkThrows), ("attributes", attributes), ("set attributes", setAttributes),
      ("symlinks", symlinks), ("odd names", oddNames), ("cancelled", cancelled), ("many", many),
      ("no update is lost", noLostUpdate),
    ]
  }

  private func identity(_ f: Fixture) throws {
    assertCode(.identityMissing) { _ = try f.container.identify(create: false, CallContext()) }
    let id = try f.container.identify(create: true, CallContext())
    XCTAssertEqual(try f.container.identify(create: true, CallContext()), id)
    XCTAssertEqual(try f.other.identify(create: false, CallContext()), id)
    XCTAssertEqual(try f.container.list(.root, CallContext()), [], "the marker is not an item")
  }

  private func putAndRead(_ f: Fixture) throws {
    for text in ["", "x", String(repeating: "0123456789", count: 100_000)] {
      let name = path("n\(text.utf8.count)")
      let new = try f.container.put(name, text)
      XCTAssertEqual(new.kind, .file)
      XCTAssertEqual(new.size, Int64(text.utf8.count))
      XCTAssertEqual(try f.container.item(at: name, CallContext()), new)
      XCTAssertEqual(try f.other.item(at: name, CallContext()), new)
      XCTAssert(try f.container.list(.root, CallContext()).contains(new))
      XCTAssertEqual(try f.other.contents(name, new), Array(text.utf8))
    }
    XCTAssertNil(try f.container.item(at: path("none"), CallContext()))
    XCTAssertNil(try f.container.item(at: path("none/none"), CallContext()))
    assertCode(.notFound) { _ = try f.container.list(path("none"), CallContext()) }
    assertCode(.notFound) { _ = try f.container.list(path("n1"), CallContext()) }
  }

  private func putAbsent(_ f: Fixture) throws {
    let first = try f.container.put(path("a"), "first")
    assertCode(.preconditionFailed) { try f.other.put(path("a"), "second") }
    XCTAssertEqual(try f.container.contents(path("a"), first), Array("first".utf8))
    _ = try f.container.makeFolder(path("d"), attributes: .init(), CallContext())
    assertCode(.preconditionFailed) { try f.other.put(path("d"), "over a folder") }
  }

  private func putVersion(_ f: Fixture) throws {
    let one = try f.container.put(path("a"), "one")
    let two = try f.other.put(path("a"), "two", if: .version(one.version))
    XCTAssertNotEqual(one.version, two.version)
    assertCode(.preconditionFailed) { try f.container.put(path("a"), "three", if: .version(one.version)) }
    XCTAssertEqual(try f.container.current(path("a"))?.bytes, Array("two".utf8))
    XCTAssertEqual(try f.container.current(path("a"))?.item, two)
    try f.other.remove(path("a"), kind: .file, version: two.version, CallContext())
    assertCode(.preconditionFailed) { try f.container.put(path("a"), "four", if: .version(two.version)) }
    XCTAssertEqual(try f.container.list(.root, CallContext()), [])
  }

  private func putOrphan(_ f: Fixture) throws {
    assertCode(.notFound) { try f.container.put(path("none/a"), "x") }
    try f.container.put(path("file"), "x")
    assertCode(.notFound) { try f.container.put(path("file/a"), "x") }
  }

  private func putCancelled(_ f: Fixture) throws {
    let one = try f.container.put(path("a"), "one")
    let source = BytesSource(Array("two".utf8), isCurrent: { false })
    assertCode(.cancelled) {
      _ = try f.container.put(
        path("a"), from: source, attributes: .init(), if: .version(one.version), CallContext())
    }
    assertCode(.cancelled) {
      _ = try f.container.put(path("b"), from: source, attributes: .init(), if: .absent, CallContext())
    }
    XCTAssertEqual(try f.container.list(.root, CallContext()), [one])
  }

  private func putShort(_ f: Fixture) throws {
    let source = BytesSource(Array("short".utf8), size: 1_000_000)
    do {
      _ = try f.container.put(path("a"), from: source, attributes: .init(), if: .absent, CallContext())
      XCTFail("a source that ended early was published")
    } catch {
      XCTAssert([.cancelled, .inconsistent].contains(error.code), "\(error.code)")
    }
    XCTAssertEqual(try f.container.list(.root, CallContext()), [])
  }

  private func remove(_ f: Fixture) throws {
    let one = try f.container.put(path("a"), "one")
    let two = try f.other.put(path("a"), "two", if: .version(one.version))
    assertCode(.preconditionFailed) {
      try f.container.remove(path("a"), kind: .file, version: one.version, CallContext())
    }
    assertCode(.preconditionFailed) {
      try f.container.remove(path("a"), kind: .folder, version: nil, CallContext())
    }
    XCTAssertEqual(try f.container.current(path("a"))?.bytes, Array("two".utf8))
    let now = try XCTUnwrap(f.container.item(at: path("a"), CallContext()))
    XCTAssertEqual(now.version, two.version, "a refused delete changes nothing")
    try f.container.remove(path("a"), kind: .file, version: now.version, CallContext())
    XCTAssertNil(try f.other.item(at: path("a"), CallContext()))
    assertCode(.notFound) {
      try f.container.remove(path("a"), kind: .file, version: now.version, CallContext())
    }
  }

  private func folders(_ f: Fixture) throws {
    let folder = try f.container.makeFolder(path("d"), attributes: .init(), CallContext())
    XCTAssertEqual(folder.kind, .folder)
    XCTAssertEqual(folder.size, 0)
    assertCode(.preconditionFailed) {
      _ = try f.container.makeFolder(path("d"), attributes: .init(), CallContext())
    }
    assertCode(.notFound) { _ = try f.container.makeFolder(path("e/f"), attributes: .init(), CallContext()) }
    let file = try f.container.put(path("d/a"), "x")
    XCTAssertEqual(try f.other.list(path("d"), CallContext()), [file])
    XCTAssertEqual(try f.other.list(.root, CallContext()).map(\.name), [try ItemName("d")])
    assertCode(.notEmpty) { try f.container.remove(path("d"), kind: .folder, version: nil, CallContext()) }
    try f.container.remove(path("d/a"), kind: .file, version: file.version, CallContext())
    XCTAssertEqual(try f.other.item(at: path("d"), CallContext())?.version, folder.version)
    try f.container.remove(path("d"), kind: .folder, version: nil, CallContext())
    XCTAssertEqual(try f.container.list(.root, CallContext()), [])
  }

  private func rename(_ f: Fixture) throws {
    let a = try f.container.put(path("a"), "a")
    let b = try f.container.put(path("b"), "b")
    assertCode(.preconditionFailed) {
      _ = try f.container.rename(path("a"), to: path("b"), version: a.version, CallContext())
    }
    assertCode(.preconditionFailed) {
      _ = try f.container.rename(path("a"), to: path("c"), version: b.version, CallContext())
    }
    assertCode(.notFound) {
      _ = try f.container.rename(path("x"), to: path("c"), version: nil, CallContext())
    }
    assertCode(.notFound) {
      _ = try f.container.rename(path("a"), to: path("none/c"), version: a.version, CallContext())
    }
    let c = try f.container.rename(path("a"), to: path("c"), version: a.version, CallContext())
    XCTAssertEqual(c.name, try ItemName("c"))
    XCTAssertEqual(try f.other.item(at: path("c"), CallContext()), c)
    XCTAssertNil(try f.other.item(at: path("a"), CallContext()))
    XCTAssertEqual(try f.other.contents(path("c"), c), Array("a".utf8))
    if f.container.traits.hasIdentities {
      XCTAssertNotNil(c.identity)
      XCTAssertEqual(c.identity, a.identity)
      XCTAssertNotEqual(c.identity, b.identity)
    }
  }

  private func renameFolder(_ f: Fixture) throws {
    _ = try f.container.makeFolder(path("d"), attributes: .init(), CallContext())
    _ = try f.container.makeFolder(path("d/e"), attributes: .init(), CallContext())
    try f.container.put(path("d/e/a"), "a")
    _ = try f.container.rename(path("d"), to: path("g"), version: nil, CallContext())
    XCTAssertEqual(try f.other.current(path("g/e/a"))?.bytes, Array("a".utf8))
    XCTAssertNil(try f.other.item(at: path("d"), CallContext()))
  }

  private func ranges(_ f: Fixture) throws {
    let bytes = (0..<600_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
    let source = BytesSource(bytes)
    let item = try f.container.put(path("a"), from: source, attributes: .init(), if: .absent, CallContext())
    let size = Int64(bytes.count)
    for range in [
      0..<0, 0..<1, 5..<5, 1..<300_000, 262_143..<262_145, (size - 1)..<size, size..<size, 0..<size,
    ] {
      XCTAssertEqual(
        try f.container.contents(path("a"), item, range),
        Array(bytes[Int(range.lowerBound)..<Int(range.upperBound)]),
        "\(range)")
    }
  }

  private func readOld(_ f: Fixture) throws {
    let one = try f.container.put(path("a"), "one")
    try f.other.put(path("a"), "two", if: .version(one.version))
    assertCode(.versionChanged) { _ = try f.container.contents(path("a"), one) }
    assertCode(.notFound) { _ = try f.container.contents(path("b"), one) }
  }

  private func replacedDuringRead(_ f: Fixture) throws {
    let bytes = [UInt8](repeating: 1, count: 3 << 20)
    let one = try f.container.put(
      path("a"), from: BytesSource(bytes), attributes: .init(), if: .absent, CallContext())
    var got: [UInt8] = []
    do throws(ContainerError) {
      try f.container.read(path("a"), version: one.version, range: 0..<one.size, CallContext()) {
        piece throws(ContainerError) in
        if got.isEmpty { try f.other.put(path("a"), "two", if: .version(one.version)) }
        got += piece
      }
      XCTAssertEqual(got, bytes, "no error, and a mix of two versions")
    } catch {
      XCTAssertEqual(error.code, .versionChanged)
    }
  }

  private func sinkThrows(_ f: Fixture) throws {
    let one = try f.container.put(path("a"), "one")
    var calls = 0
    do throws(ContainerError) {
      try f.container.read(path("a"), version: one.version, range: 0..<3, CallContext()) {
        _ throws(ContainerError) in
        calls += 1
        throw ContainerError(.outOfSpace, "the sink's own")
      }
      XCTFail("the sink's error was swallowed")
    } catch {
      XCTAssertEqual(error.message, "the sink's own")
    }
    XCTAssertEqual(calls, 1)
  }

  private func attributes(_ f: Fixture) throws {
    let traits = f.container.traits
    let wanted = RemoteAttributes(
      mode: 0o640, mtime: Timestamp(nanoseconds: 1_234_567_890_123_456_789),
      xattrs: [Array("user.color".utf8): [0, 1, 255], Array("user.empty".utf8): []])
    let item = try f.container.put(
      path("a"), from: BytesSource("x"), attributes: wanted, if: .absent, CallContext())
    let seen = try XCTUnwrap(f.other.item(at: path("a"), CallContext()))
    XCTAssertEqual(seen, item)
    if traits.holdsMode { XCTAssertEqual(seen.attributes.mode, 0o640) }
    if traits.holdsXattrs { XCTAssertEqual(seen.attributes.xattrs, wanted.xattrs) }
    if traits.holdsMode { XCTAssertEqual(seen.attributes.mtime, wanted.mtime) }
    let next = try f.container.put(path("a"), "y", if: .version(item.version))
    if traits.holdsMode {
      XCTAssertEqual(next.attributes.mode, 0o640, "a new content keeps what is not given")
    }
    if traits.holdsXattrs { XCTAssertEqual(next.attributes.xattrs, wanted.xattrs) }
    let folder = try f.container.makeFolder(
      path("d"), attributes: RemoteAttributes(mode: 0o750), CallContext())
    if traits.holdsMode { XCTAssertEqual(folder.attributes.mode, 0o750) }
  }

  private func setAttributes(_ f: Fixture) throws {
    let one = try f.container.put(path("a"), "one")
    let wanted = RemoteAttributes(
      mode: 0o400, mtime: Timestamp(nanoseconds: -5),
      xattrs: [Array("user.a".utf8): [1], Array("user.b".utf8): [2]])
    let two = try f.container.setAttributes(path("a"), wanted, version: one.version, CallContext())
    XCTAssertEqual(try f.other.item(at: path("a"), CallContext()), two)
    XCTAssertEqual(try f.other.contents(path("a"), two), Array("one".utf8))
    guard f.container.traits.holdsMode, f.container.traits.holdsXattrs else { return }
    XCTAssertEqual(two.attributes, wanted)
    assertCode(.preconditionFailed) {
      _ = try f.container.setAttributes(path("a"), .init(mode: 0o777), version: one.version, CallContext())
    }
    let fewer = RemoteAttributes(xattrs: [Array("user.b".utf8): [3]])
    let three = try f.container.setAttributes(path("a"), fewer, version: two.version, CallContext())
    XCTAssertEqual(three.attributes, RemoteAttributes(mode: 0o400, mtime: wanted.mtime, xattrs: fewer.xattrs))
    assertCode(.notFound) {
      _ = try f.container.setAttributes(path("x"), wanted, version: nil, CallContext())
    }
  }

  private func symlinks(_ f: Fixture) throws {
    guard f.container.traits.holdsSymlinks else { return }
    let target = Array("../no where/\u{e9}".utf8) + (holdsAnyBytes ? [0xff] : [])
    let link = try f.container.makeSymlink(path("l"), target: target, attributes: .init(), CallContext())
    XCTAssertEqual(link.kind, .symlink)
    XCTAssertEqual(link.target, target)
    XCTAssertEqual(try f.other.list(.root, CallContext()), [link])
    XCTAssertNil(try f.container.item(at: path("l/x"), CallContext()))
    assertCode(.preconditionFailed) {
      _ = try f.container.makeSymlink(path("l"), target: target, attributes: .init(), CallContext())
    }
    try f.container.remove(path("l"), kind: .symlink, version: link.version, CallContext())
    XCTAssertEqual(try f.container.list(.root, CallContext()), [])
  }

  private func oddNames(_ f: Fixture) throws {
    var names = ["a b", "ü", "u\u{308}", "日本", ".hidden", "-rf", "a?b%20", "con", "..."].map {
      Array($0.utf8)
    }
    names.append([UInt8](repeating: 0x61, count: longestName))
    if holdsAnyBytes {
      names.append(contentsOf: (1...255).filter { $0 != 0x2f && $0 != 0x2e }.map { [UInt8($0)] })
      names.append([UInt8](repeating: 0xff, count: 255))
    }
    for name in names {
      let path = ContainerPath([try ItemName(name)])
      let item = try f.container.put(path, "x")
      XCTAssertEqual(try f.other.contents(path, item), [0x78])
    }
    XCTAssertEqual(Set(try f.other.list(.root, CallContext()).map(\.name.bytes)), Set(names))
    guard longestName < 255 else { return }
    assertCode(.notRepresentable) { try f.container.put(path(String(repeating: "b", count: 255)), "x") }
  }

  private func cancelled(_ f: Fixture) throws {
    let call = CallContext()
    call.cancel()
    assertCode(.cancelled) { _ = try f.container.list(.root, call) }
    assertCode(.cancelled) { _ = try f.container.makeFolder(path("d"), attributes: .init(), call) }
    XCTAssertEqual(try f.container.list(.root, CallContext()), [])
  }

  private func many(_ f: Fixture) throws {
    let names = (0..<300).map { "file \($0)" }
    for name in names { try f.container.put(path(name), name) }
    XCTAssertEqual(
      try f.other.list(.root, CallContext()).map(\.name.description).sorted(), names.sorted())
  }

  /// Eight writers on two devices count up one number; every success must be in the final number.
  private func noLostUpdate(_ f: Fixture) throws {
    try f.container.put(path("n"), "0")
    let successes = Guarded(0)
    let (container, other, replacesAtOnce) = (f.container, f.other, replacesAtOnce)
    onThreads(8) { number in
      let mine = number % 2 == 0 ? container : other
      for _ in 0..<25 {
        do {
          guard let (item, bytes) = try mine.current(path("n")) else {
            if replacesAtOnce { XCTFail("the file is gone") }
            continue
          }
          guard let n = Int(String(decoding: bytes, as: UTF8.self)) else {
            return XCTFail("the file is torn")
          }
          try mine.put(path("n"), "\(n + 1)", if: .version(item.version))
          successes.withLock { $0 += 1 }
        } catch let error as ContainerError where error.code == .preconditionFailed {
          continue
        } catch {
          XCTFail("\(error)")
        }
      }
    }
    let final = try XCTUnwrap(f.container.current(path("n"))).bytes
    XCTAssertEqual(String(decoding: final, as: UTF8.self), "\(successes.withLock { $0 })")
    XCTAssertGreaterThan(successes.withLock { $0 }, 0)
  }
}

/// Fails unless `body` throws a ContainerError of that code.
package func assertCode(
  _ code: ContainerError.Code, file: StaticString = #filePath, line: UInt = #line, _ body: () throws -> Void
) {
  do {
    try body()
    XCTFail("no error; \(code) was expected", file: file, line: line)
  } catch let error as ContainerError {
    XCTAssertEqual(error.code, code, error.message, file: file, line: line)
  } catch {
    XCTFail("\(error)", file: file, line: line)
  }
}
