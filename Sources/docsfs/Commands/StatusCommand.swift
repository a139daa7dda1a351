import CLinux
import Containers
import Faults
import DocsEngine
import FuseBridge

enum StatusCommand {
  static let spec = CommandSpec(
    name: "status", arguments: "[PATH...]", summary: "Show all mounts, or the state of items.",
    options: [
      OptionSpec("json", "j", "Print JSON"),
      OptionSpec("watch", "w", "Show it anew each second"),
    ], counts: 0...Int.max, run: run)

  static func run(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    guard arguments.has("watch") else { return try show(arguments) }
    while true {
      // Home, and what is below goes; the screen does not flicker as with a full clear.
      if Console.isTerminal { Console.write("\u{1b}[H\u{1b}[J", to: STDOUT_FILENO) }
      _ = try show(arguments)
      sleep(1)
    }
  }

  private static func show(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    var report = StatusReport()
    var outcome = Outcome()
    if arguments.arguments.isEmpty {
      report.mounts = try MountTable.current().docsfs.map { MountReport($0) }
    }
    for path in arguments.arguments.map({ FilePath($0) }) {
      do {
        try report.add(path)
        outcome.succeeded()
      } catch {
        outcome.failed(error)
      }
    }
    if arguments.has("json") { Console.print(JSONText.of(report)) } else { report.print() }
    return outcome.exitCode
  }
}

/// What `status` found. A mountpoint is shown as the mount, any other path as the item it is.
private struct StatusReport: Encodable {
  var mounts: [MountReport] = []
  var items: [ItemReport] = []
  private var asked = false

  private enum CodingKeys: CodingKey { case mounts, items }

  mutating func add(_ path: FilePath) throws(Failure) {
    asked = true
    let place = try PathResolver.current().requirePlace(path)
    if place.isMountpoint {
      let report = MountReport(place.mount)
      // A mount that was asked for by name and has no daemon is an error.
      if let error = report.error { throw Failure(error, ExitCode.unavailable) }
      mounts.append(report)
      return
    }
    var found: ItemReport?
    try ControlClient(place.mount).require(.status(path: place.relative)) { reply in
      if let item = reply.item { found = ItemReport(path: path.description, status: item) }
    }
    guard let found else { throw Failure("the daemon gave no status of \(path)") }
    items.append(found)
  }

  func print() {
    if !asked, mounts.isEmpty {
      Console.print("nothing is mounted; docsfs mount ~/CloudDocs mounts your default container")
    }
    if !mounts.isEmpty { MountReport.table(mounts).print() }
    for note in mounts.flatMap(\.notes) { Console.print(note) }
    if !items.isEmpty { ItemReport.table(items).print() }
    for item in items { if let error = item.status.error { Console.print("\(item.path): \(error)") } }
  }
}

/// An item as `status PATH` shows it.
struct ItemReport: Encodable {
  var path: String
  var status: ItemStatus

  static func table(_ items: [ItemReport]) -> Table {
    let rows = items.map { item in
      let progress = "\(Int((item.status.progress * 100).rounded(.down)))%"
      return [
        item.status.state, progress, item.status.sync, item.status.pinned ? "pinned" : "-",
        item.status.kind == "folder" ? "-" : Quantity.show(bytes: item.status.size), item.path,
      ]
    }
    return Table(heading: ["STATE", "LOCAL", "SYNC", "PIN", "SIZE", "PATH"], rows: rows, numbers: [1, 4])
  }
}

/// A mount as `status` shows it.
struct MountReport: Encodable {
  var mountpoint: String
  var stateDirectory: String
  var container: String
  var daemon: DaemonInfo?
  var status: VolumeStatus?
  var faults: FaultStatus?
  /// Why there is no status.
  var error: String?

  init(_ mount: MountEntry) {
    mountpoint = mount.mountpoint.description
    stateDirectory = mount.stateDirectory.description
    container = StateDirectory(path: mount.stateDirectory).about()?.container ?? "?"
    do {
      let (status, daemon, faults) = try mount.askStatus()
      self.faults = faults
      self.status = status
      self.daemon = daemon
      container = status.container
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
    var notes: [String] = []
    if let reason = status.linkReason { notes.append("\(mountpoint): \(reason)") }
    if let note = status.containerNote { notes.append("\(mountpoint): \(note)") }
    if let reason = status.ioReason { notes.append("\(mountpoint): no kernel passthrough: \(reason)") }
    if let faults, faults.rules.contains(where: { $0.remaining != 0 }) {
      notes.append(
        "\(mountpoint): faults are armed; docsfs fault \(mountpoint) shows them, docsfs fault \(mountpoint) clear ends them"
      )
    }
    if status.paused { notes.append("\(mountpoint): uploads are paused") }
    if status.heldDeletes > 0 {
      notes.append(
        "\(mountpoint): deletes of \(status.heldDeletes) items are held, since the container lacks so much at once; if that is "
          + "on purpose, run docsfs doctor \(mountpoint) --accept-deletes")
    }
    for trouble in status.troubles { notes.append("\(mountpoint): \(trouble)") }
    for item in status.failing { notes.append("\(mountpoint)/\(item.path): \(item.error ?? item.sync)") }
    return notes
  }
}
