import CLinux
import Containers
import Glibc

/// The terminal's other screen, on which one frame replaces the last without a moment in between.
final class WatchScreen: Sendable {
  private enum State {
    case unused, shown, left
  }
  private let state = Guarded(State.unused)

  init() {
    // The width of a character is the locale's affair.
    setlocale(LC_CTYPE, "")
  }

  /// False when the terminal is gone.
  func show(_ lines: [String]) -> Bool {
    state.withLock { state in
      if case .left = state { return true }
      // ?1049: the other screen; ?25: the cursor.
      var text = ""
      if case .unused = state { text += "\u{1b}[?1049h\u{1b}[?25l" }
      state = .shown
      text += Self.frame(lines, width: Console.width, height: Console.height)
      return writeAll(Array(text.utf8), to: STDOUT_FILENO)
    }
  }

  /// The terminal as it was before. Nothing is shown from then on.
  func leave() {
    state.withLock { state in
      if case .shown = state { Console.write("\u{1b}[?25h\u{1b}[?1049l", to: STDOUT_FILENO) }
      state = .left
    }
  }

  /// Each line is written over the old one, and only what is behind it is cleared: nothing flickers.
  static func frame(_ lines: [String], width: Int, height: Int) -> String {
    var shown = lines[...]
    if lines.count > height {
      shown = lines.prefix(max(0, height - 1)) + ["(\(lines.count - height + 1) more lines)"]
    }
    let body = shown.map { line in
      let (text, columns) = cut(oneLine(line), to: width)
      // In a line that is full it would take the last character.
      return columns < width ? text + "\u{1b}[K" : text
    }.joined(separator: "\r\n")
    return "\u{1b}[H" + body + "\u{1b}[J"
  }

  /// The most of `line` that `width` columns hold, and how many it takes.
  static func cut(_ line: String, to width: Int) -> (text: String, columns: Int) {
    var used = 0
    var result = ""
    for character in line {
      let columns = character.unicodeScalars.reduce(0) { $0 + Int(lx_columns($1.value)) }
      if used + columns > width { break }
      used += columns
      result.append(character)
    }
    return (result, used)
  }
}
