import CCurl
import Glibc

/// A libcurl handle, which keeps its connections open from request to request.
final class HTTPConnection: @unchecked Sendable {  // one thread has it at a time: who took it from the pool
  private let easy: OpaquePointer
  private let multi: OpaquePointer
  private let message: UnsafeMutablePointer<CChar>
  private var headers: UnsafeMutablePointer<curl_slist>?
  private var transfer: HTTPTransfer?

  init?() {
    guard let easy = curl_easy_init() else { return nil }
    guard let multi = curl_multi_init() else {
      curl_easy_cleanup(easy)
      return nil
    }
    self.easy = OpaquePointer(easy)
    self.multi = OpaquePointer(multi)
    message = .allocate(capacity: Int(CURL_ERROR_SIZE))
    message.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
  }

  deinit {
    curl_easy_cleanup(handle)
    curl_multi_cleanup(multiHandle)
    message.deallocate()
  }

  private var handle: UnsafeMutableRawPointer { UnsafeMutableRawPointer(easy) }
  private var multiHandle: UnsafeMutableRawPointer { UnsafeMutableRawPointer(multi) }

  // MARK: - One request

  func begin(_ request: HTTPRequest, _ transfer: HTTPTransfer) throws(ContainerError) {
    self.transfer = transfer
    message[0] = 0
    curl_easy_reset(handle)
    set(request)
    setConnection(request)
    set(request.credentials)
    set(transfer)
    guard curl_multi_add_handle(multiHandle, handle) == CURLM_OK else {
      throw ContainerError(.system(.ENOMEM), "\(request.what): no memory for the request")
    }
  }

  func end() {
    curl_multi_remove_handle(multiHandle, handle)
    curl_slist_free_all(headers)
    headers = nil
    transfer = nil
  }

  /// Sends and receives what it can now; how the request ended, when it has.
  func advance(_ what: String) throws(ContainerError) -> CURLcode? {
    var running: Int32 = 0
    guard curl_multi_perform(multiHandle, &running) == CURLM_OK else {
      throw ContainerError(.system(.EIO), "\(what): libcurl failed")
    }
    var result = CURLE_OK
    if cc_result(multiHandle, &result) == 1 { ended = result }
    return ended
  }
  private var ended: CURLcode?

  func wait(milliseconds: Int32) { curl_multi_poll(multiHandle, nil, 0, milliseconds, nil) }

  func resume(_ transfer: HTTPTransfer) {
    transfer.isPaused = false
    curl_easy_pause(handle, 0)
  }

  // MARK: - Options

  private func set(_ request: HTTPRequest) {
    ended = nil
    text(CURLOPT_URL, request.url)
    // As it is: libcurl would take `..` out of an object's key.
    number(CURLOPT_PATH_AS_IS, 1)
    text(CURLOPT_CUSTOMREQUEST, request.method)
    switch request.method {
    case "HEAD": number(CURLOPT_NOBODY, 1)
    case "PUT", "POST": upload(request.body.size)
    default: if request.body.size > 0 { upload(request.body.size) } else { number(CURLOPT_HTTPGET, 1) }
    }
    for (name, value) in request.headers { add(header: value.isEmpty ? "\(name);" : "\(name): \(value)") }
    if request.followsRedirects {
      number(CURLOPT_FOLLOWLOCATION, 1)
      number(CURLOPT_MAXREDIRS, 5)
      text(CURLOPT_REDIR_PROTOCOLS_STR, request.url.hasPrefix("https:") ? "https" : "http,https")
    }
  }

  private func upload(_ size: Int64) {
    number(CURLOPT_UPLOAD, 1)
    cc_set_offset(handle, CURLOPT_INFILESIZE_LARGE, curl_off_t(size))
    number(CURLOPT_UPLOAD_BUFFERSIZE, 256 << 10)
  }

  private func setConnection(_ request: HTTPRequest) {
    number(CURLOPT_NOSIGNAL, 1)
    // Who gives up does not wait for the thread that still asks a name server.
    number(CURLOPT_QUICK_EXIT, 1)
    text(CURLOPT_PROTOCOLS_STR, "http,https")
    number(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
    number(CURLOPT_CONNECTTIMEOUT_MS, 10_000)
    number(CURLOPT_TCP_KEEPALIVE, 1)
    number(CURLOPT_BUFFERSIZE, 128 << 10)
    text(CURLOPT_USERAGENT, "docsfs")
    number(CURLOPT_SSL_VERIFYPEER, 1)
    number(CURLOPT_SSL_VERIFYHOST, 2)
    // Where the tools of these clouds look for a certificate authority of one's own.
    let files = ["SSL_CERT_FILE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"]
    if let file = files.lazy.compactMap({ getenv($0) }).first(where: { $0.pointee != 0 }) {
      cc_set_text(handle, CURLOPT_CAINFO, file)
    }
    cc_set_pointer(handle, CURLOPT_ERRORBUFFER, message)
  }

  private func set(_ credentials: HTTPCredentials) {
    switch credentials {
    case .none: break
    case .basic(let user, let password), .digest(let user, let password):
      text(CURLOPT_USERNAME, user)
      text(CURLOPT_PASSWORD, password)
      // CURLAUTH_BASIC and CURLAUTH_DIGEST, which are macros that Swift does not import.
      if case .basic = credentials { number(CURLOPT_HTTPAUTH, 1) } else { number(CURLOPT_HTTPAUTH, 2) }
    case .bearer(let token): add(header: "Authorization: Bearer \(token)")
    }
    cc_set_pointer(handle, CURLOPT_HTTPHEADER, headers)
  }

  private func set(_ transfer: HTTPTransfer) {
    let context = Unmanaged.passUnretained(transfer).toOpaque()
    cc_set_transfer(handle, CURLOPT_WRITEFUNCTION, receive)
    cc_set_pointer(handle, CURLOPT_WRITEDATA, context)
    cc_set_transfer(handle, CURLOPT_HEADERFUNCTION, receiveHead)
    cc_set_pointer(handle, CURLOPT_HEADERDATA, context)
    cc_set_transfer(handle, CURLOPT_READFUNCTION, give)
    cc_set_pointer(handle, CURLOPT_READDATA, context)
    cc_set_seek(handle, rewind)
    cc_set_pointer(handle, CURLOPT_SEEKDATA, context)
  }

  private func number(_ option: CURLoption, _ value: Int) { cc_set_long(handle, option, value) }
  private func text(_ option: CURLoption, _ value: String) { cc_set_text(handle, option, value) }
  private func add(header: String) { if let list = curl_slist_append(headers, header) { headers = list } }

  // MARK: - Errors

  private func badCertificate(_ result: CURLcode) -> String {
    switch cc_verify_result(handle) {
    // Not even asked for, or well: it is libcurl that compares names.
    case 0,
      1 where result == CURLE_PEER_FAILED_VERIFICATION:
      "is for another name; write the server's name as the certificate has it, and check that this is the server"
    // X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED.
    case 9, 10: "is not valid today; check this machine's clock, or let the server's owner renew it"
    default: "is not trusted; if it is your own, name its authority in SSL_CERT_FILE"
    }
  }

  func error(_ result: CURLcode, _ request: HTTPRequest) -> ContainerError {
    let detail = message[0] == 0 ? String(cString: curl_easy_strerror(result)) : String(cString: message)
    let host = request.host
    let (code, why): (ContainerError.Code, String) =
      switch result {
      case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY:
        (.unreachable, "the host \(host) is not known; check its name and the network")
      case CURLE_COULDNT_CONNECT, CURLE_OPERATION_TIMEDOUT:
        (.unreachable, "nobody answers at \(host) (\(detail)); check the address, and whether the server runs")
      case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM, CURLE_SSL_ISSUER_ERROR:
        (.unreachable, "the certificate of \(host) \(badCertificate(result)) (\(detail))")
      case CURLE_SSL_CONNECT_ERROR: (.unreachable, "\(host) does not speak TLS (\(detail)); is it an http address?")
      case CURLE_GOT_NOTHING:
        (.inconsistent, "\(host) closed the connection without an answer; is it an https address?")
      case CURLE_TOO_MANY_REDIRECTS: (.inconsistent, "\(host) points elsewhere again and again")
      case CURLE_URL_MALFORMAT, CURLE_UNSUPPORTED_PROTOCOL: (.notRepresentable, "not a URL of a server")
      case CURLE_OUT_OF_MEMORY: (.system(.ENOMEM), "out of memory")
      default: (.inconsistent, "the connection to \(host) broke (\(detail))")
      }
    return ContainerError(code, "\(request.what): \(why)")
  }
}

// MARK: - Callbacks

private func transfer(_ context: UnsafeMutableRawPointer?) -> HTTPTransfer? {
  context.map { Unmanaged<HTTPTransfer>.fromOpaque($0).takeUnretainedValue() }
}

private func receive(
  _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
  guard let transfer = transfer(context) else { return 0 }
  let total = size * count
  return transfer.receive(UnsafeRawBufferPointer(start: bytes, count: total)) ? total : Int(CURL_WRITEFUNC_PAUSE)
}

private func receiveHead(
  _ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
  guard let transfer = transfer(context) else { return 0 }
  let line = UnsafeRawBufferPointer(start: bytes, count: size * count)
  return transfer.receiveHead(String(decoding: line, as: UTF8.self)) ? size * count : 0
}

private func give(
  _ room: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int, _ context: UnsafeMutableRawPointer?
) -> Int {
  guard let transfer = transfer(context) else { return Int(CURL_READFUNC_ABORT) }
  let room = UnsafeMutableRawBufferPointer(start: room, count: size * count)
  return transfer.give(room) ?? Int(CURL_READFUNC_ABORT)
}

private func rewind(_ context: UnsafeMutableRawPointer?, _ offset: curl_off_t, _ origin: Int32) -> Int32 {
  guard origin == SEEK_SET, let transfer = transfer(context) else { return 1 }
  transfer.rewind(to: Int64(offset))
  return 0
}
