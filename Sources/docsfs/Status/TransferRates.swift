import Containers
import DocsEngine

/// How fast a mount's bytes go. Bytes a second, over the last five seconds.
struct TransferRates: Encodable, Equatable {
  var up = 0.0
  var down = 0.0
  var transfers: [TransferReport] = []
}

struct TransferReport: Encodable, Equatable {
  var path: String
  var direction: TransferStatus.Direction
  var doneBytes: Int64
  var size: Int64
  var rate: Double
  /// Seconds that are left at that rate; nil: it does not move.
  var eta: Double?
}

/// Makes rates of what a daemon counts, asked for it again and again.
struct RateMeter {
  private struct Sample {
    /// CLOCK_MONOTONIC ns.
    var time: UInt64
    var sent: Int64
    var fetched: Int64
    var done: [TransferKey: Int64]
  }
  private struct TransferKey: Hashable {
    var path: String
    var direction: TransferStatus.Direction
  }
  private static let window: UInt64 = 5_000_000_000

  private var samples: [Sample] = []
  private var daemon: Int32?

  /// `now`: CLOCK_MONOTONIC ns. The first answer of a daemon makes no rate.
  mutating func add(
    _ status: VolumeStatus, sent: UInt64, by daemon: Int32?, now: UInt64 = Clock.now()
  ) -> TransferRates {
    // Another daemon counts from nothing.
    if daemon != self.daemon { samples = [] }
    self.daemon = daemon
    let done = Dictionary(
      status.transfers.map { (TransferKey(path: $0.path, direction: $0.direction), $0.doneBytes) },
      uniquingKeysWith: { $1 })
    samples.append(
      Sample(time: now, sent: Int64(clamping: sent), fetched: status.fetchedBytes, done: done))
    while samples.count > 2, samples[1].time &+ Self.window <= now { samples.removeFirst() }
    var rates = TransferRates()
    rates.up = rate { $0.sent }
    rates.down = rate { $0.fetched }
    rates.transfers = status.transfers.map { transfer in
      let key = TransferKey(path: transfer.path, direction: transfer.direction)
      let rate = rate { $0.done[key] }
      return TransferReport(
        path: transfer.path, direction: transfer.direction, doneBytes: transfer.doneBytes, size: transfer.size,
        rate: rate, eta: rate > 0 ? Double(max(0, transfer.size - transfer.doneBytes)) / rate : nil)
    }
    return rates
  }

  /// From the first sample that knows the number to the last.
  private func rate(_ number: (Sample) -> Int64?) -> Double {
    guard let last = samples.last, let end = number(last),
      let first = samples.first(where: { number($0) != nil }), let start = number(first), last.time > first.time
    else { return 0 }
    return max(0, Double(end - start)) / (Double(last.time - first.time) / 1e9)
  }
}
