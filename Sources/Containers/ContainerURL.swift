import CLinux
import Faults
import Glibc

/// Where a container is: what `--container` takes.
///
/// - `PATH`: any path, taken literally, `?` and `%` too
/// - `dir:PATH`, percent-decoded
/// - `s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME&path_style=0|1&profile=NAME]`; what is not given is AWS's own, or
///   comes from where AWS's tools look, see `AWSSettings`
/// - `webdav+https://HOST[:PORT]/PATH`, `webdav+http://…`: a folder of a WebDAV server; see `DAVCredentials`
///
/// All but the first take `latency=80ms` and `rate=20MiB` as well.
package struct ContainerURL: Sendable, Equatable {
  enum Place: Sendable, Equatable {
    /// Absolute, or relative where the working directory is gone; without `.` and doubled slashes.
    case folder([UInt8])
    case s3(S3Address, profile: String?)
    case webdav(DAVAddress)
  }
  let place: Place
  /// Seconds that each call takes longer.
  package private(set) var latency: Double = 0
  /// Bytes per second of all transfers together; nil: as fast as it can.
  package private(set) var rate: Int64?

  /// The folder of a directory container; nil: a cloud's.
  package var folder: [UInt8]? {
    if case .folder(let path) = place { path } else { nil }
  }

  /// A folder, taken literally. A relative path is relative to the working directory of now.
  package init(path: [UInt8]) {
    let isAbsolute = path.first == 0x2f
    let whole = isAbsolute ? path : (workingDirectory().map { $0 + [0x2f] } ?? []) + path
    let parts = whole.split(separator: 0x2f).filter { !$0.elementsEqual([0x2e]) }
    let joined = Array(parts.joined(separator: [0x2f]))
    place = .folder(whole.first == 0x2f ? [0x2f] + joined : joined.isEmpty ? [0x2e] : joined)
  }

  package init(_ text: String) throws(ContainerURLError) { try self.init(Array(text.utf8)) }

  package init(_ text: [UInt8]) throws(ContainerURLError) {
    guard !text.isEmpty else { throw .usage("the container's path is empty") }
    guard let scheme = ContainerURL.scheme(of: text) else {
      self.init(path: text)
      return
    }
    switch scheme {
    case "dir": try self.init(dir: text.dropFirst(4), whole: text)
    case "s3": try self.init(s3: text)
    case "webdav+http", "webdav+https": try self.init(webdav: text, scheme: String(scheme.dropFirst(7)))
    default: throw .usage(ContainerURL.unknown(scheme))
    }
  }

  private init(dir rest: ArraySlice<UInt8>, whole: [UInt8]) throws(ContainerURLError) {
    let parts = rest.split(separator: 0x3f, maxSplits: 1, omittingEmptySubsequences: false)
    let encoded = parts.first ?? []
    guard !encoded.isEmpty, let path = percentDecoded(encoded), !path.contains(0) else {
      throw .usage(
        "\(String(decoding: whole, as: UTF8.self)): no path; the form is dir:PATH[?latency=80ms&rate=20MiB]")
    }
    self.init(path: path)
    guard parts.count == 2 else { return }
    for option in parts[1].split(separator: 0x26) {
      let (name, value) = Self.split(option)
      guard try set(name, value) else { throw Self.unknown(option: name, of: "dir:", []) }
    }
  }

  private init(s3 text: [UInt8]) throws(ContainerURLError) {
    let form = "the form is s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME]"
    let parts = text.split(separator: 0x3f, maxSplits: 1, omittingEmptySubsequences: false)
    guard parts[0].starts(with: Array("s3://".utf8)) else { throw .usage("an s3: container needs //; \(form)") }
    let names = parts[0].dropFirst(5).split(separator: 0x2f)
    guard let first = names.first, let bucket = Self.bucket(first) else {
      throw .usage("no name of a bucket stands behind s3://; \(form)")
    }
    let prefix = names.dropFirst().map { percentDecoded($0) ?? [] }
    guard prefix.allSatisfy({ (try? ItemName($0)) != nil && String(validating: $0, as: UTF8.self) != nil }) else {
      throw .usage("the prefix of s3://\(bucket) is no path; \(form)")
    }
    var options = S3Options()
    var common = ContainerURL(path: [0x2f])
    for option in parts.count == 2 ? parts[1].split(separator: 0x26) : [] {
      let (name, value) = Self.split(option)
      if try options.set(name, value) { continue }
      guard try common.set(name, value) else { throw Self.unknown(option: name, of: "s3:", S3Options.names) }
    }
    place = .s3(options.address(bucket, prefix: Array(prefix.joined(separator: [0x2f]))), profile: options.profile)
    self.latency = common.latency
    self.rate = common.rate
  }

  private init(webdav text: [UInt8], scheme: String) throws(ContainerURLError) {
    let form = "the form is webdav+https://HOST[:PORT]/PATH"
    let parts = text.split(separator: 0x3f, maxSplits: 1, omittingEmptySubsequences: false)
    let prefix = Array("webdav+\(scheme)://".utf8)
    guard parts[0].count > prefix.count, parts[0].prefix(prefix.count).map({ $0 | 0x20 }) == prefix.map({ $0 | 0x20 })
    else { throw .usage("a webdav+\(scheme): container needs // and a host; \(form)") }
    let rest = parts[0].dropFirst(prefix.count)
    let authority = rest.prefix { $0 != 0x2f }
    // A text with a password in it is not shown.
    guard !authority.contains(0x40) else {
      throw .usage("a container's URL must hold no user or password; write them into ~/.netrc")
    }
    let host = String(decoding: authority, as: UTF8.self)
    let names = rest.dropFirst(authority.count).split(separator: 0x2f).map { percentDecoded($0) ?? [] }
    guard !host.isEmpty, authority.allSatisfy({ (0x21...0x7e).contains($0) && ![0x22, 0x5c, 0x23].contains($0) }),
      names.allSatisfy({ (try? ItemName($0)) != nil })
    else { throw .usage("\(String(decoding: parts[0], as: UTF8.self)): no address of a folder; \(form)") }
    var common = ContainerURL(path: [0x2f])
    for option in parts.count == 2 ? parts[1].split(separator: 0x26) : [] {
      let (name, value) = Self.split(option)
      guard try common.set(name, value) else { throw Self.unknown(option: name, of: "webdav:", []) }
    }
    place = .webdav(DAVAddress(server: "\(scheme)://\(host.lowercased())", names: names))
    latency = common.latency
    rate = common.rate
  }

  /// Letters, digits, dots and dashes; underscores in old ones.
  private static func bucket(_ text: ArraySlice<UInt8>) -> String? {
    let isOne = text.allSatisfy {
      (0x30...0x39).contains($0) || (0x61...0x7a).contains($0 | 0x20) || [0x2d, 0x2e, 0x5f].contains($0)
    }
    return isOne && text.first != 0x2e && text.count <= 255 ? String(decoding: text, as: UTF8.self) : nil
  }

  private static func split(_ option: ArraySlice<UInt8>) -> (name: String, value: String) {
    let pair = option.split(separator: 0x3d, maxSplits: 1, omittingEmptySubsequences: false)
    let value = pair.count == 2 ? percentDecoded(pair[1]) ?? Array(pair[1]) : []
    return (String(decoding: pair[0], as: UTF8.self), String(decoding: value, as: UTF8.self))
  }

  /// An option that every kind has; false: it is none.
  private mutating func set(_ name: String, _ value: String) throws(ContainerURLError) -> Bool {
    switch name {
    case "latency":
      guard let seconds = Quantity.seconds(value) else {
        throw .usage("latency=\(value): not a duration; write it like 80ms or 1.5s")
      }
      latency = seconds
    case "rate":
      guard let rate = Quantity.rate(value) else {
        throw .usage("rate=\(value): not a rate; write it like 512KiB or 20MiB/s")
      }
      self.rate = rate
    default: return false
    }
    return true
  }

  private static func unknown(option: String, of kind: String, _ known: [String]) -> ContainerURLError {
    // What somebody may have taken for the place of a password is not repeated.
    .usage("unknown option \(option) of a \(kind) container" + didYouMean(option, known + ["latency", "rate"]))
  }

  /// The same container's URL whatever its options are: what a state directory is named after.
  package var canonical: String {
    switch place {
    case .folder(let path): "dir:" + percentEncoded(path)
    case .s3(let address, _): "\(address.url)?endpoint=\(address.endpoint)"
    case .webdav(let address): address.url
    }
  }

  /// A URL that opens the same container from everywhere, whatever the environment says by then.
  package var text: String {
    var options: [String] = []
    if case .s3(let address, let profile) = place {
      options = ["region=\(percentEncoded(address.region))", "path_style=\(address.isPathStyle ? 1 : 0)"]
      if let profile { options.append("profile=\(percentEncoded(profile))") }
    }
    if latency > 0 { options.append("latency=\(latency)s") }
    if let rate { options.append("rate=\(rate)") }
    let first = canonical.contains("?") ? "&" : "?"
    return canonical + (options.isEmpty ? "" : first + options.joined(separator: "&"))
  }

  /// The container, which need not be reachable now. `createIfMissing` makes the folder and those above it:
  /// for the default container alone; for any other a missing folder is a disk that is not mounted.
  package func open(createIfMissing: Bool = false) throws(ContainerURLError) -> any Container {
    let container: any Container
    switch place {
    case .folder(let path):
      if createIfMissing { try makeFolders(path) }
      container = DirectoryContainer(path: path)
    case .s3(let address, let profile):
      container = LinkFileContainer(S3Container(address) { AWSSettings(profile: profile) })
    case .webdav(let address):
      container = LinkFileContainer(WebDAVContainer(address, credentials: DAVCredentials.find(host: address.host)))
    }
    guard latency > 0 || rate != nil else { return container }
    return ThrottledContainer(container, latency: latency, rate: rate)
  }

  private func makeFolders(_ path: [UInt8]) throws(ContainerURLError) {
    for end in path.indices.dropFirst() where path[end] == 0x2f { mkdir(cName(Array(path[..<end])), 0o700) }
    var status = stat()
    if mkdir(cName(path), 0o700) == 0 || (stat(cName(path), &status) == 0 && lx_is_dir(status.st_mode) != 0) {
      return
    }
    throw .unavailable("cannot make the folder \(String(decoding: path, as: UTF8.self)): \(message(errno))")
  }

  private func message(_ number: Int32) -> String { String(cString: strerror(number)) }

  /// What stands before a colon that looks like a URL's; nil for paths.
  private static func scheme(of text: [UInt8]) -> String? {
    guard let colon = text.firstIndex(of: 0x3a), let first = text.first, (0x61...0x7a).contains(first | 0x20)
    else { return nil }
    let scheme = text[..<colon]
    let isOne = scheme.allSatisfy {
      (0x61...0x7a).contains($0 | 0x20) || (0x30...0x39).contains($0) || [0x2b, 0x2d, 0x2e].contains($0)
    }
    return isOne ? String(decoding: scheme, as: UTF8.self).lowercased() : nil
  }

  private static func unknown(_ scheme: String) -> String {
    let known = ["dir", "s3", "webdav+https", "webdav+http"]
    return "unknown kind of container \(scheme):" + didYouMean(scheme, known)
      + "; a path with a colon is written ./\(scheme):…"
  }
}

/// One line for people, and the exit code: 64 for a URL that is wrong, 69 for a container that is not to be
/// had.
package struct ContainerURLError: Error, Sendable, Equatable, CustomStringConvertible {
  package let exitCode: Int32
  package let message: String
  package var description: String { message }
  static func usage(_ message: String) -> Self { Self(exitCode: 64, message: message) }
  static func unavailable(_ message: String) -> Self { Self(exitCode: 69, message: message) }
}

private func workingDirectory() -> [UInt8]? {
  guard let text = getcwd(nil, 0) else { return nil }
  defer { free(text) }
  return Array(UnsafeRawBufferPointer(start: text, count: strlen(text)))
}

private func percentEncoded(_ path: [UInt8]) -> String {
  path.reduce(into: "") { text, byte in
    let isPlain =
      (0x30...0x39).contains(byte) || (0x61...0x7a).contains(byte | 0x20)
      || [0x2f, 0x2e, 0x2d, 0x5f, 0x7e].contains(byte)
    text += isPlain ? String(UnicodeScalar(byte)) : "%" + hex([byte])
  }
}

/// ", did you mean X?" with the nearest of `known`, if any is near.
package func didYouMean(_ word: String, _ known: [String]) -> String {
  let nearest = known.map { (distance: editDistance(Array(word.utf8), Array($0.utf8)), text: $0) }
    .min { $0.distance < $1.distance }
  guard let nearest, nearest.distance <= max(2, word.utf8.count / 2) else {
    return " (there are: " + known.joined(separator: ", ") + ")"
  }
  return ", did you mean \(nearest.text)?"
}

private func editDistance(_ a: [UInt8], _ b: [UInt8]) -> Int {
  var row = Array(0...b.count)
  for i in a.indices {
    var diagonal = row[0]
    row[0] = i + 1
    for j in b.indices {
      let substituted = diagonal + (a[i] == b[j] ? 0 : 1)
      diagonal = row[j + 1]
      row[j + 1] = min(substituted, row[j] + 1, row[j + 1] + 1)
    }
  }
  return row[b.count]
}
