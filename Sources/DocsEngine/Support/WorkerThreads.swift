import CLinux
import Containers
import Glibc

/// Plain threads for work that blocks. Swift's own pool has as many threads as cores, and must never block.
final class WorkerThreads: Sendable {
  private let threads = Guarded<[pthread_t]>([])

  func spawn(_ name: String, _ body: @escaping @Sendable () -> Void) {
    let box = Unmanaged.passRetained(ThreadBody(name: name, body: body))
    var thread = pthread_t()
    let code = pthread_create(
      &thread, nil,
      { raw in
        guard let raw else { return nil }
        let body = Unmanaged<ThreadBody>.fromOpaque(raw).takeRetainedValue()
        lx_thread_name(body.name)
        body.body()
        return nil
      }, box.toOpaque())
    guard code == 0 else {
      box.release()
      Log.error("no thread for \(name): \(String(cString: strerror(code)))")
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
  let body: @Sendable () -> Void
  init(name: String, body: @escaping @Sendable () -> Void) {
    self.name = name
    self.body = body
  }
}
