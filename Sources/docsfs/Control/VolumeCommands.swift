import CLinux
import Containers
import DocsEngine
import FuseBridge
import StorageErrors

/// What the control socket's commands do to the volume.
struct VolumeCommands: Sendable {
  let volume: Volume
  /// Between the volume and its container: its `conditions` may be set at any time.
  let cloud: FaultingContainer
  let daemon: DaemonInfo
  /// nil when that worked.
  let unmount: @Sendable (_ force: Bool) -> FuseMountError?

  init(
    volume: Volume, cloud: FaultingContainer, plan: MountPlan,
    unmount: @escaping @Sendable (_ force: Bool) -> FuseMountError?
  ) {
    self.volume = volume
    self.cloud = cloud
    self.unmount = unmount
    daemon = DaemonInfo(
      pid: getpid(), version: docsfsVersion, mountpoint: plan.mountpoint.text, readOnly: plan.options.readOnly
    )
  }

  /// Blocks until done; the replies before the last go to `send`.
  func run(_ request: ControlRequest, cancelled: () -> Bool, send: (ControlReply) -> Void) -> ControlReply {
    do throws(VolumeError) {
      return try perform(request, cancelled, send)
    } catch {
      return .done(error.exitCode, error.message)
    }
  }

  private func perform(
    _ request: ControlRequest, _ cancelled: () -> Bool, _ send: (ControlReply) -> Void
  ) throws(VolumeError) -> ControlReply {
    switch request {
    case .status(let path): return try status(path, send)
    case .evict(let path, let recursive):
      guard let path = containerPath(path) else { return Self.badPath(path) }
      var tally = Tally()
      try volume.evict(path, recursive: recursive) { item, reason in
        tally.count(reason)
        send(ControlReply(item: item, refused: reason))
      }
      return try tally.outcome(recursive) { () throws(VolumeError) in try volume.itemStatus(path) }
    case .materialize(let path, let recursive):
      guard let path = containerPath(path) else { return Self.badPath(path) }
      var tally = Tally()
      try volume.materialize(path, recursive: recursive, cancelled: cancelled) {
        send(.progress($0))
      } each: { item, reason in
        tally.count(reason)
        send(ControlReply(item: item, refused: reason))
      }
      return try tally.outcome(recursive) { () throws(VolumeError) in try volume.itemStatus(path) }
    case .pin(let path, let pinned):
      guard let path = containerPath(path) else { return Self.badPath(path) }
      try volume.setPin(path, pinned)
      send(ControlReply(item: try volume.itemStatus(path)))
      return .done()
    case .refresh(let path):
      guard let path = containerPath(path) else { return Self.badPath(path) }
      try volume.refresh(path)
      return .done()
    case .waitUntilIdle(let timeout): return wait(timeout, cancelled, send)
    case .pause: volume.pause()
    case .resume: volume.resume()
    case .acceptDeletes: volume.acceptHeldDeletes()
    case .unmount(let force):
      guard let error = unmount(force) else { break }
      return .done(error.isBusy ? ExitCode.tryAgain : ExitCode.failed, error.message)
    }
    return .done()
  }

  private func status(_ path: [UInt8]?, _ send: (ControlReply) -> Void) throws(VolumeError) -> ControlReply {
    guard let path else {
      var reply = ControlReply()
      reply.status = volume.status()
      reply.daemon = daemon
      send(reply)
      return .done()
    }
    guard let place = containerPath(path) else { return Self.badPath(path) }
    send(ControlReply(item: try volume.itemStatus(place)))
    return .done()
  }

  private func wait(
    _ timeout: Double?, _ cancelled: () -> Bool, _ send: (ControlReply) -> Void
  ) -> ControlReply {
    let left = volume.waitUntilIdle(timeout: timeout, cancelled: cancelled) { send(.progress($0)) }
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
    .done(ExitCode.usage, "\(FilePath(path)) is no path inside the mount")
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

  mutating func count(_ reason: String?) {
    if reason == nil { done += 1 } else { refused += 1 }
  }

  func outcome(_ recursive: Bool, of item: () throws(VolumeError) -> ItemStatus) throws(VolumeError)
    -> ControlReply
  {
    if done + refused == 0, !recursive, try item().kind == "folder" {
      return .done(ExitCode.failed, "it is a folder; -r takes all that is in it")
    }
    if refused == 0 { return .done() }
    let code = done > 0 ? ExitCode.partly : ExitCode.failed
    return .done(code, "\(refused) of \(done + refused) items refused")
  }
}
