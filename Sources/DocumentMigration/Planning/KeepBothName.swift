/// `name 2.ext`: what a document is called when both are kept.
enum KeepBothName {
  /// At most `longest` bytes: the stem is cut, never within a character, be it one of several code points.
  static func make(_ name: [UInt8], _ number: Int, longest: Int) -> [UInt8] {
    let dot = name.lastIndex(of: 0x2e).flatMap { $0 > 0 && name.count - $0 <= 33 ? $0 : nil } ?? name.count
    let ending = Array(" \(number)".utf8) + name[dot...]
    return cut(Array(name[..<dot]), to: longest - ending.count) + ending
  }

  private static func cut(_ stem: [UInt8], to count: Int) -> [UInt8] {
    guard stem.count > count else { return stem }
    guard var text = String(validating: stem, as: UTF8.self) else { return Array(stem.prefix(max(1, count))) }
    while text.utf8.count > count, text.count > 1 { text.removeLast() }
    return Array(text.utf8)
  }
}
