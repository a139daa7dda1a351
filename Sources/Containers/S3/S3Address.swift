/// Where an S3 container is. `prefix` is without a slash at its ends; empty: the whole bucket.
struct S3Address: Sendable, Equatable {
  var bucket: String
  var prefix: [UInt8] = []
  /// Scheme and host, without a path.
  var endpoint: String
  var region: String
  /// Whether the bucket stands in the path instead of the host's name.
  var isPathStyle = false

  /// The key of an item; a folder's marker ends with a slash. The root has none.
  func key(_ path: ContainerPath) -> [UInt8] {
    prefix.isEmpty ? path.bytes : path.isRoot ? prefix : prefix + [0x2f] + path.bytes
  }

  /// What all keys in a folder begin with.
  func folderKey(_ path: ContainerPath) -> [UInt8] {
    let key = key(path)
    return key.isEmpty ? [] : key + [0x2f]
  }

  var scheme: String { String(endpoint.prefix { $0 != ":" }) }
  /// As the Host header has it: without the scheme's own port.
  var host: String {
    var host = String(endpoint.dropFirst(scheme.count + 3))
    let port = scheme == "https" ? ":443" : ":80"
    if host.hasSuffix(port) { host.removeLast(port.count) }
    return isPathStyle ? host : "\(bucket).\(host)"
  }

  /// An object's place in a URL, percent-encoded; nil: the bucket's own.
  func path(_ key: [UInt8]?) -> String {
    let object = percentEncoded(path: key ?? [])
    return isPathStyle ? "/\(percentEncoded(bucket))\(key == nil ? "" : "/")\(object)" : "/\(object)"
  }

  /// As people write it, without credentials, which it never holds.
  var url: String { "s3://\(bucket)" + (prefix.isEmpty ? "" : "/" + percentEncoded(path: prefix)) }
}

/// The options of an S3 URL.
struct S3Options {
  static let names = ["endpoint", "region", "path_style", "profile"]

  var endpoint: String?
  var region: String?
  var isPathStyle: Bool?
  var profile: String?

  /// False: there is no such option.
  mutating func set(_ name: String, _ value: String) throws(ContainerURLError) -> Bool {
    switch name {
    case "endpoint": endpoint = try Self.endpoint(value)
    case "region" where !value.isEmpty: region = value
    case "profile" where !value.isEmpty: profile = value
    case "region", "profile": throw .usage("\(name)=: a name must follow")
    case "path_style":
      guard value == "0" || value == "1" else { throw .usage("path_style=\(value): write 0 or 1") }
      isPathStyle = value == "1"
    default: return false
    }
    return true
  }

  /// Scheme, host and port, and nothing else.
  private static func endpoint(_ text: String) throws(ContainerURLError) -> String {
    let form = "write it like https://s3.example.org or http://127.0.0.1:8333"
    // A text with a password in it is not shown.
    guard !text.contains("@") else { throw .usage("endpoint= must hold no credentials; AWS's environment does") }
    let trimmed = text.hasSuffix("/") ? String(text.dropLast()) : text
    guard let scheme = ["http://", "https://"].first(where: trimmed.hasPrefix),
      case let host = trimmed.dropFirst(scheme.count), !host.isEmpty,
      host.utf8.allSatisfy({ (0x21...0x7e).contains($0) && ![0x2f, 0x3f, 0x23, 0x26, 0x22, 0x5c].contains($0) })
    else { throw .usage("endpoint=\(text): not an address; \(form)") }
    return trimmed
  }

  /// What was not given is AWS's, or what its tools would take.
  func address(_ bucket: String, prefix: [UInt8]) -> S3Address {
    let settings = AWSSettings(profile: profile)
    let region = region ?? settings.region ?? "us-east-1"
    let given = endpoint ?? settings.endpoint.flatMap { try? Self.endpoint($0) }
    // A certificate for *.host does not cover a bucket's name with dots in it.
    let isPathStyle = isPathStyle ?? (given != nil || bucket.contains("."))
    return S3Address(
      bucket: bucket, prefix: prefix, endpoint: given ?? "https://s3.\(region).amazonaws.com", region: region,
      isPathStyle: isPathStyle)
  }
}
