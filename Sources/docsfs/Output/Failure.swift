import StorageErrors

/// What a command ends with.
enum ExitCode {
  static let done: Int32 = 0
  static let failed: Int32 = 1
  /// Done for some of what was asked.
  static let partly: Int32 = 2
  static let usage: Int32 = 64
  /// No such mount or container.
  static let unavailable: Int32 = 69
  static let tryAgain: Int32 = 75
}

/// Why a command gave up: one line (what, on which path, what to do), and the exit code.
struct Failure: Error, Equatable, CustomStringConvertible {
  var message: String
  var exitCode: Int32

  init(_ message: String, _ exitCode: Int32 = ExitCode.failed) {
    self.message = message
    self.exitCode = exitCode
  }

  /// Of a system call on `path`.
  init(_ what: String, _ path: FilePath, _ errno: Errno, _ exitCode: Int32 = ExitCode.failed) {
    self.init("\(what) \(path): \(errno.message.lowercasedFirst)", exitCode)
  }

  static func usage(_ message: String) -> Failure { Failure(message, ExitCode.usage) }

  var description: String { message }
}
