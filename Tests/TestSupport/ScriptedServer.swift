import Containers
import Foundation

/// An HTTP server on 127.0.0.1 whose answers the test writes, or which hands requests on to a real server: for what no
/// server here can be brought to say. One request a connection.
package final class ScriptedServer: Sendable {
  package struct Request: Sendable {
    package var method: String
    /// With the query.
    package var path: String
    /// By lower-case name.
    package var headers: [String: String]
  }
  package enum Answer: Sendable {
    case reply(Int, headers: [String: String] = [:], body: String = "")
    /// What the server at that port of 127.0.0.1 says.
    case forward(UInt16)
  }

  package let port: UInt16
  package var url: String { "http://127.0.0.1:\(port)" }
  private let descriptor: Int32
  private let answer: @Sendable (Request) -> Answer

  package init(_ answer: @escaping @Sendable (Request) -> Answer) throws {
    self.answer = answer
    descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    port = try Self.listen(descriptor)
    let (listener, answer) = (descriptor, answer)
    Thread.detachNewThread {
      while true {
        let client = accept(listener, nil, nil)
        guard client >= 0 else { return }
        Thread.detachNewThread {
          Self.serve(client, answer)
          close(client)
        }
      }
    }
  }

  deinit {
    // Wakes the thread that accepts.
    shutdown(descriptor, Int32(SHUT_RDWR))
    close(descriptor)
  }

  /// On a free port of 127.0.0.1.
  package static func listen(_ descriptor: Int32) throws -> UInt16 {
    var address = loopback(0)
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    try withUnsafeMutablePointer(to: &address) { pointer in
      try pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        guard bind(descriptor, pointer, length) == 0, Glibc.listen(descriptor, 64) == 0,
          getsockname(descriptor, pointer, &length) == 0
        else { throw POSIXError(.EIO) }
      }
    }
    return UInt16(bigEndian: address.sin_port)
  }

  private static func loopback(_ port: UInt16) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = inet_addr("127.0.0.1")
    return address
  }

  // MARK: - One connection

  private static func serve(_ client: Int32, _ answer: (Request) -> Answer) {
    guard let (head, rest) = readHead(client), let request = parse(head) else { return }
    switch answer(request) {
    case .reply(let status, let headers, let body):
      let lines = headers.map { "\($0.key): \($0.value)\r\n" }.joined()
      let length = request.method == "HEAD" ? 0 : body.utf8.count
      send(
        Array(
          "HTTP/1.1 \(status) Scripted\r\n\(lines)Content-Length: \(length)\r\nConnection: close\r\n\r\n".utf8), client)
      if length > 0 { send(Array(body.utf8), client) }
      // A body that is still coming would make the kernel throw the answer away.
      shutdown(client, Int32(SHUT_WR))
      drain(client)
    case .forward(let port): forward(client, head, rest, to: port)
    }
  }

  private static func forward(_ client: Int32, _ head: String, _ rest: [UInt8], to port: UInt16) {
    let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(server) }
    var address = loopback(port)
    let connected = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(server, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard connected == 0 else { return }
    send(Array((head + "\r\nConnection: close\r\n\r\n").utf8) + rest, server)
    var ends = [
      pollfd(fd: client, events: Int16(POLLIN), revents: 0), pollfd(fd: server, events: Int16(POLLIN), revents: 0),
    ]
    var bytes = [UInt8](repeating: 0, count: 64 << 10)
    while poll(&ends, 2, 60_000) > 0 {
      if ends[1].revents != 0 {
        let count = recv(server, &bytes, bytes.count, 0)
        guard count > 0 else { return }
        send(Array(bytes.prefix(count)), client)
      }
      if ends[0].revents != 0 {
        let count = recv(client, &bytes, bytes.count, 0)
        if count > 0 { send(Array(bytes.prefix(count)), server) } else { ends[0].fd = -1 }
      }
    }
  }

  /// The head without its empty line, and what has come behind it.
  private static func readHead(_ client: Int32) -> (head: String, rest: [UInt8])? {
    var all: [UInt8] = []
    var bytes = [UInt8](repeating: 0, count: 16 << 10)
    while all.count < 1 << 20 {
      let count = recv(client, &bytes, bytes.count, 0)
      guard count > 0 else { return nil }
      all += bytes.prefix(count)
      if let end = all.firstRange(of: [0x0d, 0x0a, 0x0d, 0x0a]) {
        return (String(decoding: all[..<end.lowerBound], as: UTF8.self), Array(all[end.upperBound...]))
      }
    }
    return nil
  }

  private static func parse(_ head: String) -> Request? {
    let lines = head.components(separatedBy: "\r\n")
    let words = lines[0].split(separator: " ").map(String.init)
    guard words.count == 3 else { return nil }
    var request = Request(method: words[0], path: words[1], headers: [:])
    for line in lines.dropFirst() {
      let pair = line.split(separator: ":", maxSplits: 1)
      if pair.count == 2 { request.headers[pair[0].lowercased()] = pair[1].trimmingCharacters(in: .whitespaces) }
    }
    return request
  }

  private static func send(_ bytes: [UInt8], _ socket: Int32) {
    var sent = 0
    while sent < bytes.count {
      let count = bytes[sent...].withUnsafeBytes { Glibc.send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
      guard count > 0 else { return }
      sent += count
    }
  }

  private static func drain(_ socket: Int32) {
    var bytes = [UInt8](repeating: 0, count: 64 << 10)
    while recv(socket, &bytes, bytes.count, 0) > 0 {}
  }
}
