import Containers
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// What keeps a cloud from being mounted: exit status 69 within `timeo`, and one sentence that names the mend.
final class MountFailureTests: MountedTestCase {
  private struct Situation {
    var what: String
    var url: String
    var environment: [String: String] = [:]
    /// What the sentence must say.
    var words: [String]
  }

  private func check(_ situations: [Situation], _ common: [String: String]) throws {
    let volume = try unmounted(["timeo=4s"])
    for situation in situations {
      volume.url = situation.url
      volume.environment = common.merging(situation.environment) { $1 }
      // A mount that hung would be killed here, and have no status.
      let outcome = volume.docsfs(volume.mountArguments, within: 60)
      XCTAssertEqual(outcome.status, 69, "\(situation.what): \(outcome)")
      let sentence = outcome.errors.trimmingCharacters(in: .whitespacesAndNewlines)
      for word in situation.words {
        XCTAssert(sentence.contains(word), "\(situation.what): “\(sentence)” does not say “\(word)”")
      }
      XCTAssertEqual(sentence.components(separatedBy: "\n").count, 1, sentence)
      XCTAssertFalse(sentence.contains("hunter2"), "a secret is shown: \(sentence)")
      XCTAssertFalse(volume.isMounted, situation.what)
    }
  }

  private func plain(_ server: CloudServer) -> String {
    let url = server.container.replacingOccurrences(of: "webdav+", with: "")
    return url.hasSuffix("/") ? String(url.dropLast()) : url
  }

  /// A listening socket whose connections nobody accepts.
  private func silentPort() throws -> (port: UInt16, descriptor: Int32) {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    return (try ScriptedServer.listen(descriptor), descriptor)
  }

  /// A plain web server, as Python has it.
  private func webServer() throws -> (url: String, process: Subprocess) {
    let folder = try outside("www")
    let process = try Subprocess([
      "python3", "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", folder,
    ])
    XCTAssert(eventually { process.outcome.text.contains("http://127.0.0.1:") }, "\(process.outcome)")
    let port = process.outcome.text.components(separatedBy: "http://127.0.0.1:")[1].prefix { $0.isNumber }
    return ("http://127.0.0.1:\(port)", process)
  }

  func testS3() throws {
    try skipUnlessInstalled("python3")
    let (weed, apache) = (try CloudServer.shared(.s3), try CloudServer.shared(.apache))
    let endpoint = weed.container.components(separatedBy: "endpoint=")[1].components(separatedBy: "&")[0]
    let tls = try XCTUnwrap(apache.values["tls"]).replacingOccurrences(of: "webdav+", with: "").dropLast()
    let certificate = try XCTUnwrap(apache.values["SSL_CERT_FILE"])
    let silent = try silentPort()
    defer { close(silent.descriptor) }
    let web = try webServer()
    defer {
      web.process.signal(SIGTERM)
      _ = web.process.wait(30)
    }
    let none = ["AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""]
    func at(_ endpoint: some StringProtocol) -> String { "s3://docsfs?endpoint=\(endpoint)&region=us-east-1" }
    try check(
      [
        .init(
          what: "no such bucket", url: "s3://none?endpoint=\(endpoint)",
          words: ["there is no bucket none", endpoint, "check its name"]),
        .init(
          what: "an unknown key", url: at(endpoint), environment: ["AWS_ACCESS_KEY_ID": "nobody"],
          words: ["does not know the access key", "check AWS_ACCESS_KEY_ID"]),
        .init(
          what: "a wrong secret", url: at(endpoint), environment: ["AWS_SECRET_ACCESS_KEY": "hunter2"],
          words: ["the secret key does not fit", "AWS_SECRET_ACCESS_KEY"]),
        .init(
          what: "no credentials", url: at(endpoint), environment: none,
          words: ["no credentials", "set AWS_ACCESS_KEY_ID", "~/.aws/credentials"]),
        .init(
          what: "no such profile", url: at(endpoint) + "&profile=work",
          words: ["write the profile work with its keys into ~/.aws/credentials"]),
        .init(
          what: "a closed port", url: at("http://127.0.0.1:1"),
          words: ["nobody answers at 127.0.0.1:1", "check the address"]),
        .init(
          what: "an unknown host", url: at("http://no.such.host.invalid"),
          words: ["the host no.such.host.invalid is not known", "check its name"]),
        .init(
          what: "a server that never answers", url: at("http://127.0.0.1:\(silent.port)"),
          words: ["no answer from 127.0.0.1:\(silent.port) in time", "check the address"]),
        .init(
          what: "TLS to a server that never answers", url: at("https://127.0.0.1:\(silent.port)"),
          words: ["no answer from 127.0.0.1:\(silent.port) in time"]),
        .init(what: "a web server", url: at(web.url), words: ["does not answer as an S3 store", "check endpoint="]),
        .init(what: "a WebDAV server", url: at(plain(apache)), words: ["does not answer as an S3 store"]),
        .init(
          what: "TLS to a plain server", url: at(endpoint.replacingOccurrences(of: "http:", with: "https:")),
          words: ["does not speak TLS", "is it an http address?"]),
        .init(
          what: "plain to a TLS server", url: at(tls.replacingOccurrences(of: "https:", with: "http:")),
          words: ["does not answer as an S3 store", "check endpoint="]),
        .init(
          what: "a certificate that nobody has signed", url: at(tls),
          words: ["is not trusted", "name its authority in SSL_CERT_FILE"]),
        .init(
          what: "a certificate of another name", url: at(tls.replacingOccurrences(of: "localhost", with: "127.0.0.1")),
          environment: ["SSL_CERT_FILE": certificate],
          words: ["is for another name", "write the server's name as the certificate has it"]),
      ], ["AWS_ACCESS_KEY_ID": "docsfs-key", "AWS_SECRET_ACCESS_KEY": "docsfs-secret", "SSL_CERT_FILE": ""])
  }

  func testWebDAV() throws {
    try skipUnlessInstalled("python3")
    let (apache, lighttpd, weed) = (
      try CloudServer.shared(.apache), try CloudServer.shared(.webdav), try CloudServer.shared(.s3)
    )
    let store = weed.container.components(separatedBy: "endpoint=")[1].components(separatedBy: "&")[0]
    let tls = try XCTUnwrap(apache.values["tls"])
    let certificate = try XCTUnwrap(apache.values["SSL_CERT_FILE"])
    let silent = try silentPort()
    defer { close(silent.descriptor) }
    let web = try webServer()
    defer {
      web.process.signal(SIGTERM)
      _ = web.process.wait(30)
    }
    let netrc = try outside("netrc") + "/netrc"
    try Sys.put(netrc, "machine 127.0.0.1 login docsfs password hunter2\n")
    let wrong = ["DOCSFS_WEBDAV_USER": "docsfs", "DOCSFS_WEBDAV_PASSWORD": "hunter2"]
    try check(
      [
        .init(
          what: "no such folder", url: apache.container("none"),
          words: ["no such folder", "make it first, or check the URL"]),
        .init(what: "no such folder", url: lighttpd.container("none"), words: ["no such folder"]),
        .init(
          what: "no password", url: apache.container("basic"),
          words: ["wants a password", "write user and password for 127.0.0.1 into ~/.netrc"]),
        .init(
          what: "a wrong password", url: apache.container("basic"), environment: wrong,
          words: ["refuses the user or the password", "check DOCSFS_WEBDAV_USER"]),
        .init(
          what: "a wrong password, by digest", url: apache.container("digest"), environment: ["NETRC": netrc],
          words: ["refuses the user or the password", "check \(netrc)"]),
        .init(
          what: "a wrong token", url: apache.container("basic"), environment: ["DOCSFS_WEBDAV_TOKEN": "hunter2"],
          words: ["refuses the token", "check DOCSFS_WEBDAV_TOKEN"]),
        .init(
          what: "a closed port", url: "webdav+http://127.0.0.1:1/",
          words: ["nobody answers at 127.0.0.1:1", "check the address"]
        ),
        .init(
          what: "an unknown host", url: "webdav+https://no.such.host.invalid/",
          words: ["the host no.such.host.invalid is not known", "check its name"]),
        .init(
          what: "a server that never answers", url: "webdav+http://127.0.0.1:\(silent.port)/",
          words: ["no answer from 127.0.0.1:\(silent.port) in time", "check the address"]),
        .init(
          what: "a web server", url: "webdav+\(web.url)/",
          words: ["does not answer as a WebDAV server", "check the URL"]),
        .init(what: "an S3 store", url: "webdav+\(store)/docsfs", words: ["does not answer as a WebDAV server"]),
        .init(
          what: "TLS to a plain server", url: lighttpd.container.replacingOccurrences(of: "http:", with: "https:"),
          words: ["does not speak TLS", "is it an http address?"]),
        .init(
          what: "plain to a TLS server", url: tls.replacingOccurrences(of: "https:", with: "http:"),
          words: ["is it an https address?"]),
        .init(
          what: "a certificate that nobody has signed", url: tls,
          words: ["is not trusted", "name its authority in SSL_CERT_FILE"]),
        .init(
          what: "a certificate of another name", url: tls.replacingOccurrences(of: "localhost", with: "127.0.0.1"),
          environment: ["SSL_CERT_FILE": certificate],
          words: ["is for another name", "write the server's name as the certificate has it"]),
      ],
      [
        "SSL_CERT_FILE": "", "DOCSFS_WEBDAV_USER": "", "DOCSFS_WEBDAV_PASSWORD": "", "DOCSFS_WEBDAV_TOKEN": "",
        "NETRC": "",
      ])
  }

  /// The C library would ask it for two and a half minutes.
  func testANameServerThatNeverAnswersIsNotWaitedFor() throws {
    try skipUnlessRoot()
    let descriptor = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(53).bigEndian
    address.sin_addr.s_addr = inet_addr("127.9.9.9")
    let bound = withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    try XCTSkipUnless(bound == 0, "port 53 of 127.9.9.9 is not free")
    let volume = try unmounted(["timeo=4s"])
    let file = try outside("etc") + "/resolv.conf"
    try Sys.put(file, "nameserver 127.9.9.9\noptions timeout:30 attempts:5\n")
    volume.url = "webdav+https://some.host.example/"
    let script = "mount --bind '\(file)' /etc/resolv.conf && exec \"$@\""
    let outcome = Shell.run(
      ["unshare", "-m", "bash", "-c", script, "bash", MountedVolume.binary] + volume.mountArguments,
      environment: volume.variables, within: 60)
    XCTAssertEqual(outcome.status, 69, "\(outcome)")
    XCTAssert(outcome.errors.contains("no answer from some.host.example in time"), outcome.errors)
  }

  /// Debian's libfaketime, for the daemon alone.
  private func clock(_ offset: String) throws -> [String: String] {
    try skipUnlessInstalled("faketime")
    return ["LD_PRELOAD": "/usr/$LIB/faketime/libfaketimeMT.so.1", "FAKETIME": offset, "DONT_FAKE_MONOTONIC": "1"]
  }

  /// The certificate is good for 30 days.
  func testAClockByWhichTheCertificateHasEndedIsNamed() throws {
    let apache = try CloudServer.shared(.apache)
    let (tls, certificate) = (try XCTUnwrap(apache.values["tls"]), try XCTUnwrap(apache.values["SSL_CERT_FILE"]))
    for offset in ["+60d", "-2d"] {
      try check(
        [.init(what: offset, url: tls, words: ["is not valid today", "check this machine's clock"])],
        try clock(offset).merging(["SSL_CERT_FILE": certificate]) { $1 })
    }
  }

  /// SeaweedFS refuses what is signed a quarter of an hour off, as AWS does.
  func testAClockThatIsAnHourOffMountsAllTheSame() throws {
    let place = try CloudPlace(.s3)
    for offset in ["-1h", "+1h"] {
      let volume = try unmounted(name: "v" + offset)
      volume.url = place.url
      let credentials = place.server.values.filter { $0.key.hasPrefix("AWS_") }
      volume.environment = try clock(offset).merging(credentials) { $1 }
      try volume.mount()
      try Sys.put(volume.path("f" + offset), "text")
      try volume.run("sync", volume.mountpoint, within: 60)
      let item = try XCTUnwrap(place.open().list(.root, CallContext()).first { $0.name.description == "f" + offset })
      let mtime = try XCTUnwrap(item.attributes.mtime).nanoseconds / 1_000_000_000
      XCTAssertGreaterThan(abs(Int(mtime) - time(nil)), 3_000, "the daemon's clock was right")
    }
  }
}
