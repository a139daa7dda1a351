import CCrypto
import CLinux
import Glibc

/// The places of the XDG base directory rules.
enum UserDirectories {
  static func home() throws(Failure) -> FilePath {
    if let home = variable("HOME"), home.isAbsolute { return home }
    if let entry = getpwuid(geteuid()), let text = entry.pointee.pw_dir {
      return FilePath(UnsafeRawBufferPointer(start: text, count: strlen(text)))
    }
    throw Failure("your home folder is not known; set HOME")
  }

  /// `$XDG_STATE_HOME/docsfs`. Not the cache folder: edits that are not uploaded yet live here.
  static func state() throws(Failure) -> FilePath { try base("XDG_STATE_HOME", "local", "state") }

  /// `$XDG_DATA_HOME/docsfs/containers/default`.
  static func defaultContainer() throws(Failure) -> FilePath {
    try base("XDG_DATA_HOME", "local", "share").appending("containers").appending("default")
  }

  private static func base(_ name: String, _ first: String, _ second: String) throws(Failure) -> FilePath {
    if let path = variable(name), path.isAbsolute { return path.appending("docsfs") }
    return try home().appending("." + first).appending(second).appending("docsfs")
  }

  static func variable(_ name: String) -> FilePath? {
    guard let text = getenv(name), text.pointee != 0 else { return nil }
    return FilePath(UnsafeRawBufferPointer(start: text, count: strlen(text)))
  }
}

/// The folder's name below `$XDG_STATE_HOME/docsfs` for a container: readable, and different for each URL.
func stateName(of canonicalURL: String) -> String {
  let last = canonicalURL.prefix { $0 != "?" }.split(separator: "/").last.map(String.init) ?? "container"
  let readable = last.filter { $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) }
    .drop { $0 == "." || $0 == "-" }.prefix(32)
  let digest = sha256(Array(canonicalURL.utf8)).prefix(8).map { byte in
    byte < 16 ? "0" + String(byte, radix: 16) : String(byte, radix: 16)
  }
  return (readable.isEmpty ? "container" : String(readable)) + "-" + digest.joined()
}

private func sha256(_ bytes: [UInt8]) -> [UInt8] {
  var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
  var count: UInt32 = 0
  _ = bytes.withUnsafeBytes { EVP_Digest($0.baseAddress, $0.count, &digest, &count, EVP_sha256(), nil) }
  return Array(digest.prefix(Int(count)))
}
