import CMicroHTTPD
import CLinux

/// Answers `GET /metrics` over HTTP, and 404 to all else, on one thread of libmicrohttpd's own. No thread of the mount or
/// of the engine waits for a client.
final class MetricsServer: @unchecked Sendable {  // `daemon` is set by `start` and taken back by `stop`, on one thread
  let url: String
  private let page: @Sendable () -> String
  private var daemon: OpaquePointer?

  private init(_ url: String, _ page: @escaping @Sendable () -> String) {
    self.url = url
    self.page = page
  }

  /// `page` is made anew for each request.
  static func start(
    _ address: MetricsAddress, page: @escaping @Sendable () -> String
  ) throws(Failure) -> MetricsServer {
    let (socket, url) = try address.listen()
    let server = MetricsServer(url, page)
    // The server outlives the daemon, which `stop` waits for.
    server.daemon = cm_start(socket, answer, Unmanaged.passUnretained(server).toOpaque())
    // The socket is libmicrohttpd's from here on, also when it fails.
    guard server.daemon != nil else {
      throw Failure("cannot serve metrics at \(url): no thread or memory is left")
    }
    return server
  }

  /// Returns when nobody is served any more.
  func stop() {
    if let daemon { MHD_stop_daemon(daemon) }
    daemon = nil
  }

  fileprivate func reply(_ connection: OpaquePointer?, _ method: String, _ path: String) -> MHD_Result {
    let isWanted = (method == "GET" || method == "HEAD") && path == "/metrics"
    let body = isWanted ? page() : "metrics are at /metrics\n"
    var bytes = Array(body.utf8)
    let count = bytes.count
    let made = bytes.withUnsafeMutableBytes {
      MHD_create_response_from_buffer(count, $0.baseAddress, .RESPMEM_MUST_COPY)
    }
    guard let response = made else { return .NO }
    defer { MHD_destroy_response(response) }
    MHD_add_response_header(
      response, "Content-Type",
      isWanted ? "text/plain; version=0.0.4; charset=utf-8" : "text/plain; charset=utf-8")
    return MHD_queue_response(connection, isWanted ? 200 : 404, response)
  }
}

/// libmicrohttpd's callback: first with the head of a request, then with each piece of its body, which nobody wants.
private func answer(
  _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _ url: UnsafePointer<CChar>?,
  _ method: UnsafePointer<CChar>?, _ version: UnsafePointer<CChar>?, _ body: UnsafePointer<CChar>?,
  _ bodySize: UnsafeMutablePointer<Int>?, _ state: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> MHD_Result {
  guard let context, let url, let method, let state else { return .NO }
  if state.pointee == nil {
    // Answered only when all of it has come, or the connection could not be kept.
    state.pointee = context
    return .YES
  }
  if let bodySize, bodySize.pointee > 0 {
    bodySize.pointee = 0
    return .YES
  }
  let server = Unmanaged<MetricsServer>.fromOpaque(context).takeUnretainedValue()
  return server.reply(connection, String(cString: method), String(cString: url))
}
