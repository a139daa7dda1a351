import CLinux

/// A thread that can be joined. It takes no signals: those are for the program's own thread.
struct Thread {
  private let handle: pthread_t

  /// nil when the system has no room for one more.
  init?(name: String, _ body: @escaping @Sendable () -> Void) {
    var all = sigset_t()
    var before = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_SETMASK, &all, &before)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
    let start = Unmanaged.passRetained(Start(name: name, body: body))
    var handle = pthread_t()
    guard pthread_create(&handle, nil, runThread, start.toOpaque()) == 0 else {
      start.release()
      return nil
    }
    self.handle = handle
  }

  func join() { pthread_join(handle, nil) }
}

private final class Start: Sendable {
  let name: String
  let body: @Sendable () -> Void
  init(name: String, body: @escaping @Sendable () -> Void) {
    self.name = name
    self.body = body
  }
}

private func runThread(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let argument else { return nil }
  let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
  lx_thread_name(start.name)
  start.body()
  return nil
}
