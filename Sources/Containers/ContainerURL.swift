import CLinux
import Faults
import Glibc

/// Where a container is: what `--container` takes.
///
/// `PATH` (any path, taken literally, `?` and `%` too) or `dir:PATH[?latency=80ms&rate=20MiB]`
/// (percent-decoded). `s3://…` and `webdav+https://…` are recognised and refused.
package struct ContainerURL: Sendable, Equatable {
  /// Absolute, or relative where the working directory is gone; without `.` and doubled slashes.
  package let path: [UInt8]
  /// Seconds that each call takes longer.
  package private(set) var latency: Double = 0
  /// Bytes per second of all transfers together; nil: as fast as it can.
  package private(set) var rate: Int64?

  /// A folder, taken literally. A relative path is relative to the working directory of now.
  package init(path: [UInt8]) {
    let isAbsolute = path.first == 0x2f
    let whole = isAbsolute ? path : (workingDirectory().map { $0 + [0x2f] } ?? []) + path
    let parts = whole.split(separator: 0x2f).filter { !$0.elementsEqual([0x2e]) }
    let joined = Array(parts.joined(separator: [0x2f]))
    self.path = whole.first == 0x2f ? [0x2f] + joined : joined.isEmpty ? [0x2e] : joined
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
    case "s3", "webdav", "webdavs", "webdav+http", "webdav+https":
      throw .unavailable("\(scheme): containers are not in this build; use a folder: dir:PATH")
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
    for option in parts[1].split(separator: 0x26) { try set(String(decoding: option, as: UTF8.self)) }
  }

  private mutating func set(_ option: String) throws(ContainerURLError) {
    let pair = option.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    let value = pair.count == 2 ? pair[1] : ""
    switch pair[0] {
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
    default:
      throw .usage(
        "unknown option \(pair[0]) of a dir: container" + didYouMean(pair[0], ["latency", "rate"]))
    }
  }

  /// The same container's URL whatever its options are: what a state directory is named after.
  package var canonical: String { "dir:" + percentEncoded(path) }

  /// The container, which need not be reachable now. `createIfMissing` makes the folder and those above it:
  /// for the default container alone; for any other a missing folder is a disk that is not mounted.
  package func open(createIfMissing: Bool = false) throws(ContainerURLError) -> any Container {
    if createIfMissing { try makeFolders() }
    let container = DirectoryContainer(path: path)
    guard latency > 0 || rate != nil else { return container }
    return ThrottledContainer(container, latency: latency, rate: rate)
  }

  private func makeFolders() throws(ContainerURLError) {
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

private func percentDecoded(_ text: ArraySlice<UInt8>) -> [UInt8]? {
  var decoded: [UInt8] = []
  var rest = text
  while let byte = rest.popFirst() {
    guard byte == 0x25 else {
      decoded.append(byte)
      continue
    }
    let digits = String(decoding: rest.prefix(2), as: UTF8.self)
    guard digits.utf8.count == 2, digits.first != "+", let value = UInt8(digits, radix: 16) else {
      return nil
    }
    decoded.append(value)
    rest.removeFirst(2)
  }
  return decoded
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
