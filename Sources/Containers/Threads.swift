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

/// Runs `body` for each number below `count` on up to `width` threads, this one among them, and waits for all. The first
/// failure ends it: what has not begun by then is left out.
func inParallel(
  _ count: Int, width: Int, _ body: @escaping @Sendable (Int) throws(ContainerError) -> Void
) throws(ContainerError) {
  struct Progress {
    var next = 0
    var failure: ContainerError?
  }
  let state = Guarded(Progress())
  let work: @Sendable () -> Void = {
    while true {
      let number = state.withLock { state -> Int? in
        guard state.failure == nil, state.next < count else { return nil }
        defer { state.next += 1 }
        return state.next
      }
      guard let number else { return }
      do throws(ContainerError) { try body(number) } catch {
        state.withLock { if $0.failure == nil { $0.failure = error } }
      }
    }
  }
  let others = (1..<max(1, min(width, count))).compactMap { _ in startThread("docsfs-request", work) }
  work()
  for thread in others { pthread_join(thread, nil) }
  if let failure = state.withLock({ $0.failure }) { throw failure }
}
