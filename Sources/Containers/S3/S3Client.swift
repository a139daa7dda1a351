import Glibc

/// Signed requests to one bucket, and what their failures mean.
final class S3Client: Sendable {
  struct Request {
    var method: String
    /// nil: the bucket itself.
    var key: [UInt8]?
    var query: [(String, String)] = []
    /// `x-amz-…` headers are signed; others are only sent.
    var headers: [(name: String, value: String)] = []
    var body: HTTPRequest.Body = .none
    /// The body's SHA-256, where a source does not tell it.
    var payload: String?
    var what: String
  }

  let address: S3Address
  private let http = HTTPClient()
  private let settings: @Sendable () -> AWSSettings
  private let state: Guarded<State>

  private struct State {
    var credentials: S3Credentials?
    /// Seconds that the server's clock is ahead of ours.
    var skew = 0
  }

  init(_ address: S3Address, settings: @escaping @Sendable () -> AWSSettings) {
    self.address = address
    self.settings = settings
    state = Guarded(State(credentials: settings().credentials))
  }

  // MARK: - Sending

  /// The reply, success or not; statuses that no caller makes something of are thrown by `failure`.
  func send(_ request: Request, _ call: CallContext, limit: Int = 1 << 20) throws(ContainerError) -> HTTPResponse {
    try again(request, call) { signed throws(ContainerError) in try http.send(signed, call, limit: limit) }
  }

  func stream(
    _ request: Request, _ call: CallContext, accepts: (HTTPResponse) throws(ContainerError) -> Bool,
    sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) -> HTTPResponse {
    try again(request, call) { signed throws(ContainerError) in
      try http.stream(signed, call, accepts: accepts, sink: sink)
    }
  }

  /// As `send`; what is no success is thrown.
  @discardableResult
  func require(_ request: Request, _ call: CallContext, limit: Int = 1 << 20) throws(ContainerError) -> HTTPResponse {
    let response = try send(request, call, limit: limit)
    guard response.isSuccess else { throw failure(response, request.what) }
    return response
  }

  /// A clock that differs from the server's and credentials that were renewed meanwhile are put right, once.
  private func again(
    _ request: Request, _ call: CallContext, _ body: (HTTPRequest) throws(ContainerError) -> HTTPResponse
  ) throws(ContainerError) -> HTTPResponse {
    let response = try body(try signed(request))
    guard response.status == 403 || response.status == 400, learn(from: response) else { return response }
    return try body(try signed(request))
  }

  private func learn(from response: HTTPResponse) -> Bool {
    // HEAD has no body that says why.
    let code = S3Failure(response.body).code
    if ["RequestTimeTooSkewed", ""].contains(code), let there = response["date"].flatMap(seconds(ofHTTPDate:)) {
      let skew = there - Int(time(nil))
      let isNew = state.withLock { state in
        // Also back, when the clock was set meanwhile.
        guard abs(skew - state.skew) > 60 else { return false }
        state.skew = skew
        return true
      }
      if isNew { return true }
    }
    // The key and its secret may have been read while they were written.
    let stale = [
      "ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidToken", "TokenRefreshRequired",
      "SignatureDoesNotMatch", "",
    ]
    guard stale.contains(code), let renewed = settings().credentials else { return false }
    return state.withLock { state in
      guard renewed != state.credentials else { return false }
      state.credentials = renewed
      return true
    }
  }

  /// Once there are any, they are looked for again only when the store refuses them.
  private func currentCredentials(_ what: String) throws(ContainerError) -> S3Credentials {
    if let known = state.withLock({ $0.credentials }) { return known }
    let settings = settings()
    guard let found = settings.credentials else {
      throw ContainerError(.permissionDenied, "\(what): no credentials; \(settings.mend)")
    }
    state.withLock { $0.credentials = found }
    return found
  }

  private func signed(_ request: Request) throws(ContainerError) -> HTTPRequest {
    let credentials = try currentCredentials(request.what)
    let skew = state.withLock { $0.skew }
    let path = address.path(request.key)
    let query = request.query.map { (percentEncoded($0), percentEncoded($1)) }.sorted { $0 < $1 }
      .map { "\($0)=\($1)" }.joined(separator: "&")
    let signer = S3Signer(credentials: credentials, region: address.region, time: Int(time(nil)) + skew)
    let isSigned: (String) -> Bool = { $0.lowercased().hasPrefix("x-amz-") }
    let headers = signer.sign(
      method: request.method, host: address.host, path: path, query: query,
      headers: request.headers.filter { isSigned($0.name) }, payload: payload(request))
    var http = HTTPRequest(
      request.method, "\(address.scheme)://\(address.host)\(path)" + (query.isEmpty ? "" : "?\(query)"),
      what: request.what, headers: headers + request.headers.filter { !isSigned($0.name) })
    http.body = request.body
    return http
  }

  private func payload(_ request: Request) -> String {
    if let payload = request.payload { return payload }
    switch request.body {
    case .none: return S3Signer.emptyPayload
    case .bytes(let bytes): return hex(Digest.of(bytes))
    case .source(let source, let range):
      guard range == 0..<source.size, let digest = source.sha256 else { return S3Signer.unsignedPayload }
      return hex(digest)
    }
  }

  // MARK: - Failures

  /// What a reply that is no success means.
  func failure(_ response: HTTPResponse, _ what: String) -> ContainerError {
    let described = S3Failure(response.body)
    let code = described.code
    let origin = state.withLock { $0.credentials?.origin } ?? ""
    func error(_ meaning: ContainerError.Code, _ why: String) -> ContainerError {
      ContainerError(meaning, "\(what): \(why)", retryAfter: response.retryAfter)
    }
    switch code {
    case "NoSuchBucket":
      return error(.unreachable, "there is no bucket \(address.bucket) at \(address.endpoint); check its name")
    case "InvalidAccessKeyId":
      return error(.permissionDenied, "\(address.endpoint) does not know the access key; check \(origin)")
    case "SignatureDoesNotMatch":
      return error(.permissionDenied, "the secret key does not fit the access key; check \(origin)")
    case "ExpiredToken", "ExpiredTokenException", "InvalidToken", "TokenRefreshRequired":
      return error(.permissionDenied, "the credentials have expired; renew \(origin)")
    case "RequestTimeTooSkewed": return error(.permissionDenied, "this machine's clock is wrong; set it")
    case "AccessDenied": return error(.permissionDenied, "the access key may not do this; ask the bucket's owner")
    case "PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
      return elsewhere(described.region ?? response["x-amz-bucket-region"], described.endpoint, what)
    case "SlowDown", "InternalError", "ServiceUnavailable", "OperationAborted", "RequestTimeout",
      "ConditionalRequestConflict":
      return error(.busy, "the server wants to be asked later (\(code))")
    case "BadDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "InvalidDigest", "IncompleteBody":
      return error(.inconsistent, "its bytes were altered on their way (\(code))")
    case "EntityTooLarge", "KeyTooLongError", "XMinioInvalidObjectName", "MetadataTooLarge":
      return error(.notRepresentable, "the store cannot hold it (\(code))")
    case "QuotaExceeded", "InsufficientStorage", "XMinioAdminBucketQuotaExceeded", "XMinioStorageFull":
      return error(.outOfSpace, "no room is left (\(code))")
    case "NoSuchKey", "NoSuchUpload": return error(.notFound, "not found")
    case "PreconditionFailed": return error(.preconditionFailed, "it was changed by somebody else")
    // HEAD has no body that says so.
    case "" where [301, 400].contains(response.status) && response["x-amz-bucket-region"] != nil:
      return elsewhere(response["x-amz-bucket-region"], nil, what)
    case "": return response.error(what)
    default:
      let plain = response.error(what)
      return error(plain.code, "the store refuses it (\(code), HTTP \(response.status))")
    }
  }
}

extension S3Client {
  /// The bucket is in another region or at another endpoint, as far as the store tells.
  private func elsewhere(_ region: String?, _ endpoint: String?, _ what: String) -> ContainerError {
    let mend =
      if let region, region != address.region { "write region=\(region)" } else if let endpoint {
        "write endpoint=\(address.scheme)://\(endpoint)"
      } else { "check region= and endpoint=" }
    return ContainerError(
      .unreachable, "\(what): the bucket is not in region \(address.region) of \(address.endpoint); \(mend)")
  }
}

/// The error that an S3 store describes in a reply's body; code "" when it is none.
struct S3Failure {
  private(set) var code = ""
  /// Where the bucket is, as the store tells it with some errors.
  private(set) var region: String?
  private(set) var endpoint: String?

  init(_ body: [UInt8]) {
    guard !body.isEmpty, let events = try? XMLReader.read(body, "") else { return }
    guard case .start(let root) = events.first, localName(root) == "Error" else { return }
    for case .end(let name, let text) in events {
      switch localName(name) {
      case "Code": if code.isEmpty { code = Self.plain(text, and: "") }
      case "Region": region = Self.plain(text, and: "-")
      case "Endpoint": endpoint = Self.plain(text, and: "-.:")
      default: break
      }
    }
  }

  /// For messages: letters, digits and `others`.
  private static func plain(_ text: String, and others: String) -> String {
    String(text.filter { $0.isASCII && ($0.isLetter || $0.isNumber) || others.contains($0) }.prefix(128))
  }
}

/// A name without its namespace, which not all stores give.
func localName(_ name: String) -> Substring {
  // By bytes: a listing has eight thousand names, and characters are slow.
  name.utf8.lastIndex(of: UInt8(ascii: "|")).map { name[name.utf8.index(after: $0)...] } ?? name[...]
}
