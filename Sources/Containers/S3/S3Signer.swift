import CCrypto
import Glibc

/// AWS Signature Version 4, for S3 (docs.aws.amazon.com, "Signature Calculations for the Authorization Header").
struct S3Signer {
  var credentials: S3Credentials
  var region: String
  /// Seconds since 1970, UTC, as the server counts them.
  var time: Int

  /// SHA-256 of nothing.
  static let emptyPayload = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
  /// For bodies whose digest is not known before they are sent.
  static let unsignedPayload = "UNSIGNED-PAYLOAD"

  /// The headers to send: those given, which must be all `x-amz-…` ones and none but such, with date and signature.
  /// `path` and `query` are encoded as they are sent; `query` is in order.
  func sign(
    method: String, host: String, path: String, query: String, headers: [(name: String, value: String)],
    payload: String
  ) -> [(name: String, value: String)] {
    let stamp = self.stamp
    let day = String(stamp.prefix(8))
    var headers = headers
    headers.append(("x-amz-content-sha256", payload))
    headers.append(("x-amz-date", stamp))
    if let token = credentials.token { headers.append(("x-amz-security-token", token)) }
    let signed = (headers + [("host", host)]).map { ($0.name.lowercased(), $0.value) }.sorted { $0.0 < $1.0 }
    let names = signed.map(\.0).joined(separator: ";")
    let lines = signed.map { "\($0.0):\(Self.collapsed($0.1))\n" }.joined()
    let request = "\(method)\n\(path)\n\(query)\n\(lines)\n\(names)\n\(payload)"
    let scope = "\(day)/\(region)/s3/aws4_request"
    let text = "AWS4-HMAC-SHA256\n\(stamp)\n\(scope)\n\(hex(Digest.of(Array(request.utf8))))"
    var key = Array("AWS4\(credentials.secretKey)".utf8)
    for part in [day, region, "s3", "aws4_request"] { key = hmac(key, part) }
    let signature = hex(hmac(key, text))
    let authorization =
      "AWS4-HMAC-SHA256 Credential=\(credentials.accessKey)/\(scope), SignedHeaders=\(names), Signature=\(signature)"
    return headers + [("Authorization", authorization)]
  }

  /// `20261130T184605Z`.
  private var stamp: String {
    var seconds = time_t(time)
    var parts = tm()
    gmtime_r(&seconds, &parts)
    func digits(_ number: Int32, _ count: Int) -> String {
      let text = String(number)
      return String(repeating: "0", count: max(0, count - text.count)) + text
    }
    return digits(parts.tm_year + 1900, 4) + digits(parts.tm_mon + 1, 2) + digits(parts.tm_mday, 2) + "T"
      + digits(parts.tm_hour, 2) + digits(parts.tm_min, 2) + digits(parts.tm_sec, 2) + "Z"
  }

  /// Without blanks at the ends; runs of blanks are one.
  private static func collapsed(_ value: String) -> String {
    value.split(separator: " ", omittingEmptySubsequences: true).joined(separator: " ")
  }
}

private func hmac(_ key: [UInt8], _ text: String) -> [UInt8] {
  let text = Array(text.utf8)
  var result = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
  var count: UInt32 = 0
  HMAC(EVP_sha256(), key, Int32(key.count), text, text.count, &result, &count)
  return Array(result.prefix(Int(count)))
}
