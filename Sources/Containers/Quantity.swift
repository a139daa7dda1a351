/// Sizes, rates, durations and percentages as people write them: `20MiB`, `1.5G`, `80ms`, `2min`, `5%`.
///
/// Units are those of GNU coreutils: `K` and `KiB` are 1024, `KB` (and `kB`) 1000; likewise M, G, T, P.
package enum Quantity {
  /// Whole bytes; a bare number is bytes, `B` may stand behind it. nil for what is no size, or too large.
  package static func bytes(_ text: String) -> Int64? {
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
