import DocsEngine
import Faults
import FuseBridge

/// A mount as `status` shows it.
struct MountReport: Encodable {
  var mountpoint: String
  var stateDirectory: String
  var container: String
  var daemon: DaemonInfo?
  var status: VolumeStatus?
  var faults: FaultStatus?
  var traffic: TrafficInfo?
  /// Only of a mount that is watched.
  var rates: TransferRates?
  /// Why there is no status.
  var error: String?

  init(_ mount: MountEntry) {
    mountpoint = mount.mountpoint.description
    stateDirectory = mount.stateDirectory.description
    container = StateDirectory(path: mount.stateDirectory).about()?.container ?? "?"
    do {
      let reply = try mount.askStatus()
      faults = reply.faults
      daemon = reply.daemon
      traffic = reply.traffic
      status = reply.status
      container = reply.status?.container ?? container
    } catch {
      self.error = error.message
    }
  }

  static func table(_ reports: [MountReport]) -> Table {
    Table(
      heading: ["MOUNTPOINT", "CONTAINER", "LINK", "ITEMS", "CACHE", "NOT UPLOADED", "FETCHING"],
      rows: reports.map(\.row), numbers: [3, 4, 5, 6])
  }

  private var row: [String] {
    guard let status else { return [mountpoint, container, "no daemon", "-", "-", "-", "-"] }
    var cache = Quantity.show(bytes: status.cacheBytes)
    if let limit = status.cacheLimit { cache += " of \(Quantity.show(bytes: limit))" }
    let waiting =
      status.dirtyItems == 0 ? "0" : "\(status.dirtyItems) (\(Quantity.show(bytes: status.dirtyBytes)))"
    return [mountpoint, container, status.link, "\(status.items)", cache, waiting, "\(status.fetching)"]
  }

  /// What a person should know beside the table, a line each.
  var notes: [String] {
    guard let status else { return error.map { ["\(mountpoint): \($0)"] } ?? [] }
    let passthrough = status.ioReason.map { "no kernel passthrough: \($0)" }
    let facts =
      obstacles + [status.containerNote, passthrough, daemon?.metrics.map { "metrics are at \($0)" }].compactMap { $0 }
    return facts.map { "\(mountpoint): \($0)" } + failures
  }

  /// What stands in the way.
  var obstacles: [String] {
    guard let status else { return [] }
    var lines: [String] = []
    if let reason = status.linkReason {
      lines.append("disconnected for \(Quantity.show(age: status.linkAge)): \(reason)")
    }
    lines += status.troubles
    if status.paused { lines.append("uploads are paused") }
    if status.diskFull { lines.append("the state disk is full; writes are refused until there is room") }
    if let backlog = status.backlog { lines.append(backlog) }
    if let faults, faults.rules.contains(where: { $0.remaining != 0 }) {
      lines.append(
        "faults are armed; docsfs fault \(mountpoint) shows them, docsfs fault \(mountpoint) clear ends them")
    }
    if status.heldDeletes > 0 {
      lines.append(
        "deletes of \(status.heldDeletes) items are held, since the container lacks so much at once; if that is "
          + "on purpose, run docsfs doctor \(mountpoint) --accept-deletes")
    }
    return lines
  }

  /// A line for each item whose upload failed.
  var failures: [String] {
    guard let status else { return [] }
    // Without a link, or while it is paused, nothing is tried.
    let isTried = status.linkReason == nil && !status.paused
    return status.failing.map { item in
      let wait = isTried ? item.retryIn : nil
      let again = wait.map { $0 > 0 ? "; tried again in \(Quantity.show(seconds: $0))" : "; tried again now" }
      return "\(mountpoint)/\(item.path): \(item.error ?? item.sync)\(again ?? "")"
    }
  }
}

extension VolumeStatus {
  /// How far the container is behind, where that is more than what was just edited.
  fileprivate var backlog: String? {
    guard let oldestEdit, linkReason != nil || paused || failingItems > 0 || oldestEdit.age > 60 else { return nil }
    let what = dirtyItems == 1 ? "1 item waits" : "\(dirtyItems) items wait"
    return "\(what) to be uploaded (\(Quantity.show(bytes: dirtyBytes))), the oldest for "
      + "\(Quantity.show(age: oldestEdit.age)): \(oldestEdit.path)"
  }
}

extension MountEntry {
  /// What its daemon says; throws when there is none, or when it says nothing for ten seconds.
  func askStatus() throws(Failure) -> ControlReply {
    let client = try ControlClient(self)
    var answer: ControlReply?
    let last = try client.run(.status(path: nil), patience: 10) { if $0.status != nil { answer = $0 } }
    if let answer { return answer }
    throw Failure(last.error ?? "the daemon of \(mountpoint) gave no status", last.exit ?? ExitCode.failed)
  }
}
