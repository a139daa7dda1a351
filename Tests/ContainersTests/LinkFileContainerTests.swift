import TestSupport
import XCTest

@testable import Containers

final class LinkFileContainerTests: XCTestCase {
  private func make() throws -> (plain: DirectoryContainer, links: LinkFileContainer) {
    let folder = try TemporaryFolder()
    addTeardownBlock { folder.remove() }
    let plain = DirectoryContainer(path: Array(folder.path.utf8))
    return (plain, LinkFileContainer(plain))
  }

  private func make(_ links: LinkFileContainer, _ name: String, _ target: String) throws -> RemoteItem {
    try links.makeSymlink(path(name), target: Array(target.utf8), attributes: .init(), CallContext())
  }

  func testALinkIsAFileAsRcloneWritesIt() throws {
    let (plain, links) = try make()
    let link = try make(links, "l", "to/there")
    XCTAssertEqual(try plain.current(path("l.rclonelink"))?.bytes, Array("to/there".utf8))
    try plain.put(path("m.rclonelink"), "else")
    XCTAssertEqual(
      try links.list(.root, CallContext()).map { "\($0.name) \(String(decoding: $0.target ?? [], as: UTF8.self))" }
        .sorted(),
      ["l to/there", "m else"])
    XCTAssertEqual(try links.item(at: path("l"), CallContext()), link)
    XCTAssertNil(try links.item(at: path("l.rclonelink"), CallContext()))
  }

  func testALinkIsRenamedAndRemovedAsOne() throws {
    let (plain, links) = try make()
    let link = try make(links, "l", "t")
    try plain.put(path("taken"), "x")
    assertCode(.preconditionFailed) {
      _ = try links.rename(path("l"), to: path("taken"), version: link.version, CallContext())
    }
    let moved = try links.rename(path("l"), to: path("m"), version: link.version, CallContext())
    XCTAssertEqual(moved.target, Array("t".utf8))
    XCTAssertEqual(try plain.list(.root, CallContext()).map(\.name.description).sorted(), ["m.rclonelink", "taken"])
    let file = try links.put(path("f"), "x")
    assertCode(.preconditionFailed) {
      _ = try links.rename(path("f"), to: path("m"), version: file.version, CallContext())
    }
    assertCode(.preconditionFailed) { try links.remove(path("m"), kind: .file, version: nil, CallContext()) }
    assertCode(.preconditionFailed) { try links.remove(path("f"), kind: .symlink, version: nil, CallContext()) }
    try links.remove(path("m"), kind: .symlink, version: moved.version, CallContext())
    assertCode(.notFound) { try links.remove(path("m"), kind: .symlink, version: nil, CallContext()) }
  }

  func testAFileOfTheLinksNameIsShownAndTheLinkStays() throws {
    let (plain, links) = try make()
    let link = try make(links, "l", "t")
    try plain.put(path("l"), "a file")
    XCTAssertEqual(try links.list(.root, CallContext()).map(\.kind), [.file])
    XCTAssertEqual(try links.item(at: path("l"), CallContext())?.kind, .file)
    let file = try XCTUnwrap(links.item(at: path("l"), CallContext()))
    try links.remove(path("l"), kind: .file, version: file.version, CallContext())
    XCTAssertEqual(try links.item(at: path("l"), CallContext()), link)
  }

  func testNamesThatMeanLinksAreForNothingElse() throws {
    let (plain, links) = try make()
    assertCode(.notRepresentable) { try links.put(path("a.rclonelink"), "x") }
    assertCode(.notRepresentable) {
      _ = try links.makeFolder(path("a.rclonelink"), attributes: .init(), CallContext())
    }
    assertCode(.notRepresentable) { _ = try make(links, "a.rclonelink", "x") }
    assertCode(.notRepresentable) { _ = try make(links, String(repeating: "n", count: 250), "x") }
    assertCode(.notRepresentable) { _ = try make(links, "long", String(repeating: "t", count: 5_000)) }
    // What means no link is shown as what it is.
    let big = BytesSource([UInt8](repeating: 1, count: 5_000))
    _ = try plain.put(path("b.rclonelink"), from: big, attributes: .init(), if: .absent, CallContext())
    try plain.put(path("c.rclonelink"), "a\0b")
    XCTAssertEqual(try links.list(.root, CallContext()).map(\.kind), [.file, .file])
    XCTAssertNotNil(try links.item(at: path("b.rclonelink"), CallContext()))
  }
}
