import CLinux
import Glibc

/// Lines of a descriptor that it does not own.
final class LineReader {
  private let descriptor: Int32
  private let limit: Int
  private var buffer: [UInt8] = []
  private var hasEnded = false

  init(_ descriptor: Int32, limit: Int = 1 << 20) {
    self.descriptor = descriptor
    self.limit = limit
  }

  enum Line: Equatable {
    case text([UInt8])
    case tooLong
    /// The end, an error, or nothing within the descriptor's timeout.
    case none
  }

  /// The next line, without its end; the last one need not have any.
  func next() -> Line {
    while true {
      if let end = buffer.firstIndex(of: 0x0a) {
        let line = Array(buffer[..<end])
        buffer.removeSubrange(...end)
        return .text(line)
      }
      if buffer.count > limit { return .tooLong }
      guard fill() else { break }
    }
    guard hasEnded, !buffer.isEmpty else { return .none }
    defer { buffer = [] }
    return .text(buffer)
  }

  /// All that is left.
  func rest() -> [UInt8] {
    while fill() {}
    defer { buffer = [] }
    return buffer
  }

  private func fill() -> Bool {
    var piece = [UInt8](repeating: 0, count: 16_384)
    while true {
      let count = piece.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      hasEnded = count == 0
      guard count > 0 else { return false }
      buffer += piece.prefix(count)
      return true
    }
  }
}
