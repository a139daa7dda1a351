import CLinux
import Containers
import DocsEngine
import Faults
import FuseBridge
import StorageErrors

/// What the commands of the control socket and file do.
struct VolumeCommands: Sendable {
  let volume: Volume
  /// Between the volume and its container: what the cloud does wrong may be set at any time.
  private let containers: ContainerStack
  private var cloud: FaultingContainer { containers.cloud }
  let faults: FaultInjector
  let daemon: DaemonInfo
  /// nil when that worked.
  let unmount: @Sendable (_ force: Bool) -> FuseMountError?

  init(
    volume: Volume, containers: ContainerStack, faults: FaultInjector, plan: MountPlan, metricsURL: String?,
    unmount: @escaping @Sendable (_ force: Bool) -> FuseMountError?
  ) {
    self.volume = volume
    self.containers = containers
    self.faults = faults
    self.unmount = unmount
    daemon = DaemonInfo(
      pid: getpid(), version: docsfsVersion, mountpoint: plan.mountpoint.text, readOnly: plan.options.readOnly,
      metrics: metricsURL)
  }

  /// Blocks until done; the replies before the last go to `send`. Whoever has more to follow calls `reachKernel` of the
  /// faults after the last.
  func run(
    _ request: ControlRequest, isLast: Bool = true, cancelled: () -> Bool, send: (ControlReply) -> Void
  ) -> ControlReply {
    do throws(VolumeError) {
      return try perform(request, isLast, cancelled, send)
    } catch {
      return .done(error.exitCode, error.message, error.errno)
    }
  }

  private func perform(
    _ request: ControlRequest, _ isLast: Bool, _ cancelled: () -> Bool, _ send: (ControlReply) -> Void
  ) throws(VolumeError) -> ControlReply {
    switch request {
    case .status(let path): return try status(path, send)
    case .rules: send(ControlReply(text: controlText))
    case .log(let place): send(log(from: place))
    case .acceptDeletes: volume.acceptHeldDeletes()
    case .unmount(let force):
      guard let error = unmount(force) else { break }
      return .done(error.isBusy ? ExitCode.tryAgain : ExitCode.failed, error.message)
    case .control(let statement):
      do throws(ControlError) {
        if try faults.carryOut(statement) {
          if isLast { faults.reachKernel() }
          break
        }
      } catch {
        return .done(error)
      }
      return try perform(statement.command, cancelled, send)
    }
    return .done()
  }

  private func perform(
    _ command: ControlCommand, _ cancelled: () -> Bool, _ send: (ControlReply) -> Void
  ) throws(VolumeError) -> ControlReply {
    switch command {
    case .evict(let path, let recursive):
      guard let path = containerPath(path) else { return Self.badPath(path) }
      var tally = Tally()
      try volume.evict(path, recursive: recursive) { tally.count($0, $1, send) }
      return try tally.outcome(recursive) { () throws(VolumeError) in try volume.itemStatus(path) }
    case .materialize(let path, let recursive):
      guard let path = containerPath(path) else { return Self.badPath(path) }
      var tally = Tally()
      try volume.materialize(path, recursive: recursive, cancelled: cancelled) {
        send(.progress($0))
      } each: {
        tally.count($0, $1, send)
      }
      return try tally.outcome(recursive) { () throws(VolumeError) in try volume.itemStatus(path) }
    case .pin(let path, let pinned):
      guard let path = containerPath(path) else { return Self.badPath(path) }
      try volume.setPin(path, pinned)
      send(ControlReply(item: try volume.itemStatus(path)))
    case .refresh(let path):
      guard let path = containerPath(path) else { return Self.badPath(path) }
      try volume.refresh(path)
    case .wait(.idle, let timeout): return wait(timeout, cancelled, send)
    case .wait(.rule(let id, let counter, let count), let timeout):
      return wait(for: id, counter, count, timeout, cancelled)
    case .pause: volume.pause()
    case .resume: volume.resume()
    case .cloud(let change): cloud.apply(change)
    default: break
    }
    return .done()
  }

  /// The volume, the daemon and what is armed.
  func status() -> ControlReply {
    var reply = ControlReply()
    var status = volume.status()
    let faults = faults.status
    // The engine knows of one profile only, which is its own.
    if let profile = faults.profile { status.link = "disconnected(\(profile))" }
    reply.status = status
    reply.faults = faults
    reply.daemon = daemon
    reply.traffic = TrafficInfo(containers)
    return reply
  }

  /// The rules, the link and the cloud's conditions, as lines that could be written back.
  var controlText: String { faults.text(cloud: cloud.command) }

  /// Whole lines, as many as one answer may hold.
  private func log(from place: Int) -> ControlReply {
    let start = max(place, faults.logRange.lowerBound)
    let bytes = faults.log(from: start, count: 1 << 20)
    let lines = bytes.prefix((bytes.lastIndex(of: 0x0a) ?? -1) + 1)
    return ControlReply(text: String(decoding: lines, as: UTF8.self), next: start + lines.count)
  }

  private func status(_ path: [UInt8]?, _ send: (ControlReply) -> Void) throws(VolumeError) -> ControlReply {
    guard let path else {
      send(status())
      return .done()
    }
    guard let place = containerPath(path) else { return Self.badPath(path) }
    send(ControlReply(item: try volume.itemStatus(place)))
    return .done()
  }

  private func wait(
    for id: String, _ counter: FaultCounter, _ count: Int, _ timeout: UInt64?, _ cancelled: () -> Bool
  ) -> ControlReply {
    do throws(Errno) {
      let limit = timeout.map { Double($0) / 1e9 }
      if try faults.wait(for: id, counter, atLeast: count, timeout: limit, cancelled: cancelled) { return .done() }
      return .done(ExitCode.tryAgain, "rule \(id) has not \(counter.rawValue)=\(count) in time", .ETIMEDOUT)
    } catch {
      return .done(ExitCode.failed, "there is no rule \(id)", error)
    }
  }

  private func wait(
    _ timeout: UInt64?, _ cancelled: () -> Bool, _ send: (ControlReply) -> Void
  ) -> ControlReply {
    let limit = timeout.map { Double($0) / 1e9 }
    let left = volume.waitUntilIdle(timeout: limit, cancelled: cancelled) { send(.progress($0)) }
    for item in left { send(ControlReply(item: item, refused: item.error ?? "not uploaded yet")) }
    if left.isEmpty { return .done() }
    let hasErrors = left.contains { $0.error != nil }
    return .done(
      hasErrors ? ExitCode.failed : ExitCode.tryAgain,
      "\(left.count) \(left.count == 1 ? "item is" : "items are") not uploaded yet")
  }

  /// nil: not a path inside a mount.
  private func containerPath(_ bytes: [UInt8]) -> ContainerPath? {
    var names: [ItemName] = []
    for name in FilePath(bytes).names {
      guard let name = try? ItemName(name) else { return nil }
      names.append(name)
    }
    return ContainerPath(names)
  }

  private static func badPath(_ path: [UInt8]) -> ControlReply {
    .done(ExitCode.usage, "\(FilePath(path)) is no path inside the mount", .EINVAL)
  }
}

extension ControlReply {
  static func progress(_ progress: CommandProgress) -> ControlReply {
    var reply = ControlReply()
    reply.progress = Progress(progress)
    return reply
  }
}

/// Counts what was done and what was refused: all 0, some 2, none 1.
private struct Tally {
  private var done = 0
  private var refused = 0
  private var firstErrno: Errno?

  mutating func count(_ item: ItemStatus, _ refusal: Refusal?, _ send: (ControlReply) -> Void) {
    if refusal == nil { done += 1 } else { refused += 1 }
    firstErrno = firstErrno ?? refusal?.errno
    send(ControlReply(item: item, refused: refusal?.reason))
  }

  func outcome(_ recursive: Bool, of item: () throws(VolumeError) -> ItemStatus) throws(VolumeError)
    -> ControlReply
  {
    if done + refused == 0, !recursive, try item().kind == "folder" {
      return .done(ExitCode.failed, "it is a folder; -r takes all that is in it")
    }
    if refused == 0 { return .done() }
    let code = done > 0 ? ExitCode.partly : ExitCode.failed
    return .done(code, "\(refused) of \(done + refused) items refused", firstErrno)
  }
}
