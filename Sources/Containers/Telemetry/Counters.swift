import Synchronization

/// A number that only grows, from any thread: one relaxed add.
package final class Counter: Sendable {
  private let number = Atomic<UInt64>(0)

  package init() {}

  @inline(__always)
  package func add(_ count: Int = 1) { number.wrappingAdd(UInt64(truncatingIfNeeded: count), ordering: .relaxed) }
  package var value: UInt64 { number.load(ordering: .relaxed) }
}

/// Counters by row and column.
package final class CounterTable: @unchecked Sendable {  // `cells` is allocated once, and each cell is atomic
  package let rows: Int
  package let columns: Int
  private let cells: UnsafeMutablePointer<Atomic<UInt64>>

  package init(rows: Int, columns: Int) {
    self.rows = rows
    self.columns = columns
    cells = .allocate(capacity: rows * columns)
    for index in 0..<rows * columns { (cells + index).initialize(to: Atomic(0)) }
  }

  deinit {
    cells.deinitialize(count: rows * columns)
    cells.deallocate()
  }

  /// What lies outside of the table is not counted.
  @inline(__always)
  package func add(row: Int, column: Int = 0) {
    guard row >= 0, row < rows, column >= 0, column < columns else { return }
    cells[row * columns + column].wrappingAdd(1, ordering: .relaxed)
  }

  package func value(row: Int, column: Int = 0) -> UInt64 {
    precondition(row >= 0 && row < rows && column >= 0 && column < columns)
    return cells[row * columns + column].load(ordering: .relaxed)
  }
}

/// How long things took.
package final class DurationHistogram: Sendable {
  /// Seconds: the upper ends of all buckets but the last, which has none.
  package static let bounds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

  private let buckets = CounterTable(rows: bounds.count + 1, columns: 1)
  private let nanoseconds = Atomic<UInt64>(0)

  package init() {}

  package func add(nanoseconds: UInt64) {
    let seconds = Double(nanoseconds) / 1e9
    buckets.add(row: Self.bounds.firstIndex { seconds <= $0 } ?? Self.bounds.count)
    self.nanoseconds.wrappingAdd(nanoseconds, ordering: .relaxed)
  }

  /// Seconds.
  package var sum: Double { Double(nanoseconds.load(ordering: .relaxed)) / 1e9 }

  /// How many took at most as long as each of `bounds`, and how many there were.
  package var cumulative: [UInt64] {
    var total: UInt64 = 0
    return (0..<buckets.rows).map { row in
      total += buckets.value(row: row)
      return total
    }
  }
}
