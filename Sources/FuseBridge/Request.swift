import CFuse
import Containers
import DocsEngine
import Faults
import StorageErrors
import Synchronization

/// One request of the kernel, to be answered exactly once. A second answer is dropped, a forgotten one is EIO.
final class Request: @unchecked Sendable {  // `raw` is libfuse's for any thread; `answered` lets one answer
  private let raw: OpaquePointer
  /// What its answer counts as; nil: what reaches no caller is not counted.
  private let operation: FaultOperation?
  let bridge: Bridge
  private let answered = Atomic<Bool>(false)
  /// Its number in the table of interruptions; 0: it has never waited.
  private let interruptionKey = Atomic<UInt>(0)

  init?(_ raw: fuse_req_t?, _ operation: FaultOperation?) {
    guard let raw, let userdata = fuse_req_userdata(raw) else { return nil }
    self.raw = raw
    self.operation = operation
    bridge = Bridge.of(userdata: userdata)
  }

  deinit {
    guard claim() else { return }
    Log.error("a request was dropped without an answer")
    count(.EIO)
    fuse_reply_err(raw, Errno.EIO.wireValue)
  }

  var volume: Volume { bridge.volume }

  var caller: Caller {
    guard let context = fuse_req_ctx(raw)?.pointee else { return Caller(uid: 0, gid: 0, pid: 0) }
    return Caller(uid: context.uid, gid: context.gid, pid: context.pid)
  }

  /// Answers through `send`, which must consume libfuse's request: 0 when the kernel took the answer. False when
  /// it did not, because the caller was interrupted or the mount is gone. `error`: what the answer says, nil for success.
  @discardableResult
  func answer(error: Errno? = nil, _ send: (OpaquePointer) -> Int32) -> Bool {
    guard claim() else {
      Log.error("a request was answered twice")
      return false
    }
    count(error)
    return send(raw) == 0
  }

  @inline(__always)
  private func count(_ error: Errno?) {
    if let operation { bridge.traffic.count(operation, error?.wireValue ?? 0) }
  }

  /// So many bytes of a file go out with the answer, or have come with the request.
  func moved(_ count: Int) {
    switch operation {
    case .read: bridge.traffic.read.add(count)
    case .write: bridge.traffic.written.add(count)
    default: break
    }
  }

  private func claim() -> Bool {
    guard !answered.exchange(true, ordering: .acquiringAndReleasing) else { return false }
    let key = interruptionKey.load(ordering: .acquiring)
    if key != 0 { bridge.interruptions.remove(key) }
    return true
  }

  /// For the engine, which calls it just before it waits.
  var wait: Interruptible { { self.interruption() } }

  private func interruption() -> Interruption {
    let known = interruptionKey.load(ordering: .acquiring)
    if known != 0, let interruption = bridge.interruptions.find(known) { return interruption }
    let interruption = Interruption()
    guard known == 0, !answered.load(ordering: .acquiring) else { return interruption }
    let key = bridge.interruptions.add(interruption)
    interruptionKey.store(key, ordering: .releasing)
    // An interrupt that is there already is told at once, with libfuse's lock of this request held: an answer
    // made in there would free that lock. The engine has no action yet, so that it is only marked.
    fuse_req_interrupt_func(raw, requestInterrupted, UnsafeMutableRawPointer(bitPattern: key))
    return interruption
  }
}

/// Decodes and starts one request, which counts as `operation`; what `body` throws is its answer.
@inline(__always)
func serve(_ raw: fuse_req_t?, _ operation: FaultOperation?, _ body: (Request) throws(Errno) -> Void) {
  guard let request = Request(raw, operation) else { return }
  do {
    try body(request)
  } catch {
    request.fail(error)
  }
}
