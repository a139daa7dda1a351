import CLinux
import Containers
import DocsEngine

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
    let isJSON = arguments.has("json")
    if arguments.arguments.isEmpty { return try showMounts(isJSON) }
    return try showItems(arguments.arguments.map { FilePath($0) }, isJSON)
  }

  private static func showMounts(_ isJSON: Bool) throws(Failure) -> Int32 {
    let reports = try MountTable.current().docsfs.map(MountReport.init)
    if isJSON {
      Console.print(JSONText.of(["mounts": reports]))
    } else if reports.isEmpty {
      Console.print("nothing is mounted; docsfs mount ~/CloudDocs mounts your default container")
    } else {
      MountReport.table(reports).print()
      for note in reports.flatMap(\.notes) { Console.print(note) }
    }
    return ExitCode.done
  }

  private static func showItems(_ paths: [FilePath], _ isJSON: Bool) throws(Failure) -> Int32 {
    var items: [ItemReport] = []
    var outcome = Outcome()
    for path in paths {
      do {
        items.append(try item(path))
        outcome.succeeded()
      } catch {
        outcome.failed(error)
      }
    }
    if isJSON {
      Console.print(JSONText.of(["items": items]))
    } else if !items.isEmpty {
      ItemReport.table(items).print()
      for item in items { if let error = item.status.error { Console.print("\(item.path): \(error)") } }
    }
    return outcome.exitCode
  }

  private static func item(_ path: FilePath) throws(Failure) -> ItemReport {
    let place = try PathResolver.current().requirePlace(path)
    var result: ItemReport?
    try ControlClient(place.mount).require(.status(path: place.relative)) { reply in
      if let item = reply.item { result = ItemReport(path: path.description, status: item) }
    }
    if let result { return result }
    throw Failure("the daemon gave no status of \(path)")
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
  /// Why there is no status.
  var error: String?

  init(_ mount: MountEntry) {
    mountpoint = mount.mountpoint.description
    stateDirectory = mount.stateDirectory.description
    container = StateDirectory(path: mount.stateDirectory).about()?.container ?? "?"
    do {
      let (status, daemon) = try mount.askStatus()
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
    if status.paused { notes.append("\(mountpoint): uploads are paused") }
    if status.heldDeletes > 0 {
      notes.append(
        "\(mountpoint): the container lacks \(status.heldDeletes) items that are known here; if they were deleted "
          + "on purpose, run docsfs doctor \(mountpoint) --accept-deletes")
    }
    for item in status.failing { notes.append("\(mountpoint)/\(item.path): \(item.error ?? item.sync)") }
    return notes
  }
}
