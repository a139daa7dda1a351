import Faults

extension Quantity {
  /// `1.5 GiB`.
  static func show(bytes: Int64) -> String {
    var value = Double(bytes)
    var unit = 0
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while value >= 1023.95, unit < units.count - 1 {
      value /= 1024
      unit += 1
    }
    return unit == 0 ? "\(bytes) B" : "\(oneDecimal(value)) \(units[unit])"
  }

  /// `7 s`, `1:05 min`, `2:30 h`.
  static func show(seconds: Double) -> String {
    guard seconds.isFinite, seconds < 1e8 else { return "?" }
    let whole = Int(seconds.rounded(.up))
    func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
    if whole < 60 { return "\(whole) s" }
    if whole < 3600 { return "\(whole / 60):\(two(whole % 60)) min" }
    return "\(whole / 3600):\(two(whole % 3600 / 60)) h"
  }

  /// As `seconds`, of what has lasted so long already.
  static func show(age: Double) -> String { show(seconds: age.rounded(.down)) }

  private static func oneDecimal(_ value: Double) -> String {
    let tenths = Int((value * 10).rounded())
    return "\(tenths / 10).\(tenths % 10)"
  }
}
