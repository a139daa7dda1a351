import Containers
import Faults
import StorageErrors

/// What the kernel has asked of a mount, and how that was answered. Counted where the answer goes out.
package final class MountTraffic: Sendable {
  /// Columns: 0 for success, else the errno; no answer can carry a higher one.
  private static let columns = 512
  private let answers = CounterTable(rows: FaultOperation.allCases.count, columns: columns)
  /// Bytes of files that were read and written through the mount, as the kernel asked for them: with its readahead, and
  /// without what it had cached.
  package let read = Counter()
  package let written = Counter()

  package init() {}

  @inline(__always)
  func count(_ operation: FaultOperation, _ errno: Int32 = 0) {
    answers.add(row: operation.index, column: Int(errno))
  }

  /// Of what has been answered: how often, with which errno; nil: with success.
  package var counts: [(operation: FaultOperation, errno: Errno?, count: UInt64)] {
    FaultOperation.allCases.flatMap { operation in
      (0..<Self.columns).compactMap { column in
        let count = answers.value(row: operation.index, column: column)
        return count == 0 && column > 0 ? nil : (operation, column == 0 ? nil : Errno(rawValue: Int32(column)), count)
      }
    }
  }
}
