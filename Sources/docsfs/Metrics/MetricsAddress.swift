import CLinux
import Glibc
import StorageErrors

/// Where `-o metrics=` has metrics served: an address of this machine's own, unless it says `public:` first.
struct MetricsAddress: Equatable {
  private static let openly = "public:"

  /// An IPv4 or IPv6 address, without brackets.
  private let host: String
  private let isIPv6: Bool
  /// 0: the system picks one.
  private let port: UInt16

  init(_ text: String) throws(Failure) {
    let isPublic = text.hasPrefix(Self.openly)
    let place = isPublic ? text.dropFirst(Self.openly.count) : text[...]
    guard let colon = place.lastIndex(of: ":"), let port = UInt16(place[place.index(after: colon)...]) else {
      throw .usage("mount: metrics=\(text) is no address; write 127.0.0.1:9464, or 127.0.0.1:0 for any free port")
    }
    self.port = port
    let name = place[..<colon]
    let isBracketed = name.hasPrefix("[") && name.hasSuffix("]")
    host = name == "localhost" ? "127.0.0.1" : String(isBracketed ? name.dropFirst().dropLast() : name)
    isIPv6 = isBracketed
    var address = [UInt8](repeating: 0, count: 16)
    guard inet_pton(isIPv6 ? AF_INET6 : AF_INET, host, &address) == 1 else {
      throw .usage("mount: metrics=\(text): \(name) is no numeric address; write 127.0.0.1 or [::1]")
    }
    let isLoopback = isIPv6 ? address == [UInt8](repeating: 0, count: 15) + [1] : address[0] == 127
    guard isLoopback || isPublic else {
      throw .usage(
        "mount: metrics=\(text): everybody in the network could read it; write metrics=\(Self.openly)\(text) if that is meant"
      )
    }
  }

  /// A listening socket, and the URL that leads to it.
  func listen() throws(Failure) -> (socket: Int32, url: String) {
    let socket = lx_socket(isIPv6 ? AF_INET6 : AF_INET)
    guard socket >= 0 else { throw failure() }
    let bound = lx_bind_port(socket, isIPv6 ? AF_INET6 : AF_INET, host, port)
    guard bound >= 0, Glibc.listen(socket, 16) == 0 else {
      let failure = failure()
      close(socket)
      throw failure
    }
    return (socket, "http://\(isIPv6 ? "[\(host)]" : host):\(bound)/metrics")
  }

  private func failure() -> Failure {
    let problem = Errno.current
    let hint = problem.symbol == .EADDRINUSE ? "; choose another port, or 0 for any free one" : ""
    return Failure("cannot serve metrics at \(host) port \(port): \(problem.message.lowercasedFirst)\(hint)")
  }
}
