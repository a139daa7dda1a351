import CLinux
import Containers
import Glibc

/// Plain threads for work that blocks. Swift's own pool has as many threads as cores, and must never block.
final class WorkerThreads: Sendable {
  private let threads = Guarded<[pthread_t]>([])

  /// `isBackground`: gives way to those that somebody waits for.
  func spawn(_ name: String, isBackground: Bool = false, _ body: @escaping @Sendable () -> Void) {
    let box = Unmanaged.passRetained(ThreadBody(name: name, isBackground: isBackground, body: body))
    var thread = pthread_t()
    let code = pthread_create(
      &thread, nil,
      { raw in
        guard let raw else { return nil }
        let body = Unmanaged<ThreadBody>.fromOpaque(raw).takeRetainedValue()
        lx_thread_name(body.name)
        if body.isBackground { lx_thread_background() }
        body.body()
        return nil
      }, box.toOpaque())
    guard code == 0 else {
      box.release()
      Log.error("no thread is left", ["for": name, "error": String(cString: strerror(code))])
      return
    }
    threads.withLock { $0.append(thread) }
  }

  func join() {
    let all = threads.withLock { threads in
      defer { threads = [] }
      return threads
    }
    for thread in all { pthread_join(thread, nil) }
  }
}

private final class ThreadBody: Sendable {
  let name: String
  let isBackground: Bool
  let body: @Sendable () -> Void
  init(name: String, isBackground: Bool, body: @escaping @Sendable () -> Void) {
    self.name = name
    self.isBackground = isBackground
    self.body = body
  }
}
