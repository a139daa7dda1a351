/// What docsfs keeps beside an object's bytes, under the keys and in the forms that rclone uses
/// (rclone.org/s3 "Modification times", rclone.org/docs "Metadata"), so that both see the same times and modes.
enum S3Metadata {
  private static let prefix = "x-amz-meta-"
  /// What an object has beside user metadata, and a copy that replaces metadata would lose.
  private static let kept = [
    "cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires",
    "x-amz-storage-class", "x-amz-website-redirect-location",
  ]
  /// Of a copy: the ETag of what its bytes were copied from. It stays true as long as the object does.
  private static let origin = "x-amz-meta-docsfs-etag"

  static func headers(_ attributes: RemoteAttributes, kind: ItemKind = .file) -> [(name: String, value: String)] {
    var headers: [(name: String, value: String)] = []
    if let mtime = attributes.mtime { headers.append(("x-amz-meta-mtime", text(mtime))) }
    if let mode = attributes.mode {
      let type: UInt32 = kind == .folder ? 0o040000 : 0o100000
      headers.append(("x-amz-meta-mode", String(type | mode & 0o7777, radix: 8)))
    }
    return headers
  }

  /// All of `response`'s object's headers, with those of `attributes` in their place; `etag`: the copy's will be
  /// another, and it shall be known whose bytes it has.
  static func headers(
    of response: HTTPResponse, with attributes: RemoteAttributes, copyOf etag: String? = nil
  ) -> [(name: String, value: String)] {
    let new = headers(attributes) + (etag.map { [(origin, $0)] } ?? [])
    let names = Set(new.map(\.name))
    let old = response.headers.filter { ($0.key.hasPrefix(prefix) || kept.contains($0.key)) && !names.contains($0.key) }
    return old.map { (name: $0.key, value: $0.value) } + new
  }

  static func isCopy(_ response: HTTPResponse, of etag: String) -> Bool { response[origin] == etag }

  static func attributes(_ response: HTTPResponse) -> RemoteAttributes {
    let changed = response["last-modified"].flatMap(seconds(ofHTTPDate:)).flatMap(timestamp)
    return RemoteAttributes(
      mode: response["x-amz-meta-mode"].flatMap { UInt32($0, radix: 8) }.map { $0 & 0o7777 },
      mtime: response["x-amz-meta-mtime"].flatMap(mtime) ?? changed)
  }

  static func timestamp(_ seconds: Int) -> Timestamp? {
    let (nanoseconds, isOver) = Int64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
    return isOver ? nil : Timestamp(nanoseconds: nanoseconds)
  }

  /// Whether a further change of the object would show in its time, which counts whole seconds.
  static func isSettled(_ response: HTTPResponse) -> Bool {
    guard let changed = response["last-modified"].flatMap(seconds(ofHTTPDate:)),
      let now = response["date"].flatMap(seconds(ofHTTPDate:))
    else { return false }
    return changed < now
  }

  /// Seconds since 1970 as a decimal fraction, without zeros at its end.
  static func text(_ time: Timestamp) -> String {
    let magnitude = time.nanoseconds.magnitude
    let digits = String(magnitude % 1_000_000_000)
    var fraction = Array((String(repeating: "0", count: 9 - digits.count) + digits).utf8)
    while fraction.last == UInt8(ascii: "0") { fraction.removeLast() }
    return (time.nanoseconds < 0 ? "-" : "") + String(magnitude / 1_000_000_000)
      + (fraction.isEmpty ? "" : "." + String(decoding: fraction, as: UTF8.self))
  }

  /// nil for what is no such number.
  static func mtime(_ text: String) -> Timestamp? {
    let isNegative = text.hasPrefix("-")
    let parts = text.dropFirst(isNegative ? 1 : 0).split(separator: ".", omittingEmptySubsequences: false)
    guard (1...2).contains(parts.count), parts.allSatisfy({ $0.utf8.allSatisfy { (0x30...0x39).contains($0) } }),
      let seconds = Int64(parts[0])
    else { return nil }
    let fraction = parts.count == 2 ? String(parts[1].prefix(9)) : ""
    guard let nanoseconds = Int64(fraction + String(repeating: "0", count: 9 - fraction.count)) else { return nil }
    let (whole, isOver) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    guard !isOver, case let (sum, isOver) = whole.addingReportingOverflow(nanoseconds), !isOver else { return nil }
    return Timestamp(nanoseconds: isNegative ? -sum : sum)
  }
}
