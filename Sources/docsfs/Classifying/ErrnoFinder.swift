import CLinux
import Foundation
import StorageErrors

/// Finds errnos in what programs print: the system's sentences, in English and in the languages of the environment and
/// of Japan where those are installed, `[Errno 5]` and `os error 5`, and symbols.
struct ErrnoFinder {
  struct Finding: Equatable {
    var symbol: ErrnoSymbol
    /// The line in which it stands, the first if several.
    var line: String
  }

  /// The longest first, so that "No such device or address" is not taken for "No such device".
  private let sentences: [(text: String, symbol: ErrnoSymbol)]

  init(locales: [String] = ErrnoFinder.localesHere) {
    var known: [String: ErrnoSymbol] = [:]
    for locale in ["C"] + locales {
      for (text, symbol) in Self.sentences(in: locale) where known[text] == nil { known[text] = symbol }
    }
    sentences = known.map { ($0.key, $0.value) }.sorted {
      ($0.text.utf8.count, $0.text) > ($1.text.utf8.count, $1.text)
    }
  }

  /// In the order in which they come, each once.
  func find(in text: String) -> [Finding] {
    // Most lines of a long output hold none of them, and most of them stand in no line.
    let all = Data(text.lowercased().utf8)
    let present = sentences.filter { all.range(of: Data($0.text.utf8)) != nil }
    var found: [Finding] = []
    for line in text.split(whereSeparator: \.isNewline).map(String.init) {
      for symbol in Self.symbols(in: line, present) where !found.contains(where: { $0.symbol == symbol }) {
        found.append(Finding(symbol: symbol, line: oneLine(line)))
      }
    }
    return found
  }

  private static func symbols(in line: String, _ sentences: [(text: String, symbol: ErrnoSymbol)]) -> [ErrnoSymbol] {
    guard line.utf8.contains(where: { $0 > 0x40 }) else { return [] }
    var rest = line.lowercased()
    var found: [(place: Int, symbol: ErrnoSymbol)] = []
    for (text, symbol) in sentences {
      while let range = rest.range(of: text) {
        found.append((rest[..<range.lowerBound].utf8.count, symbol))
        // As long as it was, so that places stay comparable.
        rest.replaceSubrange(range, with: String(repeating: " ", count: rest[range].utf8.count))
      }
    }
    return (found + written(in: line)).sorted { $0.place < $1.place }.map(\.symbol)
  }

  /// Symbols, and numbers in the forms of Python and Rust.
  private static func written(in line: String) -> [(place: Int, symbol: ErrnoSymbol)] {
    var found: [(place: Int, symbol: ErrnoSymbol)] = []
    for match in line.matches(of: /\bE[A-Z0-9]{2,}\b/) {
      guard let symbol = ErrnoSymbol(name: String(match.output)) else { continue }
      found.append((line[..<match.range.lowerBound].utf8.count, symbol))
    }
    for match in line.matches(of: /(?:\[Errno |\(os error |\berrno[ =:]+)([0-9]{1,3})\b/) {
      guard let symbol = Int32(match.output.1).flatMap({ ErrnoSymbol($0, on: .current) }) else { continue }
      found.append((line[..<match.range.lowerBound].utf8.count, symbol))
    }
    return found
  }

  /// What the environment says of the language of messages.
  static var chosenLocale: String? {
    ["LC_ALL", "LC_MESSAGES", "LANG"].lazy.compactMap { UserDirectories.variable($0)?.string }.first
  }

  /// Those in which a program that is started now may speak.
  static var localesHere: [String] { [chosenLocale, "ja_JP.UTF-8"].compactMap { $0 } }

  /// strerror(3) of every errno in a locale, in lower case; none where that locale is not installed.
  private static func sentences(in locale: String) -> [(String, ErrnoSymbol)] {
    guard let handle = newlocale((1 << LC_MESSAGES) | (1 << LC_CTYPE), locale, nil) else { return [] }
    defer { freelocale(handle) }
    return ErrnoSymbol.allCases.compactMap { symbol in
      guard let number = symbol.number(on: .current), let text = strerror_l(number, handle) else { return nil }
      return (String(cString: text).lowercased(), symbol == .ENOTSUP ? .EOPNOTSUPP : symbol)
    }
  }
}
