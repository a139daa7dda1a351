// Other metadata for the same bytes.

extension S3Container {
  /// Larger ones are copied at the store.
  private static let rewrittenSize: Int64 = 8 << 20

  /// Gives an object other metadata, as a replacement that carries a condition; nil: it is too large for that, or the
  /// store keeps no conditions.
  ///
  /// A store knows metadata as a part of an object. Copying the object onto itself is no single step there: SeaweedFS
  /// reads it, and writes what it has read over what somebody else has put there meanwhile. So the bytes go back and
  /// forth: their version stays, where it is a digest of them.
  func rewrite(
    _ key: [UInt8], _ version: Version, size: Int64, headers: [(name: String, value: String)], _ what: String,
    _ call: CallContext
  ) throws(ContainerError) -> Version? {
    guard size <= Self.rewrittenSize, try rules(call).keepsVersion else { return nil }
    let condition = (name: "If-Match", value: quoted(version))
    let found = try client.require(
      .init(method: "GET", key: key, headers: [condition], what: what), call, limit: Int(size))
    guard etag(found) == version, found.body.count == size else {
      throw changed(what, "it has another version by now")
    }
    if let sum = checksum(of: version), Digest.of(found.body, sum.algorithm) != sum.bytes {
      throw ContainerError(.inconsistent, "\(what): its bytes do not match the store's checksum")
    }
    call.progress()
    let put = S3Client.Request(
      method: "PUT", key: key, headers: headers + [condition], body: .bytes(found.body), what: what)
    let answer = try client.require(put, call)
    guard let published = etag(answer) else {
      throw ContainerError(.inconsistent, "\(what): the store tells no ETag")
    }
    return published
  }
}
