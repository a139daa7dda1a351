/// Sizes and times as people type them, and as they are shown.
enum Quantity {
  /// Bytes of `10GiB`, `10G`, `1.5 M`, `4096`; K, M, G, T are powers of 1024, KB, MB, … of 1000. nil: no size.
  static func bytes(_ text: String) -> Int64? {
    guard let (number, unit) = split(text), let factor = byteFactor(unit.lowercased()) else { return nil }
    let value = number * factor
    return value < 9e18 ? Int64(value) : nil
  }

  /// Seconds of `30s`, `500ms`, `2m`, `1h`, `30`. nil: no time.
  static func seconds(_ text: String) -> Double? {
    guard let (number, unit) = split(text), number < 1e9 else { return nil }
    switch unit {
    case "", "s", "sec": return number
    case "ms": return number / 1000
    case "m", "min": return number * 60
    case "h": return number * 3600
    case "d": return number * 86_400
    default: return nil
    }
  }

  /// `5%` as 5. nil: no percentage from 0 to 100.
  static func percent(_ text: String) -> Double? {
    guard text.hasSuffix("%"), let (number, unit) = split(String(text.dropLast())), unit.isEmpty,
      number <= 100
    else { return nil }
    return number
  }

  /// `1.5 GiB`.
  static func show(bytes: Int64) -> String {
    var value = Double(bytes), unit = 0
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

  private static func oneDecimal(_ value: Double) -> String {
    let tenths = Int((value * 10).rounded())
    return "\(tenths / 10).\(tenths % 10)"
  }

  /// A number that is not negative, and the unit behind it.
  private static func split(_ text: String) -> (Double, String)? {
    let digits = text.prefix { $0.isASCII && $0.isNumber || $0 == "." }
    guard let number = Double(digits), number.isFinite else { return nil }
    let unit = text.dropFirst(digits.count).drop { $0 == " " }
    return (number, String(unit))
  }

  private static func byteFactor(_ unit: String) -> Double? {
    if unit.isEmpty || unit == "b" { return 1 }
    guard let letter = unit.first, let power = ["k": 1.0, "m": 2, "g": 3, "t": 4, "p": 5][letter] else {
      return nil
    }
    switch unit.dropFirst() {
    case "", "ib": return raise(1024, Int(power))
    case "b": return raise(1000, Int(power))
    default: return nil
    }
  }

  private static func raise(_ base: Double, _ power: Int) -> Double {
    (0..<power).reduce(1) { value, _ in value * base }
  }
}
