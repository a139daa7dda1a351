import CFuse
import Containers
import Glibc

/// What libfuse said last: its functions return only -1, and print the reason.
///
/// One per process, as libfuse's log function is.
enum LibfuseLog {
  private static let lines = Guarded<[String]>([])

  /// From now on libfuse's messages come here and not to standard error.
  static func capture() {
    fuse_set_log_func { level, format, arguments in LibfuseLog.add(level, format, arguments) }
  }

  static func clear() { lines.withLock { $0 = [] } }

  /// All since `clear`, joined into one line.
  static var text: String { lines.withLock { $0.joined(separator: "; ") } }

  private static func add(
    _ level: fuse_log_level, _ format: UnsafePointer<CChar>?, _ arguments: CVaListPointer?
  ) {
    guard let format, let arguments, level.rawValue <= FUSE_LOG_WARNING.rawValue else { return }
    var room = [CChar](repeating: 0, count: 1024)
    vsnprintf(&room, room.count, format, arguments)
    let text = String(decoding: room.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    append(text)
    Log.debug("libfuse", ["says": text.trimmingPrefix("fuse: ").split(separator: "\n").joined(separator: "; ")])
  }

  static func append(_ text: String) {
    let found = text.split(separator: "\n").map(String.init)
    lines.withLock { $0 = ($0 + found).suffix(5) }
  }
}

/// Runs `body` with standard error caught, and gives what came there: `fusermount3` prints its reasons itself.
func capturingStandardError<R>(_ body: () -> R) -> (R, String) {
  var ends: [Int32] = [-1, -1]
  let saved = fcntl(2, F_DUPFD_CLOEXEC, 3)
  guard saved >= 0, pipe(&ends) == 0 else { return (body(), "") }
  dup2(ends[1], 2)
  close(ends[1])
  let result = body()
  dup2(saved, 2)
  close(saved)
  _ = fcntl(ends[0], F_SETFL, O_NONBLOCK)
  var room = [UInt8](repeating: 0, count: 4096)
  let count = read(ends[0], &room, room.count)
  close(ends[0])
  return (result, String(decoding: room.prefix(max(0, count)), as: UTF8.self))
}
