import CLinux
import Glibc

/// SIGTERM, SIGINT and SIGHUP: blocked everywhere, and taken by one thread that waits for them.
enum EndSignals {
  static let all = [SIGTERM, SIGINT, SIGHUP]

  /// Before any other thread is started, so that all inherit the mask.
  static func block() {
    var set = signalSet()
    pthread_sigmask(SIG_BLOCK, &set, nil)
    signal(SIGPIPE, SIG_IGN)
  }

  /// Runs `first` on the first signal, and `again` on each that follows.
  static func serve(first: @escaping @Sendable (Int32) -> Void, again: @escaping @Sendable (Int32) -> Void) {
    startDetached("signals") {
      first(next())
      while true { again(next()) }
    }
  }

  private static func next() -> Int32 {
    var set = signalSet()
    var number: Int32 = 0
    while sigwait(&set, &number) != 0 {}
    return number
  }

  private static func signalSet() -> sigset_t {
    var set = sigset_t()
    sigemptyset(&set)
    for number in all { sigaddset(&set, number) }
    return set
  }
}
