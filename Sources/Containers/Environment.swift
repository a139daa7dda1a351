import Glibc

/// nil when it is not set, or empty.
func environmentVariable(_ name: String) -> String? {
  guard let text = getenv(name), text.pointee != 0 else { return nil }
  return String(cString: text)
}

/// A small text file; empty when it cannot be read.
func contents(ofSmallFile path: String) -> String {
  guard let file = fopen(path, "re") else { return "" }
  defer { fclose(file) }
  var bytes = [UInt8](repeating: 0, count: 1 << 20)
  let count = fread(&bytes, 1, bytes.count, file)
  return String(decoding: bytes.prefix(count), as: UTF8.self)
}
