#if canImport(CryptoKit)
  import CryptoKit
  import Foundation

  /// SHA-256.
  final class Digest {
    private var hash = SHA256()
    func update(_ bytes: UnsafeRawBufferPointer) { hash.update(bufferPointer: bytes) }
    /// 32 bytes, as hexadecimal digits.
    func finish() -> String { hexadecimal(hash.finalize()) }
  }
#else
  import CCrypto

  /// SHA-256, by OpenSSL.
  final class Digest {
    private let context = EVP_MD_CTX_new()
    init() { EVP_DigestInit_ex(context, EVP_sha256(), nil) }
    deinit { EVP_MD_CTX_free(context) }

    func update(_ bytes: UnsafeRawBufferPointer) { EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) }
    /// 32 bytes, as hexadecimal digits. Once only.
    func finish() -> String {
      var result = [UInt8](repeating: 0, count: 32)
      var count: UInt32 = 0
      EVP_DigestFinal_ex(context, &result, &count)
      return hexadecimal(result)
    }
  }
#endif

private func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
  bytes.map { $0 < 16 ? "0\(String($0, radix: 16))" : String($0, radix: 16) }.joined()
}

/// The first 16 hexadecimal digits of a SHA-256: enough to tell names apart.
func shortDigest(_ bytes: [UInt8]) -> String {
  let digest = Digest()
  bytes.withUnsafeBytes { digest.update($0) }
  return String(digest.finish().prefix(16))
}
