import CLinux
import Glibc

/// `name (conflict HOST YYYY-MM-DD HH.MM.SS).ext`: what a content is kept as when another one has its name.
package enum ConflictName {
  /// `time` in seconds since 1970, shown in local time. `attempt` tells names of one second apart, from 1 on.
  /// The result has at most 255 bytes: the stem is cut, at a character's start where it is UTF-8.
  package static func make(
    for name: ItemName, isFolder: Bool = false, host: String = host, time: Int = now, attempt: Int = 1
  ) -> ItemName {
    let (stem, ending) = split(name.bytes, isFolder: isFolder)
    let count = attempt > 1 ? " \(attempt)" : ""
    let tag = Array(" (conflict \(host) \(stamp(time))\(count))".utf8)
    let kept = cut(stem, to: max(1, 255 - tag.count - ending.count))
    return (try? ItemName(kept + tag + ending)) ?? name
  }

  package static var now: Int { Glibc.time(nil) }

  /// This machine's name up to the first dot; what a file name should not hold is left out.
  package static var host: String {
    var room = [CChar](repeating: 0, count: 256)
    guard gethostname(&room, room.count - 1) == 0 else { return "localhost" }
    let label = room.prefix { $0 != 0 && $0 != 0x2e }.map { UInt8(bitPattern: $0) }
    let text = String(decoding: label, as: UTF8.self).unicodeScalars.filter {
      $0.value > 0x20 && $0 != "/" && $0 != "\u{fffd}"
    }
    return text.isEmpty ? "localhost" : String(String(String.UnicodeScalarView(text)).prefix(63))
  }

  /// The ending with its dot: after the last dot, unless it is a hidden name's only one or is no ending by
  /// its length.
  private static func split(_ name: [UInt8], isFolder: Bool) -> (stem: [UInt8], ending: [UInt8]) {
    guard !isFolder, let dot = name.lastIndex(of: 0x2e), dot > 0, name.count - dot <= 33 else {
      return (name, [])
    }
    return (Array(name[..<dot]), Array(name[dot...]))
  }

  private static func cut(_ stem: [UInt8], to count: Int) -> [UInt8] {
    guard stem.count > count else { return stem }
    var end = count
    while end > max(1, count - 3), stem[end] & 0xc0 == 0x80 { end -= 1 }
    return Array(stem[..<end])
  }

  private static func stamp(_ time: Int) -> String {
    var time = time
    var parts = tm()
    localtime_r(&time, &parts)
    let two = { (n: Int32) in n < 10 ? "0\(n)" : "\(n)" }
    return "\(parts.tm_year + 1900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday)) "
      + "\(two(parts.tm_hour)).\(two(parts.tm_min)).\(two(parts.tm_sec))"
  }
}
