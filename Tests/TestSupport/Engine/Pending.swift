import Containers
import DocsEngine
import StorageErrors
import XCTest

/// A request that was made of a volume, and its one answer.
package final class Pending<T: Sendable>: Sendable {
  private let answer = Guarded<Result<T, Errno>?>(nil)
  private let interruption = Interruption()

  package init(_ call: (@escaping Interruptible, @escaping Reply<T>) -> Void) {
    call({ self.interruption }, { self.take($0) })
  }

  private func take(_ result: Result<T, Errno>) {
    let isFirst = answer.signal { answer in
      defer { answer = answer ?? result }
      return answer == nil
    }
    if !isFirst { XCTFail("a request was answered twice") }
  }

  package var isAnswered: Bool { answer.withLock { $0 != nil } }
  package func interrupt() { interruption.cancel() }

  /// Waits for the answer; ETIME when none comes.
  package func result() -> Result<T, Errno> {
    answer.next(until: Containers.Clock.now() + 60_000_000_000) { $0 } ?? .failure(Errno(rawValue: ETIME))
  }
  package func get() throws(Errno) -> T { try result().get() }

  /// The errno of a request that failed.
  package var failure: Errno? {
    guard case .failure(let errno) = result() else { return nil }
    return errno
  }
}

/// Waits until `isSo`; whether it became so. For what happens in the background, in its own time.
package func eventually(_ isSo: () throws -> Bool) rethrows -> Bool {
  let end = Containers.Clock.now() + 30_000_000_000
  while try !isSo() {
    guard Containers.Clock.now() < end else { return false }
    usleep(5_000)
  }
  return true
}

/// A kernel that writes down what it is told.
package final class RecordingCache: KernelCache {
  package enum Event: Hashable, Sendable {
    case entry(NodeID, ItemName)
    case attributes(NodeID)
    case content(NodeID)
  }
  private let seen = Guarded<[Event]>([])
  package init() {}

  package var events: [Event] { seen.withLock { $0 } }
  package func forget() { seen.withLock { $0 = [] } }
  package func invalidateEntry(_ folder: NodeID, _ name: ItemName) {
    seen.withLock { $0.append(.entry(folder, name)) }
  }
  package func invalidateAttributes(_ node: NodeID) { seen.withLock { $0.append(.attributes(node)) } }
  package func invalidateContent(_ node: NodeID) { seen.withLock { $0.append(.content(node)) } }
}
