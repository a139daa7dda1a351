import Foundation
import TestSupport
import XCTest

@testable import Containers

/// The HTTP client against real servers.
final class HTTPClientTests: XCTestCase {
  private func base(_ kind: CloudServer.Kind) throws -> String {
    try CloudServer.shared(kind).container.replacingOccurrences(of: "webdav+", with: "")
  }

  private func put(_ client: HTTPClient, _ url: String, _ body: HTTPRequest.Body) throws {
    var request = HTTPRequest("PUT", url, what: "put")
    request.body = body
    XCTAssert(try client.send(request, CallContext()).isSuccess)
  }

  func testBodiesGoBothWaysInPieces() throws {
    let client = HTTPClient()
    let url = try base(.webdav) + "http-\(ContainerID.random().text)"
    var random = SeededRandom(3)
    let block = random.bytes(65_536)
    let source = RepeatingSource(block: block, count: 2_000)
    try put(client, url, .source(source, 0..<source.size))
    // The peak counts from here on.
    try "5".write(toFile: "/proc/self/clear_refs", atomically: false, encoding: .utf8)
    let before = try peakMemory()
    var (count, largest) = (Int64(0), 0)
    let response = try client.stream(HTTPRequest("GET", url, what: "get"), CallContext()) {
      (response) throws(ContainerError) in
      response.isSuccess
    } sink: { piece throws(ContainerError) in
      XCTAssert(
        piece.enumerated().prefix(64).allSatisfy { $0.element == block[Int(count + Int64($0.offset)) % 65_536] })
      count += Int64(piece.count)
      largest = max(largest, piece.count)
    }
    XCTAssertEqual(response.status, 200)
    XCTAssertEqual(count, source.size)
    XCTAssertLessThanOrEqual(largest, HTTPTransfer.room + 128 << 10)
    XCTAssertLessThan(try peakMemory() - before, 32 << 20, "125 MiB passed through")
  }

  /// VmHWM, in bytes.
  private func peakMemory() throws -> Int {
    let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
    let line = try XCTUnwrap(status.components(separatedBy: "\n").first { $0.hasPrefix("VmHWM:") })
    return try XCTUnwrap(Int(line.filter(\.isNumber))) * 1_024
  }

  func testABodyThatIsNotWantedIsBounded() throws {
    let client = HTTPClient()
    let url = try base(.webdav) + "http-\(ContainerID.random().text)"
    try put(client, url, .bytes([UInt8](repeating: 1, count: 100_000)))
    assertCode(.inconsistent) {
      _ = try client.send(HTTPRequest("GET", url, what: "get"), CallContext(), limit: 50_000)
    }
    XCTAssertEqual(try client.send(HTTPRequest("GET", url, what: "get"), CallContext()).body.count, 100_000)
  }

  func testTheSinkEndsACallAndTheNextOneWorks() throws {
    let client = HTTPClient()
    let url = try base(.webdav) + "http-\(ContainerID.random().text)"
    try put(client, url, .bytes([UInt8](repeating: 1, count: 5 << 20)))
    assertCode(.outOfSpace) {
      _ = try client.stream(HTTPRequest("GET", url, what: "get"), CallContext()) { (_) throws(ContainerError) in
        true
      } sink: { _ throws(ContainerError) in
        throw ContainerError(.outOfSpace, "the sink's")
      }
    }
    XCTAssertEqual(
      try client.send(HTTPRequest("GET", url, what: "get"), CallContext(), limit: 5 << 20).body.count, 5 << 20)
  }

  /// A server that accepts and never answers.
  func testACallThatIsNotAnsweredEndsAtItsDeadlineAndWhenCancelled() throws {
    let silent = try SilentServer()
    let request = HTTPRequest("GET", "http://127.0.0.1:\(silent.port)/", what: "cannot get it")
    assertCode(.timedOut) { _ = try HTTPClient().send(request, CallContext(timeout: 0.2)) }
    let call = CallContext()
    onThreads(2) { number in
      if number == 0 {
        usleep(50_000)
        return call.cancel()
      }
      assertCode(.cancelled) { _ = try HTTPClient().send(request, call) }
    }
  }

  func testRedirectionsAreFollowedOnlyWhereThatIsWanted() throws {
    let client = HTTPClient()
    let folder = try base(.webdav) + "http-\(ContainerID.random().text)"
    XCTAssert(try client.send(HTTPRequest("MKCOL", folder + "/", what: "make"), CallContext()).isSuccess)
    // lighttpd points from a folder's name to the name with a slash.
    var request = HTTPRequest("GET", folder, what: "get")
    XCTAssertEqual(try client.send(request, CallContext()).status, 301)
    request.followsRedirects = true
    XCTAssertNotEqual(try client.send(request, CallContext()).status, 301)
  }

  func testTLSIsVerified() throws {
    let server = try CloudServer.shared(.apache)
    let url = try XCTUnwrap(server.values["tls"]).replacingOccurrences(of: "webdav+", with: "")
    let before = ProcessInfo.processInfo.environment["SSL_CERT_FILE"]
    defer { if let before { setenv("SSL_CERT_FILE", before, 1) } else { unsetenv("SSL_CERT_FILE") } }
    setenv("SSL_CERT_FILE", server.values["SSL_CERT_FILE"] ?? "", 1)
    let request = HTTPRequest("OPTIONS", url, what: "ask")
    XCTAssertEqual(try HTTPClient().send(request, CallContext()).status, 200)
    let other = HTTPRequest("OPTIONS", url.replacingOccurrences(of: "localhost", with: "127.0.0.1"), what: "ask")
    assertCode(.unreachable) { _ = try HTTPClient().send(other, CallContext()) }
    setenv("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt", 1)
    assertCode(.unreachable) { _ = try HTTPClient().send(request, CallContext()) }
  }

  func testAProxyOfTheEnvironmentIsUsed() throws {
    let silent = try SilentServer()
    setenv("http_proxy", "http://127.0.0.1:\(silent.port)", 1)
    defer { unsetenv("http_proxy") }
    let request = HTTPRequest("GET", "http://no.such.host.invalid/", what: "get")
    assertCode(.timedOut) { _ = try HTTPClient().send(request, CallContext(timeout: 0.2)) }
    XCTAssertGreaterThan(silent.connections, 0, "nobody asked the proxy")
  }

  func testWaitsThatTheServerAsksFor() {
    func wait(_ text: String) -> Double? { HTTPResponse(status: 503, headers: ["retry-after": text]).retryAfter }
    XCTAssertEqual(wait("5"), 5)
    XCTAssertEqual(wait("-5"), 0)
    XCTAssertEqual(wait("Wed, 21 Oct 2015 07:28:00 GMT"), 60)
    XCTAssertEqual(wait("nan"), 60)
    XCTAssertNil(HTTPResponse(status: 503).retryAfter)
    XCTAssertEqual(HTTPResponse(status: 503, headers: ["retry-after": "7"]).error("it").retryAfter, 7)
  }

  func testPercentEncoding() {
    XCTAssertEqual(percentEncoded(path: Array("a b/ü+~".utf8) + [0xff]), "a%20b/%C3%BC%2B~%FF")
    XCTAssertEqual(percentEncoded("a/b"), "a%2Fb")
    XCTAssertEqual(percentDecoded(Array("a%20b%fF".utf8)), Array("a b".utf8) + [0xff])
    for text in ["%", "%2", "%2x", "%+1"] { XCTAssertNil(percentDecoded(Array(text.utf8)), text) }
  }
}

/// The same block again and again; holds it once.
private struct RepeatingSource: UploadSource {
  let block: [UInt8]
  let count: Int
  var size: Int64 { Int64(block.count * count) }
  var sha256: [UInt8]? { nil }
  func isStillCurrent() -> Bool { true }
  func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ContainerError) -> Int {
    let start = Int(offset % Int64(block.count))
    let piece = block[start...].prefix(Int(clamping: min(Int64(buffer.count), size - offset)))
    buffer.copyBytes(from: piece)
    return piece.count
  }
}

/// Listens, and says nothing.
private final class SilentServer: Sendable {
  let port: UInt16
  private let descriptor: Int32

  init() throws {
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let descriptor = descriptor
    try withUnsafeMutablePointer(to: &address) { pointer in
      try pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        guard bind(descriptor, pointer, length) == 0, listen(descriptor, 8) == 0,
          getsockname(descriptor, pointer, &length) == 0
        else { throw POSIXError(.EIO) }
      }
    }
    port = UInt16(bigEndian: address.sin_port)
  }

  deinit { close(descriptor) }

  /// Those that nobody has accepted yet.
  var connections: Int {
    var ready = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return Int(poll(&ready, 1, 0))
  }
}
