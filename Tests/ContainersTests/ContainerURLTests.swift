import CLinux
import TestSupport
import XCTest

@testable import Containers

final class ContainerURLTests: XCTestCase {
  private func text(_ url: ContainerURL) -> String { String(decoding: url.folder ?? [], as: UTF8.self) }

  private func error(_ text: String) -> ContainerURLError? {
    do throws(ContainerURLError) {
      _ = try ContainerURL(text)
      return nil
    } catch {
      return error
    }
  }

  func testABarePathIsTakenLiterally() throws {
    for path in ["/a/b", "/a b/ü", "/a?latency=1s", "/a%20b", "/x:y"] {
      let url = try ContainerURL(path)
      XCTAssertEqual(text(url), path)
      XCTAssertEqual(url.latency, 0)
    }
    XCTAssertEqual(try ContainerURL([0x2f, 0xff]).folder, [0x2f, 0xff])
    XCTAssertEqual(text(try ContainerURL("//a/./b//")), "/a/b")
    XCTAssertEqual(text(try ContainerURL("/")), "/")
  }

  func testARelativePathIsMadeAbsolute() throws {
    let here = try XCTUnwrap(getcwd(nil, 0))
    defer { free(here) }
    let current = String(cString: here)
    XCTAssertEqual(text(try ContainerURL("a/b")), current + "/a/b")
    XCTAssertEqual(text(try ContainerURL("./dir:a")), current + "/dir:a")
    XCTAssertEqual(text(try ContainerURL("dir:a")), current + "/a")
  }

  func testOptions() throws {
    let url = try ContainerURL("dir:/a%20b%3f?latency=80ms&rate=20MiB/s")
    XCTAssertEqual(text(url), "/a b?")
    XCTAssertEqual(url.latency, 0.08)
    XCTAssertEqual(url.rate, 20 << 20)
    XCTAssertEqual(url.canonical, "dir:/a%20b%3f", "without options: they do not make another container")
    XCTAssertEqual(try ContainerURL(url.canonical).folder, url.folder)
    XCTAssertEqual(try ContainerURL("dir:/a?").rate, nil)
    XCTAssert(try ContainerURL("dir:/a").open() is DirectoryContainer)
    XCTAssert(try ContainerURL("dir:/a?rate=1K").open() is ThrottledContainer)
  }

  func testS3() throws {
    let url = try ContainerURL("s3://bucket/a%20b/c/?endpoint=http://127.0.0.1:8333/&region=eu-1&latency=1s&rate=1K")
    XCTAssertEqual(
      url.place,
      .s3(
        S3Address(
          bucket: "bucket", prefix: Array("a b/c".utf8), endpoint: "http://127.0.0.1:8333", region: "eu-1",
          isPathStyle: true), profile: nil))
    XCTAssertEqual(url.canonical, "s3://bucket/a%20b/c?endpoint=http://127.0.0.1:8333")
    XCTAssertEqual(try ContainerURL(url.text), url, "it can be read back")
    XCTAssertNil(url.folder)
    XCTAssertEqual(url.latency, 1)
    let plain = try ContainerURL("s3://bucket?region=eu-1&endpoint=https%3A%2F%2Fs3.example.org&path_style=0&profile=w")
    XCTAssertEqual(
      plain.place,
      .s3(
        S3Address(
          bucket: "bucket", prefix: [], endpoint: "https://s3.example.org", region: "eu-1", isPathStyle: false),
        profile: "w"))
    XCTAssertEqual(try ContainerURL(plain.text), plain)
    XCTAssert(try plain.open() is LinkFileContainer)
  }

  func testMistakesInAnS3URLAreNamed() {
    for (text, word) in [
      ("s3:bucket", "//"), ("s3://", "bucket"), ("s3://b c/x", "bucket"), ("s3://b/../x", "path"),
      ("s3://b/%2e%2e", "path"), ("s3://b?endpoint=ftp://x", "ftp://x"), ("s3://b?endpoint=http://x/y", "http://x/y"),
      ("s3://b?path_style=yes", "yes"), ("s3://b?regoin=x", "did you mean region?"), ("s3://b?region=", "region"),
    ] {
      XCTAssertEqual(error(text)?.exitCode, 64, text)
      XCTAssert(error(text)?.message.contains(word) ?? false, error(text)?.message ?? text)
    }
    let secret = error("s3://b?endpoint=http://me:hunter2@x")
    XCTAssertEqual(secret?.exitCode, 64)
    XCTAssertFalse(secret?.message.contains("hunter2") ?? true)
  }

  func testMistakesAreNamed() {
    XCTAssertEqual(error("dir:/a?latencyy=1s")?.exitCode, 64)
    XCTAssert(error("dir:/a?latencyy=1s")?.message.contains("did you mean latency?") ?? false)
    XCTAssert(error("dir:/a?latency=soon")?.message.contains("soon") ?? false)
    XCTAssert(error("dir:/a?rate=0")?.message.contains("rate=0") ?? false)
    XCTAssertEqual(error("dir:")?.exitCode, 64)
    XCTAssertEqual(error("dir:/a%2")?.exitCode, 64)
    XCTAssertEqual(error("dir:/a%00")?.exitCode, 64)
    XCTAssertEqual(error("")?.exitCode, 64)
    XCTAssert(error("dri:/a")?.message.contains("did you mean dir?") ?? false)
    XCTAssert(error("note:x")?.message.contains("./note:") ?? false)
  }

  func testWebDAV() throws {
    let url = try ContainerURL("webdav+https://Host:8443/a%20b/c/?latency=1s")
    XCTAssertEqual(
      url.place, .webdav(DAVAddress(server: "https://host:8443", names: [Array("a b".utf8), Array("c".utf8)])))
    XCTAssertEqual(url.canonical, "webdav+https://host:8443/a%20b/c/")
    XCTAssertEqual(try ContainerURL(url.text), url)
    XCTAssertEqual(url.latency, 1)
    XCTAssert(try ContainerURL("webdav+http://127.0.0.1").open() is LinkFileContainer)
    for (text, word) in [
      ("webdav+http:host", "//"), ("webdav+http://", "host"), ("webdav+http:///x", "address"),
      ("webdav+http://h/../x", "address"), ("webdav+http://h/%00", "address"), ("webdav+http://h/x?rat=1", "rate"),
      ("webdav+htp://h/", "did you mean webdav+http?"),
    ] {
      XCTAssertEqual(error(text)?.exitCode, 64, text)
      XCTAssert(error(text)?.message.contains(word) ?? false, error(text)?.message ?? text)
    }
    let secret = error("webdav+https://me:hunter2@host/x")
    XCTAssertFalse(secret?.message.contains("hunter2") ?? true)
    XCTAssert(secret?.message.contains("netrc") ?? false)
  }

  func testOnlyTheDefaultContainerIsMade() throws {
    let folder = try TemporaryFolder()
    let url = ContainerURL(path: Array((folder.path + "/a/b/c").utf8))
    let container = try url.open()
    assertCode(.unreachable) { _ = try container.identify(create: true, CallContext()) }
    XCTAssertEqual(try folder.names(), [])
    _ = try url.open(createIfMissing: true).identify(create: true, CallContext())
    XCTAssertEqual(try folder.names("a/b"), ["c"])
    try folder.write("file", "x")
    XCTAssertThrowsError(
      try ContainerURL(path: Array((folder.path + "/file").utf8)).open(createIfMissing: true))
  }
}
