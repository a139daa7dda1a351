import CFuse
import DocsEngine

/// One request as the kernel wrote it, before libfuse decodes it. It is valid as long as its buffer.
struct KernelRequest {
  let header: fuse_in_header
  private let bytes: UnsafeRawBufferPointer
  static let headerSize = MemoryLayout<fuse_in_header>.size

  /// nil for what is too short to be one.
  init?(_ buffer: fuse_buf) {
    guard let start = buffer.mem, buffer.size >= Self.headerSize else { return nil }
    bytes = UnsafeRawBufferPointer(start: start, count: buffer.size)
    header = bytes.loadUnaligned(as: fuse_in_header.self)
  }

  var opcode: UInt32 { header.opcode }
  var node: NodeID { NodeID(header.nodeid) }
  /// The thread that asks; 0 for the kernel's own work, and for callers of another pid namespace.
  var thread: Int32 { Int32(bitPattern: header.pid) }

  /// What follows the header; nil when it is shorter than that.
  func argument<T: BitwiseCopyable>(_: T.Type = T.self) -> T? {
    guard bytes.count >= Self.headerSize + MemoryLayout<T>.size else { return nil }
    return bytes.loadUnaligned(fromByteOffset: Self.headerSize, as: T.self)
  }

  /// What follows the first `size` bytes of arguments.
  func data(after size: Int) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(rebasing: bytes[min(Self.headerSize + size, bytes.count)...])
  }

  /// The texts that follow the first `size` bytes of arguments, each up to its NUL.
  func texts(after size: Int) -> [[UInt8]] {
    data(after: size).split(separator: 0, omittingEmptySubsequences: false).map { Array($0) }
  }
}

extension Bridge {
  /// Answers a request that libfuse has not seen. False when the kernel did not take it: the caller was interrupted, or
  /// the mount is gone.
  @discardableResult
  func answer(_ unique: UInt64, error: Int32 = 0, _ body: UnsafeRawBufferPointer = .init(start: nil, count: 0)) -> Bool
  {
    var header = fuse_out_header(
      len: UInt32(MemoryLayout<fuse_out_header>.size + body.count), error: -error, unique: unique)
    return withUnsafeMutableBytes(of: &header) { head in
      let vectors = [
        iovec(iov_base: head.baseAddress, iov_len: head.count),
        iovec(iov_base: UnsafeMutableRawPointer(mutating: body.baseAddress), iov_len: body.count),
      ]
      return writev(device, vectors, body.isEmpty ? 1 : 2) > 0
    }
  }

  @discardableResult
  func answer<T: BitwiseCopyable>(_ unique: UInt64, value: T) -> Bool {
    withUnsafeBytes(of: value) { answer(unique, $0) }
  }
}
