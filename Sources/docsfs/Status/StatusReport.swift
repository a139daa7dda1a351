import DocsEngine
import Faults

/// What `status` found. A mountpoint is shown as the mount, any other path as the item it is.
struct StatusReport: Encodable {
  var mounts: [MountReport] = []
  var items: [ItemReport] = []
  private var asked = false

  private enum CodingKeys: CodingKey { case mounts, items }

  /// Of all mounts when no path is given.
  init(_ paths: [FilePath], _ outcome: inout Outcome) throws(Failure) {
    if paths.isEmpty { mounts = try MountTable.current().docsfs.map { MountReport($0) } }
    for path in paths {
      do {
        try add(path)
        outcome.succeeded()
      } catch {
        outcome.failed(error)
      }
    }
  }

  private mutating func add(_ path: FilePath) throws(Failure) {
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

  var lines: [String] {
    if !asked, mounts.isEmpty { return ["nothing is mounted; docsfs mount ~/CloudDocs mounts your default container"] }
    return (mounts.isEmpty ? [] : MountReport.table(mounts).lines) + mounts.flatMap(\.notes) + itemLines
  }

  var itemLines: [String] {
    guard !items.isEmpty else { return [] }
    return ItemReport.table(items).lines
      + items.compactMap { item in item.status.error.map { "\(item.path): \($0)" } }
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
