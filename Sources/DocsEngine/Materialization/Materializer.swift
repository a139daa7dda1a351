import CLinux
import Containers
import Glibc
import StorageErrors

/// Brings missing bytes: what somebody reads first, then whole files, in ranged fetches on threads of its own.
///
/// A fetch is one request. Bytes count as local, and wake who waits for them, as they come. Any number of readers
/// of one content share its fetches.
final class Materializer: Sendable {
  /// A fetch for a reader of a file that is to become whole anyway: enough for the read-ahead that follows, little
  /// enough to leave room for other readers.
  private static let demandLength: Int64 = 1 << 20
  static let streamLength: Int64 = 4 << 20
  private static let workers = 16
  /// The rest of the workers is kept for readers.
  private static let streamWorkers = 12
  private static let fetchesPerContent = 8
  /// So often a file is fetched again that does not add up to its digest, before its readers are told.
  private static let proofs = 3

  private struct State {
    /// Contents that somebody waits for, and contents that are to become whole.
    var urgent: [Content] = []
    var streams: [Content] = []
    var streaming = 0
    var running: [UInt64: (call: CallContext, content: Content)] = [:]
    var nextRun: UInt64 = 0
    /// Contents with bytes that the catalog does not know of yet.
    var unsettled: [ObjectIdentifier: Content] = [:]
    var wantsSettling = false
    /// Contents whose fetch failed; not before this time.
    var delayed: [(at: UInt64, content: Content)] = []
    var watched: [ObjectIdentifier: Content] = [:]
    /// With `materialize=range` nothing but what is read, and what a sequential reader will read next.
    var demandLength: Int64 = 0
    var isStopped = false
  }
  /// All bytes of a content have come.
  private struct LastFetch {
    var version: Version
    var number: Int64
    var generation: Int
    var size: Int64
  }
  private struct Job {
    var content: Content
    var range: Range<Int64>
    var isStream: Bool
  }

  private let state = Guarded(State())
  private let threads = WorkerThreads()

  func start(_ volume: Volume) {
    if volume.configuration.materialize == .open { state.withLock { $0.demandLength = Self.demandLength } }
    for _ in 0..<Self.workers { threads.spawn("docsfs-fetch") { self.work(volume) } }
    threads.spawn("docsfs-settle") { self.settle(volume) }
  }

  /// Everybody who still waits gets EIO.
  func stop(_ volume: Volume) {
    let (calls, contents) = state.signal { state in
      state.isStopped = true
      return (state.running.values.map(\.call), Array(state.watched.values))
    }
    for call in calls { call.cancel() }
    for content in contents { content.failWaiters(.EIO) }
    threads.join()
    settleNow(volume)
  }

  /// The requests that run, the files that they are for, and how many files wait to become whole.
  var underWay: (requests: Int, contents: [Content], queued: Int) {
    state.withLock { state in
      var contents: [Content] = []
      for (_, run) in state.running.sorted(by: { $0.key < $1.key })
      where !contents.contains(where: { $0 === run.content }) {
        contents.append(run.content)
      }
      let streaming = contents.count { content in content.local.withLock { $0.streaming } }
      return (state.running.count, contents, max(0, state.streams.count - streaming))
    }
  }

  /// The container has gone: whoever waits is told now.
  func linkWasCut() {
    let (calls, contents) = state.withLock { state in
      defer { state.streams = [] }
      return (state.running.values.map(\.call), Array(state.watched.values) + state.streams)
    }
    for call in calls { call.cancel() }
    for content in contents {
      content.local.withLock { $0.streaming = false }
      content.failWaiters(.EIO)
    }
  }

  // MARK: Asking

  /// Fetches all of `content` in the background.
  func stream(_ content: Content) {
    let isNew = content.local.withLock { local in
      if local.whole || local.streaming || local.version == nil { return false }
      local.streaming = true
      return true
    }
    if isNew { state.signal { $0.streams.append(content) } }
  }

  /// Somebody waits for bytes of `content`.
  func demand(_ content: Content, everything: Bool) {
    if everything { stream(content) }
    state.signal { state in
      state.watched[ObjectIdentifier(content)] = content
      if !state.urgent.contains(where: { $0 === content }) { state.urgent.append(content) }
    }
  }

  // MARK: Working

  private func work(_ volume: Volume) {
    while let next: Job? = state.next(nextJob) {
      guard let job = next else { return }
      let call = CallContext(timeout: volume.configuration.timeo)
      let run = state.withLock { state in
        state.nextRun += 1
        state.running[state.nextRun] = (call, job.content)
        return state.nextRun
      }
      let (failure, isProven) = fetch(job, call, volume)
      finish(job, failure, isProven: isProven, volume)
      state.signal { state in
        state.running[run] = nil
        if job.isStream { state.streaming -= 1 }
      }
    }
  }

  /// nil: nothing to do yet; .some(nil): stop.
  private func nextJob(_ state: inout State) -> Job?? {
    if state.isStopped { return .some(nil) }
    while let content = state.urgent.first {
      if let range = content.claimDemand(atLeast: state.demandLength) {
        return Job(content: content, range: range, isStream: false)
      }
      state.urgent.removeFirst()
    }
    guard state.streaming < Self.streamWorkers else { return nil }
    for _ in 0..<state.streams.count {
      let content = state.streams.removeFirst()
      if let range = content.claimStream(Self.streamLength, Self.fetchesPerContent) {
        state.streams.append(content)
        state.streaming += 1
        return Job(content: content, range: range, isStream: true)
      }
      if content.local.withLock({ $0.streaming && $0.fetches >= Self.fetchesPerContent }) {
        state.streams.append(content)
      }
    }
    return nil
  }

  /// `isProven`: what came is the whole file, and adds up to its version's checksum.
  private func fetch(_ job: Job, _ call: CallContext, _ volume: Volume) -> (failure: ContainerError?, isProven: Bool) {
    let content = job.content
    let plan = volume.prepareFetch(content)
    guard case .success(let (path, version, generation, file)) = plan else {
      if case .failure(.ECANCELED) = plan { return (ContainerError(.cancelled, "no longer wanted"), false) }
      return (ContainerError(.unreachable, "not fetched"), false)
    }
    var at = job.range.lowerBound
    var held: [UInt8] = []
    // A file that comes as a whole is proven before anybody reads of it. Its checksum may come with it.
    var proof: ContentDigest?
    var hasBegun = !isAll(job)
    let store = { (piece: UnsafeRawBufferPointer) throws(ContainerError) in
      do throws(Errno) {
        try writeAll(file.fd, piece, at: at)
      } catch {
        throw ContainerError(.system(error), "content of \(path): \(error)")
      }
      guard self.arrived(at..<at + Int64(piece.count), content, generation, volume) else {
        throw ContainerError(.cancelled, "\(path): no longer wanted")
      }
      at += Int64(piece.count)
    }
    do throws(ContainerError) {
      try volume.container.read(path, version: version, range: job.range, call) { piece throws(ContainerError) in
        guard at + Int64(held.count + piece.count) <= job.range.upperBound else {
          throw ContainerError(.inconsistent, "\(path): the container gave more than was asked for")
        }
        call.extend(volume.configuration.timeo)
        if !hasBegun { (proof, hasBegun) = (volume.container.checksum(of: version), true) }
        if proof != nil { held.append(contentsOf: piece) } else { try store(piece) }
      }
      guard at + Int64(held.count) == job.range.upperBound else {
        throw ContainerError(.inconsistent, "\(path): the container gave fewer bytes than it said it had")
      }
      if let proof {
        guard Digest.of(held, proof.algorithm) == proof.bytes else { throw Self.altered(path) }
        try held.give(to: store)
      }
      return (nil, proof != nil)
    } catch {
      if error.code == .notFound, volume.hasMoved(content, from: path) {
        return (ContainerError(.timedOut, "\(path) was moved while it was fetched"), false)
      }
      if error.code == .versionChanged { forget(job.range.lowerBound..<at, content, generation, volume) }
      return (error, false)
    }
  }

  private static func altered(_ path: some CustomStringConvertible) -> ContainerError {
    ContainerError(.inconsistent, "\(path): its bytes do not match the container's checksum")
  }

  private func isAll(_ job: Job) -> Bool {
    job.range.lowerBound == 0 && job.range.upperBound <= Self.streamLength
      && job.content.local.withLock { $0.size == job.range.upperBound }
  }

  /// What is wrong with all bytes of a file together, which was fetched in ranges; nil: nothing.
  private func disprove(_ content: Content, _ last: LastFetch, _ volume: Volume) -> ContainerError? {
    guard let checksum = volume.container.checksum(of: last.version) else { return nil }
    let file: ContentFile
    do throws(Errno) {
      file = try content.openFile(volume.store, number: last.number, of: last.generation)
    } catch {
      if error == .ECANCELED { return ContainerError(.cancelled, "no longer wanted") }
      return ContainerError(.system(.EIO), "a content file cannot be read: \(error)")
    }
    if digest(of: file, last.size, checksum.algorithm) == checksum.bytes {
      content.local.withLock { $0.unproven = 0 }
      return nil
    }
    forget(0..<last.size, content, last.generation, volume)
    volume.countNothing(content)
    // What was read of it meanwhile is in the kernel's cache.
    volume.tellKernel { $0.invalidateContent(content.node) }
    let isHopeless = content.local.withLock { local in
      local.unproven += 1
      guard local.unproven >= Self.proofs else { return false }
      (local.unproven, local.streaming) = (0, false)
      return true
    }
    if isHopeless { content.failWaiters(.EIO) }
    return Self.altered("a file of \(last.size) bytes")
  }

  private func digest(of file: ContentFile, _ size: Int64, _ algorithm: Digest.Algorithm) -> [UInt8] {
    let digest = Digest(algorithm)
    let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4_096)
    defer { room.deallocate() }
    var at: Int64 = 0
    while at < size {
      let count = pread(file.fd, room.baseAddress, Int(min(Int64(room.count), size - at)), off_t(at))
      guard count > 0 else { return [] }
      digest.update(UnsafeRawBufferPointer(rebasing: room.prefix(count)))
      at += Int64(count)
    }
    return digest.finish()
  }

  /// Bytes lie in the content file: whoever waited for them goes on. False when they are of no interest any more.
  private func arrived(_ range: Range<Int64>, _ content: Content, _ generation: Int, _ volume: Volume) -> Bool {
    let ready = content.local.withLock { local -> [LocalBytes.Waiter]? in
      guard local.generation == generation, !local.whole else { return nil }
      local.extents.insert(range)
      local.lastProgress = Clock.now()
      local.failures = 0
      return local.satisfied()
    }
    guard let ready else { return false }
    volume.countFetched(Int64(range.count), content)
    noteUnsettled(content)
    for waiter in ready { waiter.finish(nil) }
    return true
  }

  /// The version changed under a fetch: what came is not to be trusted.
  private func forget(_ range: Range<Int64>, _ content: Content, _ generation: Int, _ volume: Volume) {
    content.local.withLock { local in
      guard local.generation == generation else { return }
      local.extents.remove(range)
      local.whole = false
    }
  }

  private func finish(_ job: Job, _ failure: ContainerError?, isProven: Bool, _ volume: Volume) {
    let content = job.content
    noteUnsettled(content)
    let last = content.local.withLock { local -> LastFetch? in
      local.inFlight.remove(job.range)
      local.fetches -= 1
      guard local.isComplete, !local.isProving, let version = local.version else { return nil }
      local.isProving = true
      return LastFetch(
        version: version, number: local.number, generation: local.generation, size: local.size)
    }
    let wrong = isProven ? nil : last.flatMap { disprove(content, $0, volume) }
    let failure = failure ?? wrong
    let (wants, isWhole, ready) = content.local.withLock { local in
      if failure != nil { local.failures += 1 }
      if let last {
        local.isProving = false
        // Whole only now: the last fetch may still have found that the version had changed.
        if wrong == nil, local.isComplete, local.generation == last.generation {
          local.whole = true
          local.streaming = false
          return (false, true, local.satisfied())
        }
      }
      return (!local.whole && (local.streaming || !local.waiters.isEmpty), false, [])
    }
    if isWhole { volume.becameWhole(content) }
    for waiter in ready { waiter.finish(nil) }
    if isWhole { noteUnsettled(content) }
    if let failure { volume.fetchFailed(content, failure) } else { volume.troubles.end(.fetching) }
    guard wants else { return forgetIfIdle(content) }
    guard let failure else {
      return state.signal { state in
        if !state.urgent.contains(where: { $0 === content }), content.hasWaiters { state.urgent.append(content) }
        if !state.streams.contains(where: { $0 === content }), content.local.withLock({ $0.streaming }) {
          state.streams.append(content)
        }
      }
    }
    // 0.1 s, doubling, up to 5 s: a waiter without progress for `timeo` is let go by `expire`.
    let failures = content.local.withLock { $0.failures }
    let delay = min(UInt64(0.1e9) << UInt64(min(6, max(0, failures - 1))), 5_000_000_000)
    let wanted = UInt64(max(0, min(300, failure.retryAfter ?? 0)) * 1e9)
    state.signal { $0.delayed.append((Clock.now() + max(delay, wanted), content)) }
  }

  private func forgetIfIdle(_ content: Content) {
    // In one: whoever begins to wait in between would be watched by nobody, and wait for ever.
    state.withLock { if content.isIdle { $0.watched[ObjectIdentifier(content)] = nil } }
  }

  // MARK: Settling

  /// Twice a second: the catalog learns what has come, failed fetches are tried again, hopeless waits end.
  private func settle(_ volume: Volume) {
    while true {
      state.wait(until: Clock.now() + 500_000_000) { $0.isStopped || $0.wantsSettling }
      if state.withLock({ $0.isStopped }) { return }
      settleNow(volume)
      retryDelayed()
      expire(volume)
    }
  }

  private func retryDelayed() {
    let now = Clock.now()
    state.signal { state in
      for entry in state.delayed where entry.at <= now {
        if entry.content.hasWaiters { state.urgent.append(entry.content) }
        if entry.content.local.withLock({ $0.streaming }) { state.streams.append(entry.content) }
      }
      state.delayed.removeAll { $0.at <= now }
    }
  }

  private func expire(_ volume: Volume) {
    let limit = UInt64(volume.configuration.timeo * 1e9)
    let contents = state.withLock { Array($0.watched.values) }
    for content in contents {
      let now = Clock.now()
      let expired = content.local.withLock { local -> [LocalBytes.Waiter] in
        guard now > local.lastProgress &+ limit else { return [] }
        let old = local.waiters.filter { now > $0.since &+ limit }
        local.waiters.removeAll { now > $0.since &+ limit }
        if local.waiters.isEmpty { local.streaming = false }
        return old
      }
      for waiter in expired { waiter.finish(.EIO) }
      forgetIfIdle(content)
    }
  }

  /// Something has come that the catalog does not know. Until it does, the item stays in memory: another object of the same
  /// item would know nothing of it, and this one would later write an old row over a newer one.
  private func noteUnsettled(_ content: Content) {
    state.withLock { state in
      guard state.unsettled.updateValue(content, forKey: ObjectIdentifier(content)) == nil else { return }
      content.local.withLock { $0.unsettled += 1 }
    }
  }

  /// The catalog may say that bytes are there only once they are safe: a few files are synced each, many at once.
  func settleNow(_ volume: Volume) {
    let unsettled = state.withLock { state in
      defer {
        state.unsettled = [:]
        state.wantsSettling = false
      }
      return Array(state.unsettled.values)
    }
    // What was evicted or truncated meanwhile has no file any more, and nothing to tell.
    let contents = unsettled.filter { content in content.local.withLock { $0.number != 0 } }
    let isRecorded = contents.isEmpty || record(contents, volume)
    for content in unsettled { content.local.withLock { $0.unsettled -= 1 } }
    for content in contents { volume.closeIfUnused(content) }
    if isRecorded, !unsettled.isEmpty { volume.shrink() }
  }

  /// Memory is short, and what is not recorded yet cannot leave it.
  func settleSoon() {
    let isNew = state.withLock { state in
      guard !state.unsettled.isEmpty, !state.wantsSettling else { return false }
      state.wantsSettling = true
      return true
    }
    if isNew { state.signal { _ in } }
  }

  /// Whether the catalog knows now; else it is tried again.
  private func record(_ contents: [Content], _ volume: Volume) -> Bool {
    let present = contents.map { content in content.local.withLock { ($0.generation, $0.extents, $0.whole, $0.number) }
    }
    if contents.count <= 4 {
      for content in contents {
        guard let file = try? content.openFile(volume.store, create: false), fsync(file.fd) == 0 else {
          contents.forEach(noteUnsettled)
          return false
        }
      }
      for entry in present where entry.3 != 0 { _ = volume.store.syncName(entry.3) }
    } else if volume.store.syncAll() != nil {
      contents.forEach(noteUnsettled)
      return false
    }
    volume.recordExtents(zip(contents, present).map { ($0, $1.0, $1.1, $1.2) })
    return true
  }
}
