/// Requests to one WebDAV server, with the credentials that it wants.
final class DAVClient: Sendable {
  let address: DAVAddress
  private let http = HTTPClient()
  private let credentials: DAVCredentials?
  /// How the server wants them; nil: it has not said.
  private let scheme = Guarded<Scheme?>(nil)
  private enum Scheme { case basic, digest }

  init(_ address: DAVAddress, _ credentials: DAVCredentials?) {
    self.address = address
    self.credentials = credentials
  }

  func request(_ method: String, _ path: ContainerPath, isFolder: Bool = false, _ what: String) -> HTTPRequest {
    HTTPRequest(method, address.server + address.path(path, isFolder: isFolder), what: what)
  }

  func send(_ request: HTTPRequest, _ call: CallContext, limit: Int = 1 << 20) throws(ContainerError) -> HTTPResponse {
    try again(request) { request throws(ContainerError) in try http.send(request, call, limit: limit) }
  }

  func stream(
    _ request: HTTPRequest, _ call: CallContext, accepts: (HTTPResponse) throws(ContainerError) -> Bool,
    sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) -> HTTPResponse {
    try again(request) { request throws(ContainerError) in
      try http.stream(request, call, accepts: accepts, sink: sink)
    }
  }

  /// Until the server has asked for credentials it gets none.
  private func again(
    _ request: HTTPRequest, _ body: (HTTPRequest) throws(ContainerError) -> HTTPResponse
  ) throws(ContainerError) -> HTTPResponse {
    var request = request
    request.credentials = known()
    let response = try body(request)
    guard response.status == 401, case .none = request.credentials, credentials != nil else { return response }
    let challenge = (response["www-authenticate"] ?? "").lowercased()
    // Digest first: its password does not travel.
    guard let offered: Scheme = challenge.contains("digest") ? .digest : challenge.contains("basic") ? .basic : nil
    else {
      return response
    }
    scheme.withLock { $0 = offered }
    request.credentials = known()
    return try body(request)
  }

  private func known() -> HTTPCredentials {
    guard let credentials else { return .none }
    if let token = credentials.token { return .bearer(token) }
    switch scheme.withLock({ $0 }) {
    case nil: return .none
    case .basic: return .basic(user: credentials.user, password: credentials.password)
    case .digest: return .digest(user: credentials.user, password: credentials.password)
    }
  }

  /// What a reply that is no success means.
  func failure(_ response: HTTPResponse, _ what: String) -> ContainerError {
    guard response.status == 401 else { return response.error(what) }
    let why =
      if let credentials {
        "\(address.server) refuses \(credentials.token == nil ? "the user or the password" : "the token"); check \(credentials.origin)"
      } else {
        "\(address.server) wants a password; write user and password for \(address.host) into ~/.netrc"
      }
    return ContainerError(.permissionDenied, "\(what): \(why)")
  }
}
