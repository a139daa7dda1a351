import CLinux
import Containers
import Glibc
import StorageErrors

/// fsync for everybody who waits at a moment: each content file once, then one sync of the catalog's log.
final class Durability: Sendable {
  private struct Request: Sendable {
    var file: ContentFile?
    var done: @Sendable (Errno?) -> Void
  }
  private struct State {
    var requests: [Request] = []
    var isStopped = false
  }
  private let state = Guarded(State())
  private let threads = WorkerThreads()
  private let catalog: Catalog

  init(catalog: Catalog) { self.catalog = catalog }

  func start() {
    for _ in 0..<2 { threads.spawn("docsfs-sync") { self.run() } }
  }
  func stop() {
    state.signal { $0.isStopped = true }
    threads.join()
  }

  /// Commits what is queued, then makes it and the bytes of `file` (nil: no bytes) safe against power loss.
  func sync(_ file: ContentFile?, name: Int64, _ volume: Volume, _ done: @escaping @Sendable (Errno?) -> Void) {
    volume.commit { errno in
      if let errno { return done(errno) }
      // The name of the content file lies in a folder of its own.
      if name != 0, let errno = volume.store.syncName(name) { return done(errno) }
      self.state.signal { $0.requests.append(Request(file: file, done: done)) }
    }
  }

  private func run() {
    while let batch = state.next(nextBatch) {
      if batch.isEmpty { return }
      answer(batch)
    }
  }

  private func nextBatch(_ state: inout State) -> [Request]? {
    guard !state.requests.isEmpty else { return state.isStopped ? [] : nil }
    defer { state.requests = [] }
    return state.requests
  }

  private func answer(_ batch: [Request]) {
    var results: [Int32: Errno?] = [:]
    for request in batch {
      guard let file = request.file, results[file.fd] == nil else { continue }
      results[file.fd] = .some(fsync(file.fd) == 0 ? nil : Errno.current)
    }
    let catalogResult = catalog.sync()
    for request in batch {
      let own = request.file.flatMap { results[$0.fd] ?? nil }
      request.done(own ?? catalogResult)
    }
  }
}
