import CCrypto

/// A running digest, by OpenSSL.
package final class Digest {
  package enum Algorithm: Sendable {
    case sha256
    case sha512
    case sha1
    case md5

    fileprivate var method: OpaquePointer? {
      switch self {
      case .sha256: EVP_sha256()
      case .sha512: EVP_sha512()
      case .sha1: EVP_sha1()
      case .md5: EVP_md5()
      }
    }

    /// Bytes of a digest.
    package var length: Int {
      switch self {
      case .sha256: 32
      case .sha512: 64
      case .sha1: 20
      case .md5: 16
      }
    }
  }

  private let context = EVP_MD_CTX_new()

  package init(_ algorithm: Algorithm = .sha256) {
    EVP_DigestInit_ex(context, algorithm.method, nil)
  }
  deinit { EVP_MD_CTX_free(context) }

  package func update(_ bytes: UnsafeRawBufferPointer) { EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) }
  /// Ends it; once.
  package func finish() -> [UInt8] {
    var result = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
    var count: UInt32 = 0
    EVP_DigestFinal_ex(context, &result, &count)
    return Array(result.prefix(Int(count)))
  }
}

extension Digest {
  package static func of(_ bytes: [UInt8], _ algorithm: Algorithm = .sha256) -> [UInt8] {
    let digest = Digest(algorithm)
    bytes.withUnsafeBytes(digest.update)
    return digest.finish()
  }
}
