/// Sizes, rates, durations and percentages as people write them: `20MiB`, `1.5G`, `80ms`, `2min`, `5%`.
///
/// Units are those of GNU coreutils: `K` and `KiB` are 1024, `KB` (and `kB`) 1000; likewise M, G, T, P.
package enum Quantity {
  /// Whole bytes; a bare number is bytes, `B` may stand behind it. nil for what is no size, or too large.
  package static func bytes(_ text: String) -> Int64? {
    if let exact = Int64(text), text.first != "+", exact >= 0, text != "-0" { return exact }
    guard let (number, unit) = split(text), let factor = sizes[unit] else { return nil }
    return whole(number * factor)
  }

  /// Bytes per second: a size, with or without `/s`. Above 0.
  package static func rate(_ text: String) -> Int64? {
    let size = text.hasSuffix("/s") ? String(text.dropLast(2)) : text
    return bytes(size).flatMap { $0 > 0 ? $0 : nil }
  }

  /// Seconds; a bare number is seconds. Units: us, ms, s, min (or m), h, d.
  package static func seconds(_ text: String) -> Double? {
    guard let (number, unit) = split(text), let factor = durations[unit] else { return nil }
    return number * factor <= 1e9 ? number * factor : nil
  }

  /// Whole nanoseconds, exactly where the number is whole; units as of `seconds`, and ns.
  package static func nanoseconds(_ text: String) -> UInt64? {
    guard let (number, unit) = split(text), let factor = nanosecondUnits[unit] else { return nil }
    let digits = text.dropLast(unit.count)
    if let whole = UInt64(digits) {
      let (product, overflow) = whole.multipliedReportingOverflow(by: factor)
      return overflow || product > longest ? nil : product
    }
    let product = (number * Double(factor)).rounded()
    return product <= Double(longest) ? UInt64(product) : nil
  }

  /// The shortest text that `nanoseconds` reads back.
  package static func text(nanoseconds: UInt64) -> String {
    let units: [(String, UInt64)] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000)]
    for (unit, size) in units where nanoseconds % size == 0 { return "\(nanoseconds / size)\(unit)" }
    return "\(nanoseconds)ns"
  }

  /// The shortest text that `bytes` reads back.
  package static func text(bytes: Int64) -> String {
    let units: [(String, Int64)] = [("P", 1 << 50), ("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)]
    // Above 2^53 a number with a unit is no longer read exactly.
    for (unit, size) in units where bytes > 0 && bytes % size == 0 && bytes < 1 << 53 {
      return "\(bytes / size)\(unit)"
    }
    return "\(bytes)"
  }

  /// A share of 1: `5%` is 0.05. From 0 to 100 %.
  package static func percent(_ text: String) -> Double? {
    guard let (number, unit) = split(text), unit == "%", number <= 100 else { return nil }
    return number / 100
  }

  private static let sizes: [String: Double] = {
    var sizes: [String: Double] = ["": 1, "B": 1, "kB": 1e3, "k": 1024]
    var binary = 1024.0
    var decimal = 1e3
    for letter in ["K", "M", "G", "T", "P"] {
      sizes[letter] = binary
      sizes[letter + "iB"] = binary
      sizes[letter + "B"] = decimal
      binary *= 1024
      decimal *= 1e3
    }
    return sizes
  }()

  private static let durations: [String: Double] = [
    "": 1, "us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400,
  ]

  private static let nanosecondUnits: [String: UInt64] = {
    var units: [String: UInt64] = ["ns": 1]
    for (unit, seconds) in durations { units[unit] = UInt64((seconds * 1e9).rounded()) }
    return units
  }()
  /// Nanoseconds: as for `seconds`.
  private static let longest: UInt64 = 1_000_000_000_000_000_000

  /// A number without sign or exponent, and what follows it.
  private static func split(_ text: String) -> (number: Double, unit: String)? {
    let digits = text.prefix { ("0"..."9").contains($0) || $0 == "." }
    guard digits.first != ".", digits.last != ".", let number = Double(digits), number.isFinite else {
      return nil
    }
    return (number, String(text.dropFirst(digits.count)))
  }

  private static func whole(_ number: Double) -> Int64? {
    number < 0x1p63 ? Int64(number.rounded()) : nil
  }
}
