import StorageErrors

/// Where something stands in what was written to the control file or socket; both count from 1, columns in bytes.
package struct ControlPlace: Equatable, Sendable {
  package var line: Int
  package var column: Int

  package init(line: Int = 1, column: Int = 1) {
    self.line = line
    self.column = column
  }

  package func error(_ message: String, _ errno: Errno = .EINVAL) -> ControlError {
    ControlError(errno, line: line, column: column, message)
  }
}

/// Why a command was refused: what `.docsfs/error` and the socket say, and the errno that the write gets.
///
/// EINVAL: the grammar, or a rule that can do nothing. EEXIST, ENOENT: ids. EFBIG: too long, too many. ETIMEDOUT: `wait`.
package struct ControlError: Error, Equatable, Sendable, CustomStringConvertible {
  package var errno: Errno
  package var line: Int
  package var column: Int
  package var message: String

  package init(_ errno: Errno, line: Int, column: Int, _ message: String) {
    self.errno = errno
    self.line = line
    self.column = column
    self.message = message
  }

  package var description: String { "\(line):\(column): \(message)" }
}
