import CLinux
import Containers
import Glibc

/// Lines for the operator, on standard error: `2026-11-30T12:00:00Z error what happened`. Never a secret.
package enum Log {
  package static func error(_ text: @autoclosure () -> String) { write("error", text()) }
  package static func note(_ text: @autoclosure () -> String) { write("note", text()) }

  private static func write(_ level: String, _ text: String) {
    var now = time(nil)
    var parts = tm()
    gmtime_r(&now, &parts)
    var stamp = [CChar](repeating: 0, count: 32)
    strftime(&stamp, stamp.count, "%Y-%m-%dT%H:%M:%SZ", &parts)
    let prefix = String(decoding: stamp.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let line = Array("\(prefix) \(level) \(text)\n".utf8)
    _ = line.withUnsafeBytes { Glibc.write(2, $0.baseAddress, $0.count) }
  }
}

extension Timestamp {
  package init(_ t: Glibc.timespec) {
    let (product, overflow) = Int64(t.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
    self.init(nanoseconds: overflow ? (t.tv_sec < 0 ? .min : .max) : product &+ Int64(t.tv_nsec))
  }
  package var timespec: Glibc.timespec {
    var seconds = nanoseconds / 1_000_000_000
    var rest = nanoseconds % 1_000_000_000
    if rest < 0 {
      seconds -= 1
      rest += 1_000_000_000
    }
    return Glibc.timespec(tv_sec: Int(seconds), tv_nsec: Int(rest))
  }
}
