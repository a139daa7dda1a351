import CFuse
import Containers
import DocsEngine
import Faults
import Glibc
import StorageErrors
import Synchronization

/// What is to become of answers that libfuse has yet to give, by the request's number.
final class ReplyAmendments: Sendable {
  private let waiting = Guarded<[UInt64: (verdict: Verdict, node: NodeID)]>([:])
  private let count = Atomic<Int>(0)

  func add(_ unique: UInt64, _ verdict: Verdict, _ node: NodeID) {
    waiting.withLock { waiting in
      waiting[unique] = (verdict, node)
      count.store(waiting.count, ordering: .releasing)
    }
  }

  /// Whether answers must come through memory, where they can be changed.
  var isEmpty: Bool { count.load(ordering: .acquiring) == 0 }

  func take(_ unique: UInt64) -> (verdict: Verdict, node: NodeID)? {
    guard !isEmpty else { return nil }
    return waiting.withLock { waiting in
      defer { count.store(waiting.count, ordering: .releasing) }
      return waiting.removeValue(forKey: unique)
    }
  }
}

extension Bridge {
  /// libfuse's answers pass through here. nil: this one is as it was.
  func amended(_ vectors: UnsafeMutablePointer<iovec>, _ count: Int32) -> Int? {
    guard !amendments.isEmpty, count > 0, vectors[0].iov_len >= MemoryLayout<fuse_out_header>.size,
      let head = vectors[0].iov_base?.loadUnaligned(as: fuse_out_header.self),
      head.unique != 0, let (verdict, node) = amendments.take(head.unique), head.error == 0
    else { return nil }
    let whole = (0..<Int(count)).reduce(0) { $0 + vectors[$1].iov_len }
    if let errno = verdict.errno {
      // What of it was to land has landed.
      return answer(head.unique, error: errno.wireValue) ? whole : -1
    }
    guard let corruption = verdict.corruption else { return nil }
    var body: [UInt8] = []
    for index in 1..<Int(count) {
      body += UnsafeRawBufferPointer(start: vectors[index].iov_base, count: vectors[index].iov_len)
    }
    body.withUnsafeMutableBytes { corruption.corrupt($0) }
    let taken = body.withUnsafeBytes { answer(head.unique, $0) }
    // The page cache must not keep what is wrong.
    notifier?.invalidateContent(node)
    return taken ? whole : -1
  }
}
