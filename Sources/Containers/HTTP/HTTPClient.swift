import CCurl
import Glibc

/// HTTP/1.1 by libcurl: blocking calls from any thread, over kept-alive connections, TLS verified, proxies and
/// certificate files from the environment. Bodies stream both ways; what waits in memory is about 1 MiB a call.
///
/// A call ends when its `CallContext` does, within a twentieth of a second. What is thrown names the request's
/// `what` and the host, and no header, query or credential.
final class HTTPClient: Sendable {
  private static let isReady = curl_global_init(Int(CURL_GLOBAL_ALL)) == CURLE_OK
  private static let keptConnections = 32

  private let idle = Guarded<[HTTPConnection]>([])

  /// The whole reply in memory. More than `limit` bytes of a body are an error.
  func send(
    _ request: HTTPRequest, _ call: CallContext, limit: Int = 1 << 20
  ) throws(ContainerError) -> HTTPResponse {
    try stream(request, call, limit: limit) { (_) throws(ContainerError) in
      false
    } sink: { _ throws(ContainerError) in
    }
  }

  /// Gives the body to `sink`, piece by piece, when `accepts` says so after a look at status and headers; what it does
  /// not accept is gathered in the reply. What either throws ends the call.
  func stream(
    _ request: HTTPRequest, _ call: CallContext, limit: Int = 1 << 20,
    accepts: (HTTPResponse) throws(ContainerError) -> Bool,
    sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) -> HTTPResponse {
    try check(call, request)
    let connection = try takeConnection(request)
    defer { giveBack(connection) }
    let transfer = HTTPTransfer(request)
    try connection.begin(request, transfer)
    defer { connection.end() }
    var isAccepted: Bool?
    while true {
      try check(call, request)
      let result = try connection.advance(request.what)
      if let failure = transfer.failure { throw failure }
      if !transfer.pending.isEmpty || result == CURLE_OK {
        if isAccepted == nil { isAccepted = try accepts(transfer.response) }
        if isAccepted == true {
          try deliver(transfer, sink)
        } else {
          guard transfer.response.body.count + transfer.pending.count <= limit else {
            throw ContainerError(.inconsistent, "\(request.what): the server's reply is too long")
          }
          transfer.response.body += transfer.pending
          transfer.pending.removeAll(keepingCapacity: true)
        }
      }
      if transfer.isPaused {
        connection.resume(transfer)
      } else if let result {
        guard result == CURLE_OK else { throw connection.error(result, request) }
        guard transfer.pending.isEmpty else { continue }
        Log.debug("http", ["method": request.method, "url": request.place, "status": transfer.response.status])
        return transfer.response
      } else {
        connection.wait(milliseconds: 50)
      }
    }
  }

  private func check(_ call: CallContext, _ request: HTTPRequest) throws(ContainerError) {
    do throws(ContainerError) { try call.check(request.what) } catch {
      guard error.code == .timedOut else { throw error }
      throw ContainerError(
        .timedOut, "\(request.what): no answer from \(request.host) in time; check the address and the network")
    }
  }

  private func deliver(
    _ transfer: HTTPTransfer, _ sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) {
    guard !transfer.pending.isEmpty else { return }
    var bytes: [UInt8] = []
    swap(&bytes, &transfer.pending)
    try bytes.give(to: sink)
    bytes.removeAll(keepingCapacity: true)
    swap(&bytes, &transfer.pending)
  }

  private func takeConnection(_ request: HTTPRequest) throws(ContainerError) -> HTTPConnection {
    if let connection = idle.withLock({ $0.popLast() }) { return connection }
    guard Self.isReady, let connection = HTTPConnection() else {
      throw ContainerError(.system(.ENOMEM), "\(request.what): no memory for another connection")
    }
    return connection
  }

  private func giveBack(_ connection: HTTPConnection) {
    idle.withLock { if $0.count < Self.keptConnections { $0.append(connection) } }
  }
}

/// What libcurl's callbacks see of one request. On one thread only.
final class HTTPTransfer {
  static let room = 1 << 20

  var response = HTTPResponse()
  /// Of the body, not yet delivered.
  var pending: [UInt8] = []
  var isPaused = false
  var failure: ContainerError?
  private let request: HTTPRequest
  /// How much of the request's body has gone.
  private var sent: Int64 = 0

  init(_ request: HTTPRequest) { self.request = request }

  func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
    if !pending.isEmpty, pending.count + bytes.count > Self.room {
      isPaused = true
      return false
    }
    pending.append(contentsOf: bytes)
    return true
  }

  /// One line of a reply's head; a status line begins it anew (after 100, and after a redirection).
  func receiveHead(_ line: String) -> Bool {
    if line.hasPrefix("HTTP/") {
      let words = line.split(separator: " ", maxSplits: 2)
      response = HTTPResponse(status: words.count > 1 ? Int(words[1]) ?? 0 : 0)
      return true
    }
    guard response.headers.count < 256 else { return false }
    guard let colon = line.firstIndex(of: ":") else { return true }
    let value = line[line.index(after: colon)...].trimmingBlanks
    response.headers[line[..<colon].lowercased(), default: ""] +=
      response[line[..<colon].lowercased()] == nil ? value : ", \(value)"
    return true
  }

  /// The count; nil when the source fails.
  func give(_ room: UnsafeMutableRawBufferPointer) -> Int? {
    let wanted = Int(clamping: min(Int64(room.count), request.body.size - sent))
    guard wanted > 0 else { return 0 }
    let room = UnsafeMutableRawBufferPointer(rebasing: room.prefix(wanted))
    switch request.body {
    case .none: return 0
    case .bytes(let bytes):
      room.copyBytes(from: bytes[Int(sent)...].prefix(wanted))
      sent += Int64(wanted)
      return wanted
    case .source(let source, let range):
      do throws(ContainerError) {
        let count = try source.read(at: range.lowerBound + sent, into: room)
        guard count > 0 else {
          throw ContainerError(.cancelled, "\(request.what): it became shorter meanwhile")
        }
        sent += Int64(count)
        source.sent(count)
        return count
      } catch {
        failure = error
        return nil
      }
    }
  }

  func rewind(to offset: Int64) { sent = offset }
}

extension Substring {
  fileprivate var trimmingBlanks: String {
    func isBlank(_ character: Character) -> Bool { character.isWhitespace }
    let start = drop { isBlank($0) }
    guard let last = start.lastIndex(where: { !isBlank($0) }) else { return "" }
    return String(start[...last])
  }
}
