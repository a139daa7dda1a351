import CCrypto

// What HTTP servers say of the bytes of a whole file: `Repr-Digest` and `Content-Digest` (RFC 9530), `Digest` (RFC 3230),
// `Content-MD5` (RFC 1864), and `OC-Checksum` of ownCloud and Nextcloud, which is a property there too.
extension ContentDigest {
  /// Asks for them.
  static let wanted = [
    ("Want-Repr-Digest", "sha-256=9, sha-512=5"), ("Want-Digest", "SHA-256, SHA-512, SHA;q=0.5, MD5;q=0.3"),
  ]

  /// nil when the reply to a GET says nothing of the whole file: a part's digests are of no use.
  init?(of response: HTTPResponse) {
    let isWhole = response.status == 200
    let texts = [
      response["repr-digest"], isWhole ? response["content-digest"] : nil, response["digest"],
      isWhole ? response["content-md5"].map { "md5=" + $0 } : nil,
    ]
    let all = texts.compactMap { $0 }.flatMap { Self.fields($0) }
    guard let best = Self.best(all) ?? response["oc-checksum"].flatMap({ ContentDigest(ownCloud: $0) }) else {
      return nil
    }
    self = best
  }

  /// `SHA1:0beec7… MD5:…`, of which the best is taken.
  init?(ownCloud text: String) {
    let all = text.split { $0.isWhitespace }.compactMap { word -> ContentDigest? in
      let pair = word.split(separator: ":", maxSplits: 1)
      guard pair.count == 2, let algorithm = Self.algorithm(pair[0]) else { return nil }
      return hexDecoded(pair[1].utf8).flatMap { ContentDigest(algorithm, whole: $0) }
    }
    guard let best = Self.best(all) else { return nil }
    self = best
  }

  private init?(_ algorithm: Digest.Algorithm, whole bytes: [UInt8]) {
    guard bytes.count == algorithm.length else { return nil }
    self.init(algorithm, bytes)
  }

  /// `sha-256=:…:, sha-512=:…:`, or without colons, in base64.
  private static func fields(_ text: String) -> [ContentDigest] {
    text.split(separator: ",").compactMap { field in
      let pair = field.split(separator: "=", maxSplits: 1)
      guard pair.count == 2, let algorithm = algorithm(pair[0]) else { return nil }
      return base64(pair[1].filter { $0 != ":" && !$0.isWhitespace }).flatMap { ContentDigest(algorithm, whole: $0) }
    }
  }

  private static func algorithm(_ name: Substring) -> Digest.Algorithm? {
    switch name.filter({ $0 != "-" && !$0.isWhitespace }).lowercased() {
    case "sha256": .sha256
    case "sha512": .sha512
    case "sha", "sha1": .sha1
    case "md5": .md5
    default: nil
    }
  }

  private static func best(_ all: [ContentDigest]) -> ContentDigest? {
    [Digest.Algorithm.sha256, .sha512, .sha1, .md5].lazy.compactMap { wanted in
      all.first { $0.algorithm == wanted }
    }.first
  }

  private static func base64(_ text: String) -> [UInt8]? {
    let encoded = Array(text.utf8)
    guard !encoded.isEmpty, encoded.count % 4 == 0, encoded.count <= 256 else { return nil }
    var bytes = [UInt8](repeating: 0, count: encoded.count / 4 * 3)
    let count = EVP_DecodeBlock(&bytes, encoded, Int32(encoded.count))
    guard count == bytes.count else { return nil }
    // It counts the padding as bytes.
    return bytes.dropLast(encoded.suffix(2).count { $0 == 0x3d })
  }
}
