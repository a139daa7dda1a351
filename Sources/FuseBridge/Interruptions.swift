import CFuse
import Containers
import DocsEngine

/// The interruptions of all requests that wait now, under numbers that are never used again.
///
/// libfuse may call the interrupt function after the request was answered; a number that is not found is
/// harmless where a pointer would dangle.
final class InterruptionTable: Sendable {
  private let state = Guarded<(last: UInt, waiting: [UInt: Interruption])>((0, [:]))

  func add(_ interruption: Interruption) -> UInt {
    state.withLock { state in
      state.last += 1
      state.waiting[state.last] = interruption
      return state.last
    }
  }

  func find(_ key: UInt) -> Interruption? { state.withLock { $0.waiting[key] } }
  func remove(_ key: UInt) { state.withLock { _ = $0.waiting.removeValue(forKey: key) } }
}

/// libfuse's callback. It holds a reference to the request meanwhile, so that an answer made in here is safe.
func requestInterrupted(_ raw: fuse_req_t?, _ data: UnsafeMutableRawPointer?) {
  guard let raw, let userdata = fuse_req_userdata(raw) else { return }
  Bridge.of(userdata: userdata).interruptions.find(UInt(bitPattern: data))?.cancel()
}
