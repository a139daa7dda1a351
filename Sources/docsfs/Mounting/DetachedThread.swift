import CLinux
import Containers

/// A thread of its own, for what blocks; nobody waits for its end. False when the system gives none.
@discardableResult
func startDetached(_ name: String, _ body: @escaping @Sendable () -> Void) -> Bool {
  guard let thread = startThread(name, body) else { return false }
  pthread_detach(thread)
  return true
}
