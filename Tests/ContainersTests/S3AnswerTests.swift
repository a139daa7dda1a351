import TestSupport
import XCTest

@testable import Containers

/// What no store here can be brought to say: a server of the test's says it, or hands on to moto.
final class S3AnswerTests: XCTestCase {
  private static func error(_ code: String, _ more: String = "") -> String {
    "<?xml version=\"1.0\"?><Error><Code>\(code)</Code>\(more)<Message>none of anybody's business</Message></Error>"
  }

  private func container(
    _ server: ScriptedServer, _ path: String = "docsfs/p", limits: S3Limits = S3Limits(),
    _ settings: @escaping @Sendable () -> AWSSettings = {
      AWSSettings { ["AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hunter2"][$0] }
    }
  ) throws -> S3Container {
    let url = try ContainerURL("s3://\(path)?endpoint=\(server.url)&region=us-east-1&path_style=1")
    guard case .s3(let address, _) = url.place else { throw XCTSkip("no S3 URL") }
    return S3Container(address, limits: limits, settings: settings)
  }

  private static func port(_ server: CloudServer) -> UInt16 {
    UInt16(server.container.components(separatedBy: "127.0.0.1:")[1].prefix { $0.isNumber }) ?? 0
  }

  // MARK: - Listings

  private static func page(_ keys: [String], next: String?) -> String {
    let objects = keys.map {
      "<Contents><Key>\($0)</Key><Size>1</Size><ETag>e</ETag><LastModified>2026-11-30T00:00:00Z</LastModified></Contents>"
    }
    return "<ListBucketResult>\(objects.joined())<IsTruncated>\(next != nil)</IsTruncated>"
      + (next.map { "<NextContinuationToken>\($0)</NextContinuationToken>" } ?? "") + "</ListBucketResult>"
  }

  /// Lists pages that `page` makes of their numbers and the token that asks for them.
  private func list(
    _ call: CallContext = CallContext(), _ page: @escaping @Sendable (Int, String?) -> String
  ) throws -> (error: ContainerError?, pages: Int) {
    let asked = Guarded(0)
    let server = try ScriptedServer { request in
      let token = request.path.components(separatedBy: "continuation-token=").dropFirst().first
      let number = asked.withLock { asked in
        defer { asked += 1 }
        return asked
      }
      return .reply(200, body: page(number, token.map { String($0.prefix { $0 != "&" }) }))
    }
    let container = try container(server)
    do throws(ContainerError) {
      try container.eachPage(prefix: [], delimiter: false, "list", call) { _ in }
      return (nil, asked.withLock { $0 })
    } catch { return (error, asked.withLock { $0 }) }
  }

  func testListingsThatNeverEndAreErrors() throws {
    let fine = try list { number, _ in Self.page(["\(number)"], next: number < 50 ? "t\(number)" : nil) }
    XCTAssertNil(fine.error)
    XCTAssertEqual(fine.pages, 51)
    let same = try list { number, _ in Self.page(["\(number)"], next: "t") }
    XCTAssertEqual(same.error?.code, .inconsistent)
    let circle = try list { number, _ in Self.page(["\(number)"], next: "t\(number % 7)") }
    XCTAssertEqual(circle.error?.code, .inconsistent)
    // A store that does not look at the token.
    let first = try list { number, _ in Self.page(["a", "b"], next: "t\(number)") }
    XCTAssertEqual(first.error?.code, .inconsistent)
    for endless in [same, circle, first] { XCTAssertLessThan(endless.pages, 40) }
    let empty = try list(CallContext(timeout: 1)) { number, _ in Self.page([], next: "t\(number)") }
    XCTAssertEqual(empty.error?.code, .timedOut)
  }

  func testAPageOfFarMoreThanWasAskedForIsRefused() throws {
    let large = Self.page((0..<20_000).map { "key-\($0)" }, next: nil)
    XCTAssertEqual(try list { _, _ in large }.error?.code, .inconsistent)
    let huge = "<ListBucketResult>" + String(repeating: "<a/>", count: 5 << 20)
    XCTAssertEqual(try list { _, _ in huge }.error?.code, .inconsistent)
  }

  // MARK: - Elsewhere

  func testTheStoresWordOnWhereABucketIsIsPassedOn() throws {
    let malformed = Self.error("AuthorizationHeaderMalformed", "<Region>eu-west-3</Region>")
    let moved = Self.error("PermanentRedirect", "<Endpoint>b.s3.eu-west-3.example.org</Endpoint>")
    for (status, headers, body, word) in [
      (400, [:], malformed, "write region=eu-west-3"),
      (301, ["x-amz-bucket-region": "eu-west-3"], Self.error("PermanentRedirect"), "write region=eu-west-3"),
      (301, [:], moved, "write endpoint=http://b.s3.eu-west-3.example.org"),
      (301, ["x-amz-bucket-region": "eu-west-3"], "", "write region=eu-west-3"),
      (301, [:], Self.error("PermanentRedirect"), "check region= and endpoint="),
    ] {
      let server = try ScriptedServer { _ in .reply(status, headers: headers, body: body) }
      let container = try container(server)
      do throws(ContainerError) {
        _ = try container.identify(create: true, CallContext(timeout: 20))
        XCTFail("it was opened")
      } catch {
        XCTAssertEqual(error.code, .unreachable)
        XCTAssert(error.message.hasSuffix(word), error.message)
      }
    }
  }

  // MARK: - Clocks

  private static func httpDate(_ seconds: Int) -> String {
    var (time, parts) = (time_t(seconds), tm())
    gmtime_r(&time, &parts)
    var text = [CChar](repeating: 0, count: 64)
    strftime(&text, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// `20261130T184605Z`.
  private static func signingTime(_ text: String) -> Int {
    let digits = text.filter(\.isNumber)
    let parts = [4, 2, 2, 2, 2, 2].reduce(into: (rest: digits[...], words: [Substring]())) { state, count in
      state.words.append(state.rest.prefix(count))
      state.rest = state.rest.dropFirst(count)
    }.words
    return seconds(
      ofISODate: parts.prefix(3).joined(separator: "-") + "T" + parts.suffix(3).joined(separator: ":") + "Z")
      ?? 0
  }

  func testADifferenceOfClocksIsFollowedThereAndBack() throws {
    let ahead = Guarded(0)
    let server = try ScriptedServer { request in
      let now = Int(time(nil)) + ahead.withLock { $0 }
      let date = ["Date": Self.httpDate(now)]
      guard abs(Self.signingTime(request.headers["x-amz-date"] ?? "") - now) < 900 else {
        return .reply(403, headers: date, body: request.method == "HEAD" ? "" : Self.error("RequestTimeTooSkewed"))
      }
      return .reply(200, headers: date.merging(["ETag": "\"e\""]) { $1 }, body: "x")
    }
    let container = try container(server)
    for hours in [0, 1, -5, 0] {
      ahead.withLock { $0 = hours * 3_600 }
      XCTAssertNotNil(try container.head(path("a"), "look", CallContext()), "\(hours) h")
      XCTAssertEqual(
        try container.client.require(.init(method: "GET", key: [0x61], what: "get"), CallContext()).body, [0x78])
    }
  }

  // MARK: - Credentials

  func testRefreshedCredentialsAreReadWithoutBeingAsked() throws {
    let moto = try CloudServer.shared(.moto)
    let valid = Guarded("first")
    let port = Self.port(moto)
    let server = try ScriptedServer { request in
      if request.headers["x-amz-security-token"] == valid.withLock({ $0 }) { return .forward(port) }
      return .reply(400, body: request.method == "HEAD" ? "" : Self.error("ExpiredToken"))
    }
    let home = try TemporaryFolder()
    try FileManager.default.createDirectory(atPath: home.path + "/.aws", withIntermediateDirectories: true)
    func write(_ token: String) throws {
      try "[work]\naws_access_key_id = key\naws_secret_access_key = hunter2\naws_session_token = \(token)\n".write(
        toFile: home.path + "/.aws/credentials", atomically: true, encoding: .utf8)
    }
    let values = ["HOME": home.path, "AWS_PROFILE": "work"]
    let container = try container(server, "docsfs/t-\(ContainerID.random().text.prefix(12))") {
      AWSSettings { values[$0] }
    }
    do throws(ContainerError) {
      _ = try container.identify(create: true, CallContext())
      XCTFail("without credentials")
    } catch { XCTAssert(error.message.contains("the profile work"), error.message) }
    try write("first")
    _ = try container.identify(create: true, CallContext())
    try container.put(path("a"), "one")
    for token in ["second", "third", "fourth"] {
      valid.withLock { $0 = token }
      do throws(ContainerError) {
        _ = try container.list(.root, CallContext())
        XCTFail("with expired credentials")
      } catch {
        XCTAssertEqual(error.code, .permissionDenied)
        XCTAssert(error.message.hasSuffix("renew the profile work in ~/.aws/credentials"), error.message)
        XCTAssertFalse(error.message.contains("hunter2"))
      }
      try write(token)
      // Each kind of call is as good as another to notice by: one with a body, one without, one whose reply has none.
      switch token {
      case "second": try container.put(path(token), "two")
      case "third": XCTAssertNotNil(try container.head(path("a"), "look", CallContext()))
      default: XCTAssertEqual(try container.list(.root, CallContext()).count, 2)
      }
    }
  }

  // MARK: - Copies

  func testAStoreThatCopiesNoPartsCopiesTheWhole() throws {
    let moto = try CloudServer.shared(.moto)
    let port = Self.port(moto)
    let refused = Guarded(0)
    let server = try ScriptedServer { request in
      guard request.headers["x-amz-copy-source-range"] != nil else { return .forward(port) }
      refused.withLock { $0 += 1 }
      return .reply(501, body: Self.error("NotImplemented"))
    }
    let small = S3Limits(wholeCopy: 6 << 20, leastPart: 5 << 20)
    let container = try container(server, "docsfs/t-\(ContainerID.random().text.prefix(12))", limits: small)
    _ = try container.identify(create: true, CallContext())
    let bytes = [UInt8](repeating: 7, count: 7 << 20)
    let item = try container.put(
      path("a"), from: BytesSource(bytes), attributes: .init(mode: 0o600), if: .absent, CallContext())
    let moved = try container.rename(path("a"), to: path("b"), version: item.version, CallContext())
    XCTAssertGreaterThan(refused.withLock { $0 }, 0)
    XCTAssertEqual(moved.attributes, item.attributes)
    XCTAssert(try container.contents(path("b"), moved) == bytes)
    XCTAssertNil(try container.head(path("a"), "look", CallContext()))
  }

  /// Where the store encrypts with keys of its own, other ETags are not other bytes.
  func testACopyThatIsEncryptedOtherwiseIsNotTakenForAltered() throws {
    let server = try ScriptedServer { request in
      let sealed = ["x-amz-server-side-encryption": "aws:kms"]
      return .reply(
        200, headers: sealed,
        body: "<CopyObjectResult><ETag>\(String(repeating: "b", count: 32))</ETag></CopyObjectResult>")
    }
    let container = try container(server)
    container.known.withLock {
      $0.etagsAreMD5 = true
      $0.rules = S3Rules(keepsAbsent: true, keepsVersion: true, copiesKeepAbsent: true)
    }
    let source = S3Page.Object(key: [0x61], size: 1, etag: String(repeating: "a", count: 32))
    let etag = try container.copy(source, to: [0x62], if: .absent, "copy", CallContext())
    let copy = S3Copy(source: source, target: [0x62], etag: etag)
    XCTAssert(try container.isWhole(copy, .init(key: [0x62], size: 1, etag: etag), "copy", CallContext()))
  }

  // MARK: - Many removals

  /// What the request for many does not do is done one by one, and what it says that it did is not done again.
  func testWhatManyRemovalsLeaveIsDoneOneByOne() throws {
    let moto = try CloudServer.shared(.moto)
    let port = Self.port(moto)
    let answer = Guarded<(Int, String)>((501, ""))
    let server = try ScriptedServer { request in
      guard request.method == "POST", request.path.contains("delete") else { return .forward(port) }
      let (status, body) = answer.withLock { $0 }
      return .reply(status, body: body)
    }
    let prefix = "t-\(ContainerID.random().text.prefix(12))"
    let container = try container(server, "docsfs/\(prefix)")
    _ = try container.identify(create: true, CallContext())
    XCTAssertEqual(try container.rules(CallContext()).manyDeletes, .none)
    container.known.withLock { $0.rules?.manyDeletes = .thatVersion }
    for (status, body, left) in [
      (501, "", []), (400, Self.error("MalformedXML"), []),
      (
        200,
        """
        <DeleteResult><Deleted><Key>\(prefix)/a</Key></Deleted>
        <Error><Key>\(prefix)/b</Key><Code>PreconditionFailed</Code></Error>
        <Error><Key>\(prefix)/c</Key><Code>InternalError</Code></Error>
        <Error><Key>\(prefix)/d</Key><Code>AccessDenied</Code></Error></DeleteResult>
        """, ["a", "b"]
      ),
    ] as [(Int, String, [String])] {
      answer.withLock { $0 = (status, body) }
      var objects: [S3Page.Object] = []
      for name in ["a", "b", "c", "d", "e"] {
        let item = try container.put(path(name), name)
        let etag = String(decoding: item.version.bytes, as: UTF8.self)
        objects.append(.init(key: container.address.key(path(name)), size: 1, etag: etag))
      }
      try container.delete(objects, "delete", CallContext())
      XCTAssertEqual(try container.list(.root, CallContext()).map(\.name.description).sorted(), left, "\(status)")
    }
    answer.withLock { $0 = (503, Self.error("SlowDown")) }
    let items = try container.list(.root, CallContext()).map {
      S3Page.Object(
        key: container.address.key(path($0.name.description)), size: 1,
        etag: String(decoding: $0.version.bytes, as: UTF8.self))
    }
    assertCode(.busy) { try container.delete(items, "delete", CallContext()) }
  }
}
