import CLinux
import Glibc

/// The terminal or file that the command talks to.
enum Console {
  static let isTerminal = isatty(STDOUT_FILENO) == 1
  static let errorIsTerminal = isatty(STDERR_FILENO) == 1

  static func print(_ text: String) { write(text + "\n", to: STDOUT_FILENO) }

  /// Exactly one line, whatever `message` holds.
  static func error(_ message: String) { write("docsfs: " + oneLine(message) + "\n", to: STDERR_FILENO) }

  static func write(_ text: String, to descriptor: Int32) { _ = writeAll(Array(text.utf8), to: descriptor) }

  /// Columns of the terminal, 80 where there is none.
  static var width: Int { size.ws_col > 0 ? Int(size.ws_col) : 80 }
  /// Its lines, 24 where there is none.
  static var height: Int { size.ws_row > 0 ? Int(size.ws_row) : 24 }

  private static var size: winsize {
    var size = winsize()
    return ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 ? size : winsize()
  }
}

/// Control characters, line ends among them, become blanks.
func oneLine(_ text: String) -> String {
  String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 0x20 || $0.value == 0x7f ? " " : $0 }))
}

/// Writes all of `bytes`; false when the other side has gone or does not take them in time.
func writeAll(_ bytes: [UInt8], to descriptor: Int32) -> Bool {
  var rest = bytes[...]
  while !rest.isEmpty {
    let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
    if count < 0 {
      if errno == EINTR { continue }
      return false
    }
    rest = rest.dropFirst(count)
  }
  return true
}
