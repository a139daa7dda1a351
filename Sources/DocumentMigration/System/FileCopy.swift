import Foundation
import StorageErrors

/// The bytes of files: copied with their holes, and digested with them filled in.
struct FileCopy {
  /// After each piece, with the bytes it had.
  var piece: (Int64) throws(StepFailure) -> Void

  private static let pieceSize = 1 << 20
  private static let zeros = [UInt8](repeating: 0, count: pieceSize)

  /// SHA-256 of `file`, whose size is `size`. EIO when it ends before that.
  func digest(
    of file: Descriptor, size: Int64, side: StepFailure.Side, path: DocumentPath
  ) throws(StepFailure) -> String {
    try run(from: file, size: size, path: path, side: side) { _, _ throws(StepFailure) in }
  }

  /// Copies `source` into the empty `destination`, and gives the SHA-256 of what was read.
  func copy(
    _ source: Descriptor, size: Int64, path: DocumentPath, to destination: Descriptor, at target: DocumentPath
  ) throws(StepFailure) -> String {
    let digest = try run(from: source, size: size, path: path, side: .source) { bytes, offset throws(StepFailure) in
      try attempt(.destination, "write", target) { () throws(Errno) in try destination.write(bytes, at: offset) }
    }
    // What a hole at the end leaves out.
    try attempt(.destination, "write", target) { () throws(Errno) in try destination.truncate(size) }
    return digest
  }

  private func run(
    from file: Descriptor, size: Int64, path: DocumentPath, side: StepFailure.Side,
    _ each: (UnsafeRawBufferPointer, Int64) throws(StepFailure) -> Void
  ) throws(StepFailure) -> String {
    let digest = Digest()
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.pieceSize, alignment: 4096)
    defer { buffer.deallocate() }
    var offset: Int64 = 0
    while offset < size {
      let data = file.nextData(from: offset, size: size)
      try skip(to: data?.lowerBound ?? size, from: &offset, digest)
      while let data, offset < data.upperBound {
        let room = UnsafeMutableRawBufferPointer(
          rebasing: buffer.prefix(Int(min(Int64(buffer.count), data.upperBound - offset))))
        let count = try attempt(side, "read", path) { () throws(Errno) in try file.read(into: room, at: offset) }
        if count == 0 { throw try end(of: file, before: size, path: path, side: side) }
        let bytes = UnsafeRawBufferPointer(rebasing: room.prefix(count))
        digest.update(bytes)
        try each(bytes, offset)
        offset += Int64(count)
        try piece(Int64(count))
      }
    }
    return digest.finish()
  }

  /// A file that ends before the size it told has been shortened, or its storage fails; it has not come to its end.
  private func end(
    of file: Descriptor, before size: Int64, path: DocumentPath, side: StepFailure.Side
  ) throws(StepFailure) -> StepFailure {
    let now = try attempt(side, "look at", path) { () throws(Errno) in try file.status().size }
    return now < size ? .refused(.keepsChanging) : .system(.EIO, side, verb: "read", path)
  }

  private func skip(to end: Int64, from offset: inout Int64, _ digest: Digest) throws(StepFailure) {
    while offset < end {
      let count = min(end - offset, Int64(Self.pieceSize))
      Self.zeros.withUnsafeBytes { digest.update(UnsafeRawBufferPointer(rebasing: $0.prefix(Int(count)))) }
      offset += count
      try piece(count)
    }
  }
}
