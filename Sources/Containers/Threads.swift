import CLinux
import Glibc

/// Starts a joinable thread; nil when the system gives none. `name` has 15 bytes at most.
package func startThread(_ name: String, _ body: @escaping @Sendable () -> Void) -> pthread_t? {
  let task = Unmanaged.passRetained(ThreadTask(name: name, body: body))
  var thread = pthread_t()
  let failure = pthread_create(&thread, nil, runThread, task.toOpaque())
  guard failure == 0 else {
    task.release()
    return nil
  }
  return thread
}

private final class ThreadTask: Sendable {
  let name: String
  let body: @Sendable () -> Void
  init(name: String, body: @escaping @Sendable () -> Void) {
    self.name = name
    self.body = body
  }
}

private func runThread(_ task: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  guard let task else { return nil }
  let work = Unmanaged<ThreadTask>.fromOpaque(task).takeRetainedValue()
  lx_thread_name(work.name)
  work.body()
  return nil
}
