import CFuse
import CLinux
import Containers
import DocsEngine
import Faults
import Glibc
import StorageErrors

// Between the kernel and libfuse: each request is looked at as the kernel wrote it, and failed, shortened or held
// before libfuse knows of it; each answer may be changed on its way back.
extension Bridge {
  /// Whether libfuse shall go on with this request; it may be shorter than it was.
  func admit(_ buffer: inout fuse_buf) -> Bool {
    guard let request = KernelRequest(buffer) else { return true }
    if controls?.serves(request) == true { return false }
    guard let faults else { return true }
    if request.opcode == FUSE_INTERRUPT.rawValue { return !endInterrupted(request) }
    guard let call = request.call, faults.isInterested(in: call.operation) else { return true }
    let facts = describe(call, request, faults)
    if faults.namesMatter, call.bringsNames { caches?.forgetNames() }
    let verdict = faults.state.withLock { $0.judge(facts, now: Clock.now()) }
    if verdict.isPass { return true }
    return carryOut(verdict, request.header.unique, call, &buffer)
  }

  /// To libfuse.
  func handOn(_ buffer: inout fuse_buf) {
    guard let session else { return }
    clearSetID(before: buffer)
    fuse_session_process_buf(session, &buffer)
  }

  private func describe(_ call: MountCall, _ request: KernelRequest, _ faults: FaultInjector) -> CallFacts {
    let process = CallerProcess(thread: request.thread)
    let systemCall = call.isByPath == nil ? process.systemCall : nil
    let open = openState(call)
    let caller = call.operation == .flush ? open?.opener : process.identity
    var fault = FaultCall(
      call.operation, path: path(call.node, call.name), newPath: call.target.map { path($0.folder, $0.name) },
      uid: request.header.uid, pid: caller?.pid ?? 0, executable: caller?.executable ?? [], offset: call.offset,
      length: call.length)
    fault.handle = open.map { $0.moment.epoch < faults.epoch ? .old : .new }
    var facts = CallFacts(
      call: call, fault: fault, thread: request.thread, opened: open?.moment,
      isBuffered: call.operation == .read && open?.isDirect == false && !call.isDirect,
      isByPath: call.isByPath ?? !(systemCall?.isByDescriptor ?? false),
      // fstat(2) names no handle; a read beyond the end does, and would fail with what this gets.
      asksInPassing: call.operation == .getattr && (call.handle != 0 || systemCall?.asksAttributes == false))
    if faults.failsByLink { addContent(of: call, request, to: &facts) }
    return facts
  }

  private func path(_ node: NodeID, _ name: [UInt8]?) -> [UInt8] {
    let folder = volume.path(of: node) ?? Array("/?".utf8)
    guard let name else { return folder }
    return (folder == [0x2f] ? [] : folder) + [0x2f] + name
  }

  private func openState(_ call: MountCall) -> (moment: LinkMoment, opener: CallerIdentity, isDirect: Bool)? {
    switch call.operation {
    case .readdir, .fsyncdir: OpenFolder.at(call.handle).map { ($0.moment, $0.opener, true) }
    default: OpenFile.at(call.handle).map { ($0.moment, $0.opener, $0.isDirect) }
    }
  }

  private func addContent(of call: MountCall, _ request: KernelRequest, to facts: inout CallFacts) {
    let start = call.offset ?? 0
    switch call.operation {
    case .read: facts.contentIsLocal = volume.isLocal(call.node, start..<max(start, start &+ call.length))
    case .open: facts.contentIsLocal = volume.isLocal(call.node, nil)
    case .flush: facts.hasUnsynced = volume.hasUnsynced(call.node)
    default: break
    }
    facts.isPlaceholder = facts.contentIsLocal == false
    if facts.isPlaceholder {
      let caller = Caller(uid: request.header.uid, gid: request.header.gid, pid: request.thread)
      facts.isBarred = volume.mayNotMaterialize(caller)
    }
  }

  // MARK: Carrying out

  private func carryOut(_ verdict: Verdict, _ unique: UInt64, _ call: MountCall, _ buffer: inout fuse_buf) -> Bool {
    if let signal = verdict.kill { send(signal, buffer) }
    if verdict.hangs || verdict.delay > 0 {
      hold(verdict, unique, call, buffer)
      return false
    }
    if verdict.losesUnsynced {
      loseThenGoOn(verdict, unique, call, buffer)
      return false
    }
    return finish(verdict, unique, call, &buffer)
  }

  private func finish(_ verdict: Verdict, _ unique: UInt64, _ call: MountCall, _ buffer: inout fuse_buf) -> Bool {
    if let errno = verdict.errno, verdict.limit == nil {
      traffic.count(call.operation, errno.wireValue)
      fail(unique, errno, verdict)
      return false
    }
    if let limit = verdict.limit { shorten(&buffer, to: limit) }
    if verdict.errno != nil || verdict.corruption != nil { amendments.add(unique, verdict, call.node) }
    return true
  }

  private func fail(_ unique: UInt64, _ errno: Errno, _ verdict: Verdict) {
    let fails = { [self] in answer(unique, error: errno.wireValue) }
    if verdict.isSeen, let faults { faults.seen(verdict.rule, fails) } else { _ = fails() }
  }

  private func send(_ signal: Int32, _ buffer: fuse_buf) {
    guard let request = KernelRequest(buffer) else { return }
    let pid = CallerProcess(thread: request.thread).pid
    // 0 would signal this process's own group, and what has gone may have a successor; itself it never signals.
    if pid > 0, pid != getpid() { kill(pid, signal) }
  }

  /// The request is short in the first place, so that the kernel's count and the volume's agree.
  private func shorten(_ buffer: inout fuse_buf, to limit: Int64) {
    guard let request = KernelRequest(buffer), let bytes = buffer.mem else { return }
    let head = KernelRequest.headerSize
    switch request.opcode {
    case FUSE_WRITE.rawValue:
      guard var write: fuse_write_in = request.argument(), Int64(write.size) > limit else { return }
      let cut = Int(write.size) - Int(limit)
      write.size = UInt32(limit)
      bytes.storeBytes(of: write, toByteOffset: head, as: fuse_write_in.self)
      buffer.size -= cut
      bytes.storeBytes(of: UInt32(buffer.size), as: UInt32.self)
    case FUSE_READ.rawValue:
      guard var read: fuse_read_in = request.argument() else { return }
      read.size = min(read.size, UInt32(clamping: limit))
      bytes.storeBytes(of: read, toByteOffset: head, as: fuse_read_in.self)
    case FUSE_COPY_FILE_RANGE.rawValue:
      guard var copy: fuse_copy_file_range_in = request.argument() else { return }
      copy.len = min(copy.len, UInt64(limit))
      bytes.storeBytes(of: copy, toByteOffset: head, as: fuse_copy_file_range_in.self)
    default: break
    }
  }

  // MARK: Waiting

  private func hold(_ verdict: Verdict, _ unique: UInt64, _ call: MountCall, _ buffer: fuse_buf) {
    let cause: HoldCause = verdict.rule.map { .rule($0) } ?? .link
    let due = verdict.hangs ? nil : Clock.now() + verdict.delay
    let rest = verdict.afterWait
    let held = HeldCall(buffer, unique: unique, node: call.node, cause: cause, due: due) { held, wasEnded in
      // A hang that a command has ended: the call is carried out.
      self.goOn(held, wasEnded && verdict.hangs ? .pass : rest, call)
    }
    keep(held)
  }

  private func loseThenGoOn(_ verdict: Verdict, _ unique: UInt64, _ call: MountCall, _ buffer: fuse_buf) {
    let rest = verdict.afterLoss
    let held = HeldCall(buffer, unique: unique, node: call.node, cause: .work, due: nil) { held, _ in
      self.goOn(held, rest, call)
    }
    guard keep(held) else { return }
    volume.loseUnsynced(call.node) { [self] result in
      if case .failure(let error) = result { Log.error("lose=dirty failed", ["error": error]) }
      caches?.forget(call.node) { if let held = self.faults?.held.take(unique) { held.goOn(held, false) } }
    }
  }

  @discardableResult
  private func keep(_ call: HeldCall) -> Bool {
    if faults?.hold(call) == true { return true }
    countInterrupted(call)
    answer(call.unique, error: Errno.EINTR.rawValue)
    return false
  }

  private func goOn(_ held: HeldCall, _ verdict: Verdict, _ call: MountCall) {
    withExtendedLifetime(held) {
      var raw = held.raw
      if carryOut(verdict, held.unique, call, &raw) { handOn(&raw) }
    }
  }

  /// A caller that waits was interrupted, or killed: it goes at once. False when libfuse has to know.
  private func endInterrupted(_ request: KernelRequest) -> Bool {
    guard let interrupted: fuse_interrupt_in = request.argument(),
      let call = faults?.held.interrupt(interrupted.unique)
    else { return false }
    countInterrupted(call)
    answer(call.unique, error: Errno.EINTR.rawValue)
    return true
  }

  private func countInterrupted(_ held: HeldCall) {
    if let call = KernelRequest(held.raw)?.call { traffic.count(call.operation, Errno.EINTR.wireValue) }
  }
}
