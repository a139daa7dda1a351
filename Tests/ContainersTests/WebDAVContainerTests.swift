import TestSupport
import XCTest

@testable import Containers

/// A fresh folder of a real server.
struct DAVPlace: Sendable {
  let address: DAVAddress

  /// `area`: a folder of the server's that wants a password.
  init(_ kind: CloudServer.Kind, area: String? = nil, _ credentials: DAVCredentials? = nil) throws {
    let server = try CloudServer.shared(kind)
    let name = (area.map { $0 + "/" } ?? "") + "t-\(ContainerID.random().text.prefix(12))"
    guard case .webdav(let address) = try ContainerURL(server.container(name)).place else {
      throw XCTSkip("no WebDAV URL")
    }
    self.address = address
    let client = DAVClient(address, credentials)
    let made = try client.send(client.request("MKCOL", .root, isFolder: true, "make"), CallContext())
    XCTAssert(made.isSuccess, "MKCOL: \(made.status)")
  }

  func open(_ credentials: DAVCredentials? = nil) -> WebDAVContainer {
    WebDAVContainer(address, credentials: credentials)
  }
}

final class WebDAVContractTests: XCTestCase {
  func testLighttpd() throws { try run(.webdav, longestName: 240) }
  func testApache() throws { try run(.apache) }

  private func run(_ kind: CloudServer.Kind, longestName: Int = 255) throws {
    _ = try DAVPlace(kind)
    ContainerContract(holdsAnyBytes: false, longestName: longestName) {
      let place = try DAVPlace(kind)
      return .init(LinkFileContainer(place.open()), other: LinkFileContainer(place.open()))
    }.run()
  }
}

/// What is WebDAV's own, on real servers.
final class WebDAVServerTests: XCTestCase {
  func testTheServersAreTriedOut() throws {
    let lighttpd = try DAVPlace(.webdav).open().rules(CallContext())
    XCTAssert(lighttpd.tellsVersion && lighttpd.keepsAbsent && lighttpd.keepsVersion && lighttpd.holdsProperties)
    let apache = try DAVPlace(.apache).open().rules(CallContext())
    XCTAssert(apache.hasLocks && apache.holdsProperties)
    XCTAssert(lighttpd.publishesWhole && apache.publishesWhole)
    let wsgidav = try DAVPlace(.wsgidav).open().rules(CallContext())
    XCTAssert(wsgidav.hasLocks && !wsgidav.publishesWhole)
  }

  func testAttributesOfAnOlderVersionAreNotTakenForThoseOfANewerOne() throws {
    for kind in [CloudServer.Kind.webdav, .apache] {
      let place = try DAVPlace(kind)
      let container = place.open()
      let old = Timestamp(nanoseconds: 1_234_567_890_123_456_789)
      _ = try container.put(
        path("a"), from: BytesSource("one"), attributes: .init(mode: 0o600, mtime: old), if: .absent, CallContext())
      XCTAssertEqual(try container.item(at: path("a"), CallContext())?.attributes, .init(mode: 0o600, mtime: old))
      // Somebody else's program, which knows nothing of them.
      var request = container.client.request("PUT", path("a"), "put")
      request.body = .bytes(Array("another".utf8))
      XCTAssert(try container.client.send(request, CallContext()).isSuccess)
      let now = try XCTUnwrap(container.item(at: path("a"), CallContext())).attributes
      XCTAssertNil(now.mode)
      XCTAssertNotEqual(now.mtime, old)
    }
  }

  func testAttributesGoWithAMove() throws {
    for kind in [CloudServer.Kind.webdav, .apache] {
      let container = try DAVPlace(kind).open()
      let attributes = RemoteAttributes(mode: 0o600, mtime: Timestamp(nanoseconds: 1_234_567_890_123_456_789))
      let a = try container.put(
        path("a"), from: BytesSource("one"), attributes: attributes, if: .absent, CallContext())
      let b = try container.rename(path("a"), to: path("b"), version: a.version, CallContext())
      XCTAssertEqual(b.attributes, attributes)
      XCTAssertEqual(try container.list(.root, CallContext()), [b])
    }
  }

  func testAFolderThatIsNotEmptyAfterAllIsBroughtBack() throws {
    let container = try DAVPlace(.webdav).open()
    _ = try container.makeFolder(path("d"), attributes: .init(), CallContext())
    try container.put(path("d/a"), "x")
    assertCode(.notEmpty) { try container.remove(path("d"), kind: .folder, version: nil, CallContext()) }
    XCTAssertEqual(try container.current(path("d/a"))?.bytes, Array("x".utf8))
  }

  func testALargeFileComesBackWhole() throws {
    for kind in [CloudServer.Kind.webdav, .apache] {
      let container = try DAVPlace(kind).open()
      var random = SeededRandom(5)
      let block = random.bytes(100_000)
      let bytes = (0..<200).flatMap { _ in block }
      let item = try container.put(
        path("a"), from: BytesSource(bytes), attributes: .init(), if: .absent, CallContext())
      XCTAssert(try container.contents(path("a"), item) == bytes)
      XCTAssert(
        try container.contents(path("a"), item, 12_345_678..<13_000_000) == Array(bytes[12_345_678..<13_000_000]))
    }
  }

  /// On a server whose own uploads would leave a half file in the place of a whole one.
  func testAnUploadThatBreaksOffLeavesWhatWasThere() throws {
    for kind in [CloudServer.Kind.wsgidav, .webdav, .apache] {
      let container = try DAVPlace(kind).open()
      let one = try container.put(path("a"), "one")
      let bytes = [UInt8](repeating: 7, count: 300_000)
      for (place, condition) in [("a", Precondition.version(one.version)), ("b", .absent)] {
        let source = FaultingContainer(container)
        source.conditions.truncate = 100_000
        XCTAssertThrowsError(
          try source.put(path(place), from: BytesSource(bytes), attributes: .init(), if: condition, CallContext()))
      }
      XCTAssertEqual(try container.current(path("a"))?.bytes, Array("one".utf8), "\(kind)")
      XCTAssertNil(try container.item(at: path("b"), CallContext()), "\(kind)")
      let two = try container.put(
        path("a"), from: BytesSource(bytes), attributes: .init(mode: 0o600), if: .version(one.version), CallContext())
      XCTAssertEqual(two.attributes.mode, 0o600)
      XCTAssert(try container.contents(path("a"), two) == bytes)
      var left: [String] = []
      _ = try container.find(container.hidden, isFolder: true, depth: 1, "look", CallContext()) { resource in
        left.append(String(decoding: resource.names.last ?? [], as: UTF8.self))
      }
      XCTAssertEqual(left.filter { $0.hasPrefix("upload-") || $0.hasPrefix("probe-") }, [], "\(kind)")
    }
  }

  func testALockOfSomebodyElseIsWaitedForAndNoLonger() throws {
    let container = try DAVPlace(.apache).open()
    let one = try container.put(path("a"), "one")
    _ = try container.rules(CallContext())
    try container.withLock(path("a"), "lock", CallContext()) { _ throws(ContainerError) in
      assertCode(.timedOut) {
        _ = try container.put(
          path("a"), from: BytesSource("two"), attributes: .init(), if: .version(one.version),
          CallContext(timeout: 0.3))
      }
    }
    try container.put(path("a"), "two", if: .version(one.version))
  }

  // MARK: - Passwords

  func testPasswordsAreGivenAsTheServerWantsThem() throws {
    for area in ["basic", "digest"] {
      let right = DAVCredentials(user: "docsfs", password: "secret")
      let place = try DAVPlace(.apache, area: area, right)
      let container = place.open(right)
      let id = try container.identify(create: true, CallContext())
      let bytes = [UInt8](repeating: 7, count: 3 << 20)
      let item = try container.put(
        path("a"), from: BytesSource(bytes), attributes: .init(), if: .absent, CallContext())
      XCTAssert(try container.contents(path("a"), item) == bytes)
      for (wrong, word) in [
        (DAVCredentials(user: "docsfs", password: "hunter2"), "refuses the user or the password"), (nil, "netrc"),
      ] {
        do throws(ContainerError) {
          _ = try place.open(wrong).identify(create: false, CallContext())
          XCTFail("\(area): no password was needed")
        } catch {
          XCTAssertEqual(error.code, .permissionDenied)
          XCTAssert(error.message.contains(word), error.message)
          XCTAssertFalse(error.message.contains("hunter2"))
        }
      }
      XCTAssertEqual(try place.open(right).identify(create: false, CallContext()), id)
    }
  }

  func testCredentialsAreWhereNetrcKeepsThem() {
    let text = """
      # a comment machine x login y
      machine one.example login me password "se cret
      machine two.example
        login you
        password pass
      default login any password one
      machine late.example login never password seen
      """
    XCTAssertEqual(DAVCredentials.netrc(text, host: "two.example"), DAVCredentials(user: "you", password: "pass"))
    XCTAssertEqual(DAVCredentials.netrc(text, host: "one.example")?.user, "me")
    XCTAssertEqual(DAVCredentials.netrc(text, host: "late.example"), DAVCredentials(user: "any", password: "one"))
    XCTAssertNil(DAVCredentials.netrc("machine a login b password c", host: "d"))
    XCTAssertEqual(
      DAVCredentials.find(host: "h") { ["DOCSFS_WEBDAV_TOKEN": "t"][$0] },
      DAVCredentials(token: "t", origin: "DOCSFS_WEBDAV_TOKEN"))
  }

  // MARK: - What goes wrong at the beginning

  func testMistakesAreNamedWithTheirMend() throws {
    let apache = try CloudServer.shared(.apache)
    let tls = try XCTUnwrap(apache.values["tls"])
    let s3 = try CloudServer.shared(.s3)
    let store = s3.container.components(separatedBy: "endpoint=")[1].components(separatedBy: "&")[0]
    for (url, word) in [
      ("webdav+http://127.0.0.1:1/", "127.0.0.1:1"), (apache.container("none"), "make it first"),
      (tls.replacingOccurrences(of: "https", with: "http"), "is it an https address?"), (tls, "SSL_CERT_FILE"),
      (apache.container.replacingOccurrences(of: "http", with: "https"), "TLS"), ("webdav+\(store)/x", "127.0.0.1"),
    ] {
      do throws(ContainerError) {
        guard case .webdav(let address) = (try? ContainerURL(url))?.place else { return XCTFail(url) }
        _ = try WebDAVContainer(address, credentials: nil).identify(create: true, CallContext(timeout: 20))
        XCTFail("\(url) was opened")
      } catch {
        XCTAssert(error.message.contains(word), "\(url): \(error.message)")
      }
    }
  }

  // MARK: - Replies

  private func resources(_ text: String) throws -> [DAVResource] {
    let found = Guarded<[DAVResource]>([])
    var reply = try DAVMultistatus("list") { resource in found.withLock { $0.append(resource) } }
    try Array(text.utf8).give { piece throws(ContainerError) in try reply.feed(piece) }
    try reply.finish()
    return found.withLock { $0 }
  }

  func testAReplyIsReadWhateverItsPrefixes() throws {
    let found = try resources(
      """
      <?xml version="1.0"?><D:multistatus xmlns:D="DAV:"><D:response><D:href>http://h:1/a%20b/%C3%BC/</D:href>
      <D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status>
      </D:propstat><D:propstat><D:prop><D:getcontentlength>9</D:getcontentlength></D:prop>
      <D:status>HTTP/1.1 404 Not Found</D:status></D:propstat></D:response>
      <response xmlns="DAV:"><href>/f</href><propstat><prop><getcontentlength>5</getcontentlength>
      <getetag>W/"e"</getetag></prop><status>HTTP/1.1 200 OK</status></propstat></response>
      <D:response><D:href>/gone</D:href><D:status>HTTP/1.1 404 Not Found</D:status></D:response></D:multistatus>
      """)
    XCTAssertEqual(found.count, 2)
    XCTAssertEqual(found[0].names, [Array("a b".utf8), Array("ü".utf8)])
    XCTAssert(found[0].isFolder)
    XCTAssertNil(found[0].size)
    XCTAssertEqual(found[1].size, 5)
    XCTAssertEqual(found[1].etag, "e")
    XCTAssert(found[1].isWeak)
  }

  func testAReplyThatIsCutShortIsAnError() {
    let whole = "<multistatus xmlns=\"DAV:\"><response><href>/a</href></response></multistatus>"
    for end in 0..<whole.utf8.count {
      assertCode(.inconsistent) { _ = try resources(String(whole.prefix(end))) }
    }
    assertCode(.inconsistent) { _ = try resources("<html/>") }
    XCTAssertEqual(DAVMultistatus.names("/a%2/b"), [[0x2f], [0x62]], "what is badly encoded is no name")
    XCTAssertEqual(DAVMultistatus.names("/a%2Fb"), [Array("a/b".utf8)], "nor is what hides a slash")
  }
}
