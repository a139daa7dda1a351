import Containers
import Faults

/// The lines of `.docsfs/log`: every injected fault and every mark, since the mount. The last 16 MiB are kept.
struct FaultLog {
  private static let chunk = 1 << 20
  private static let chunks = 16

  private var kept: [[UInt8]] = [[]]
  /// Where the first kept byte lies in the whole log.
  private(set) var start = 0
  private(set) var end = 0
  private var sequence: UInt64 = 0

  var count: Int { end - start }

  /// Lines are numbered from 1.
  mutating func append(_ content: FaultLogLine.Content) {
    sequence += 1
    let line = FaultLogLine(sequence: sequence, time: Timestamp.now().nanoseconds, content)
    let bytes = Array(line.text.utf8) + [0x0a]
    if kept[kept.count - 1].count + bytes.count > Self.chunk { begin() }
    kept[kept.count - 1] += bytes
    end += bytes.count
  }

  private mutating func begin() {
    if kept.count == Self.chunks { start += kept.removeFirst().count }
    kept.append([])
  }

  /// At most `count` bytes from `place` on, or from the oldest that is kept.
  func bytes(from place: Int, count: Int) -> [UInt8] {
    var skip = max(0, place - start)
    var result: [UInt8] = []
    for chunk in kept {
      if skip >= chunk.count {
        skip -= chunk.count
        continue
      }
      result += chunk[skip...].prefix(count - result.count)
      skip = 0
      if result.count == count { break }
    }
    return result
  }
}
