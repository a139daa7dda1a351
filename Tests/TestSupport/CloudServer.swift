import Containers
import Foundation
import StorageErrors
import XCTest

/// A real server on 127.0.0.1, started by `mount-scripts/cloud-up`: one of a kind for all tests of this process, with
/// which it ends.
package final class CloudServer: Sendable {
  package enum Kind: String, Sendable {
    case s3, moto, webdav, apache, xandikos, wsgidav
    /// lighttpd behind a server that adds reports of changes.
    case sync
  }

  /// What it said about itself: `container`, credentials, certificates.
  package let values: [String: String]
  private let process: Guarded<Subprocess>

  /// Between the choice of its ports and its start another program may take one of them.
  private static let seaweedFS = Result { try (try? CloudServer(.s3)) ?? CloudServer(.s3) }
  private static let moto = Result { try CloudServer(.moto) }
  private static let lighttpd = Result { try CloudServer(.webdav) }
  private static let apache = Result { try CloudServer(.apache) }
  private static let xandikos = Result { try CloudServer(.xandikos) }
  private static let wsgidav = Result { try CloudServer(.wsgidav) }
  private static let sync = Result { try CloudServer(reportingFor: shared(.webdav)) }

  /// Skips the test where the server is not installed.
  package static func shared(_ kind: Kind) throws -> CloudServer {
    let programs: [Kind: String] = [
      .s3: "weed", .moto: "moto_server", .webdav: "lighttpd", .apache: "apache2", .sync: "lighttpd",
      .xandikos: "xandikos", .wsgidav: "wsgidav",
    ]
    let folders = (ProcessInfo.processInfo.environment["PATH"] ?? "").components(separatedBy: ":") + ["/usr/sbin"]
    let program = programs[kind] ?? ""
    guard folders.contains(where: { access("\($0)/\(program)", X_OK) == 0 }) else {
      throw XCTSkip("\(program) is not installed")
    }
    switch kind {
    case .s3: return try seaweedFS.get()
    case .moto: return try moto.get()
    case .webdav: return try lighttpd.get()
    case .apache: return try apache.get()
    case .xandikos: return try xandikos.get()
    case .wsgidav: return try wsgidav.get()
    case .sync: return try sync.get()
    }
  }

  private static let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
  private let command: [String]

  private convenience init(_ kind: Kind) throws {
    try self.init(command: Self.cloudUp(kind))
  }

  /// A server of the caller's own that keeps what it has in `data`, and that may be stopped and started again.
  package convenience init(_ kind: Kind, keepingIn data: String) throws {
    _ = try Self.shared(kind)
    try self.init(command: Self.cloudUp(kind) + ["--data", data])
  }

  private convenience init(reportingFor server: CloudServer) throws {
    let script = Self.tests.appendingPathComponent("TestSupport/Servers/sync_collection.py").path
    let upstream = server.container.replacingOccurrences(of: "webdav+", with: "")
    try self.init(command: ["python3", script, upstream, server.values["files"] ?? ""])
  }

  private static func cloudUp(_ kind: Kind) -> [String] {
    [tests.deletingLastPathComponent().appendingPathComponent("mount-scripts/cloud-up").path, kind.rawValue]
  }

  private static func started(_ command: [String]) throws -> Subprocess {
    let process = try Subprocess(command)
    guard eventually(within: 90, { process.outcome.text.contains("container=") || !process.isRunning }),
      process.isRunning
    else {
      process.signal(SIGTERM)
      throw ProgramFailure(command: command.joined(separator: " "), outcome: process.outcome)
    }
    return process
  }

  /// Of the server that adds reports: `page=2&level=1`, as it says of itself.
  package func set(_ switches: String) throws {
    let outcome = try Subprocess(["curl", "-sf", "-X", "POST", "\(base).switch?\(switches)"]).finish(within: 20)
    guard outcome.succeeded else { throw ProgramFailure(command: "set \(switches)", outcome: outcome) }
  }

  /// Of that server: how often each kind of request has been made.
  package func counts() throws -> [String: Int] {
    let outcome = try Subprocess(["curl", "-sf", "\(base).counts"]).finish(within: 20)
    return try JSONDecoder().decode([String: Int].self, from: Data(outcome.output))
  }

  /// As other programs know it, with a slash at its end.
  private var base: String { container.replacingOccurrences(of: "webdav+", with: "") }

  /// Returns when nobody answers any more.
  package func stop() {
    let process = process.withLock { $0 }
    process.signal(SIGTERM)
    _ = process.wait(60)
  }

  /// After `stop`: at the same port, with the same data.
  package func start() throws {
    let port = container.components(separatedBy: "127.0.0.1:").dropFirst().first?.prefix { $0.isNumber } ?? ""
    let process = try Self.started(command + ["--port", String(port)])
    self.process.withLock { $0 = process }
  }

  private init(command: [String]) throws {
    let process = try Self.started(command)
    self.command = command
    self.process = Guarded(process)
    values = process.outcome.lines.reduce(into: [:]) { values, line in
      let pair = line.split(separator: "=", maxSplits: 1)
      if pair.count == 2 { values[String(pair[0])] = pair[1].trimmingCharacters(in: CharacterSet(charactersIn: "'")) }
    }
  }

  package var container: String { values["container"] ?? "" }

  /// The server's URL with `name` as the prefix or folder in it.
  package func container(_ name: String) -> String {
    let parts = container.split(separator: "?", maxSplits: 1).map(String.init)
    let base = parts[0].hasSuffix("/") ? parts[0] : parts[0] + "/"
    return base + name + (parts.count == 2 ? "?" + parts[1] : "")
  }
}

/// A folder or prefix of its own on a server.
package struct CloudPlace: Sendable {
  package let server: CloudServer
  package let name: String

  package init(_ kind: CloudServer.Kind) throws { try self.init(on: try CloudServer.shared(kind)) }

  package init(on server: CloudServer) throws {
    self.server = server
    name = "v-\(ContainerID.random().text.prefix(12))"
    guard server.container.hasPrefix("webdav") else { return }
    let url = server.container(name).replacingOccurrences(of: "webdav+", with: "")
    let made = try Subprocess(["curl", "-sf", "-X", "MKCOL", url]).finish(within: 20)
    guard made.succeeded else { throw ProgramFailure(command: "MKCOL", outcome: made) }
  }

  package var url: String { server.container(name) }

  /// As a mount opens it, with the server's credentials in the environment.
  package func open() throws -> any Container {
    for (name, value) in server.values where name.hasPrefix("AWS_") { setenv(name, value, 1) }
    return try ContainerURL(url).open()
  }
}
