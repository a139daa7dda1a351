import DocsEngine
import Faults

/// A watched mount as a person reads it, in lines as long as they come.
extension MountReport {
  var watchLines: [String] {
    guard let status else { return ["\(mountpoint)  \(container)", "  \(error ?? "no daemon")"] }
    let rates = rates ?? TransferRates()
    var lines = [
      "\(mountpoint)  \(container)",
      "  link   \(status.link) for \(Quantity.show(age: status.linkAge))",
      "  speed  up \(Self.speed(rates.up)), down \(Self.speed(rates.down))",
      "  queue  \(queue(status))",
      "  cache  \(cache(status)), \(status.items) items",
    ]
    if !rates.transfers.isEmpty {
      lines += Table(
        heading: ["", "", "DONE", "SIZE", "SPEED", "LEFT", "PATH"], rows: rates.transfers.map(\.row),
        numbers: [2, 3, 4, 5]
      ).lines.map { " \($0)" }
    }
    if status.fetchQueue > 0 { lines.append("  \(status.fetchQueue) more files are to be fetched") }
    return lines + obstacles.map { "  ! \($0)" } + failures.map { "  ! \($0)" }
  }

  private func queue(_ status: VolumeStatus) -> String {
    guard status.dirtyItems > 0 else { return "all is uploaded" }
    let waiting = max(0, status.dirtyItems - status.uploading - status.failingItems)
    var text = "\(status.dirtyItems) items, \(Quantity.show(bytes: status.dirtyBytes)) to upload: "
    text += "\(status.uploading) on their way, \(waiting) waiting, \(status.failingItems) failing"
    if let next = status.failing.compactMap(\.retryIn).min() {
      text += " (next attempt in \(Quantity.show(seconds: next)))"
    }
    return text
  }

  private func cache(_ status: VolumeStatus) -> String {
    Quantity.show(bytes: status.cacheBytes) + (status.cacheLimit.map { " of \(Quantity.show(bytes: $0))" } ?? "")
  }

  fileprivate static func speed(_ rate: Double) -> String { "\(Quantity.show(bytes: Int64(rate)))/s" }
}

extension TransferReport {
  fileprivate var row: [String] {
    let share = size > 0 ? min(1, Double(doneBytes) / Double(size)) : 1
    let filled = Int(share * 10)
    return [
      direction.rawValue, String(repeating: "#", count: filled) + String(repeating: "-", count: 10 - filled),
      "\(Int(share * 100))%", Quantity.show(bytes: size), MountReport.speed(rate),
      eta.map { Quantity.show(seconds: $0) } ?? "-", oneLine(path),
    ]
  }
}
