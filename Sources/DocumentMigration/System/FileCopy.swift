import Foundation
import StorageErrors

/// The bytes of files: copied with their holes, and digested with them filled in.
struct FileCopy {
  /// After each piece, with the bytes it had.
  var piece: (Int64) throws(StepFailure) -> Void

  private static let pieceSize = 1 << 20
  private static let zeros = [UInt8](repeating: 0, count: pieceSize)

  /// SHA-256 of `file`, whose size is `size`; every byte is read. EIO when it ends before that.
  func digest(
    of file: Descriptor, size: Int64, side: StepFailure.Side, path: DocumentPath
  ) throws(StepFailure) -> String {
    let digest = Digest()
    try read(file, 0..<size, of: size, side: side, path: path) { bytes, _ throws(StepFailure) in digest.update(bytes) }
    return digest.finish()
  }

  /// Copies `source` into the empty `destination`, and gives the SHA-256 of what was read.
  func copy(
    _ source: Descriptor, size: Int64, path: DocumentPath, to destination: Descriptor, at target: DocumentPath
  ) throws(StepFailure) -> String {
    let digest = Digest()
    var offset: Int64 = 0
    while offset < size {
      let data = source.nextData(from: offset, size: size)
      try skip(offset..<(data?.lowerBound ?? offset), digest)
      let range = data ?? offset..<size
      try read(source, range, of: size, side: .source, path: path) { bytes, place throws(StepFailure) in
        digest.update(bytes)
        // Where no data was announced, zeros become a hole.
        if data == nil, Self.areZeros(bytes) { return }
        try attempt(.destination, "write", target) { () throws(Errno) in try destination.write(bytes, at: place) }
      }
      offset = range.upperBound
    }
    // What a hole at the end leaves out.
    try attempt(.destination, "write", target) { () throws(Errno) in try destination.truncate(size) }
    return digest.finish()
  }

  private func read(
    _ file: Descriptor, _ range: Range<Int64>, of size: Int64, side: StepFailure.Side, path: DocumentPath,
    _ each: (UnsafeRawBufferPointer, Int64) throws(StepFailure) -> Void
  ) throws(StepFailure) {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceSize, alignment: 4096)
    defer { buffer.deallocate() }
    var offset = range.lowerBound
    while offset < range.upperBound {
      let room = UnsafeMutableRawBufferPointer(
        rebasing: buffer.prefix(Int(min(Int64(buffer.count), range.upperBound - offset))))
      let place = offset
      let count = try attempt(side, "read", path) { () throws(Errno) in try file.read(into: room, at: place) }
      if count == 0 { throw try end(of: file, before: size, path: path, side: side) }
      try each(UnsafeRawBufferPointer(rebasing: room.prefix(count)), offset)
      offset += Int64(count)
      try piece(Int64(count))
    }
  }

  private static func areZeros(_ bytes: UnsafeRawBufferPointer) -> Bool {
    guard let start = bytes.baseAddress else { return true }
    return zeros.withUnsafeBytes { $0.baseAddress.map { memcmp(start, $0, bytes.count) == 0 } ?? false }
  }

  /// A file that ends before the size it told has been shortened, or its storage fails; it has not come to its end.
  private func end(
    of file: Descriptor, before size: Int64, path: DocumentPath, side: StepFailure.Side
  ) throws(StepFailure) -> StepFailure {
    let now = try attempt(side, "look at", path) { () throws(Errno) in try file.status().size }
    return now < size ? .refused(.keepsChanging) : .system(.EIO, side, verb: "read", path)
  }

  private func skip(_ hole: Range<Int64>, _ digest: Digest) throws(StepFailure) {
    var left = Int64(hole.count)
    while left > 0 {
      let count = min(left, Int64(Self.pieceSize))
      Self.zeros.withUnsafeBytes { digest.update(UnsafeRawBufferPointer(rebasing: $0.prefix(Int(count)))) }
      left -= count
      try piece(count)
    }
  }
}
