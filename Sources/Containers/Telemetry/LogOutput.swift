import CLinux
import Glibc

/// Where lines go. Its lock is held while one is written, so that none is mixed with another; nothing waits in there: a
/// pipe, socket or terminal that has no room is passed over.
struct LogOutput {
  private let standardError: Int32
  private var descriptor: Int32
  private var isJournal = false
  private var file: String?
  private var limit: Int64 = .max
  private var size: Int64 = 0
  private(set) var dropped: UInt64 = 0
  /// Of those, what no line has told of yet.
  private var untold: UInt64 = 0

  init(standardError: Int32 = 2) {
    self.standardError = standardError
    descriptor = standardError
  }

  mutating func useStandardError() {
    keepDescriptor()
    var status = stat()
    guard fstat(descriptor, &status) == 0, let stream = getenv("JOURNAL_STREAM") else { return }
    isJournal = String(cString: stream) == "\(status.st_dev):\(status.st_ino)"
  }

  mutating func useFile(_ path: String, limit: Int64) {
    keepDescriptor()
    file = path
    self.limit = limit
    var status = stat()
    if fstat(descriptor, &status) == 0 { size = Int64(status.st_size) }
  }

  /// What is done to standard error from now on, by whoever captures what a program prints, is not done to the log.
  private mutating func keepDescriptor() {
    let copy = fcntl(standardError, F_DUPFD_CLOEXEC, 3)
    if copy >= 0 { descriptor = copy }
  }

  mutating func write(_ line: LogLine) {
    guard hasRoom else {
      dropped += 1
      untold += 1
      return
    }
    if untold > 0 {
      put(LogLine(.warning, line.time, "log lines were dropped", ["lines": untold]))
      untold = 0
    }
    put(line)
  }

  /// A write of up to PIPE_BUF bytes to what poll(2) calls writable does not wait.
  private var hasRoom: Bool {
    var poll = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
    return Glibc.poll(&poll, 1, 0) == 1 && poll.revents & Int16(POLLOUT) != 0
  }

  private mutating func put(_ line: LogLine) {
    let bytes = line.bytes(forJournal: isJournal)
    if file != nil, size + Int64(bytes.count) > limit { rotate() }
    size += Int64(bytes.count)
    _ = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
  }

  /// A file that cannot be begun anew goes on as it is, and is tried again when as much has been written once more.
  private mutating func rotate() {
    size = 0
    guard let file else { return }
    // Somebody may have removed it.
    _ = rename(file, file + ".1")
    let new = lx_open(file, O_WRONLY | O_CREAT | O_APPEND, 0o600)
    guard new >= 0 else { return }
    // What the system or a library prints goes there, too.
    dup2(new, standardError)
    if descriptor == standardError {
      close(new)
    } else {
      close(descriptor)
      descriptor = new
    }
  }
}
