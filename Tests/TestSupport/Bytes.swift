import Containers

/// An upload's bytes in memory, which may misbehave.
package final class BytesSource: UploadSource {
  package let bytes: [UInt8]
  package let size: Int64
  private let isCurrent: @Sendable () -> Bool

  /// `size` other than the bytes' count: a source that shrinks while it is read, or has grown.
  package init(_ bytes: [UInt8], size: Int64? = nil, isCurrent: @escaping @Sendable () -> Bool = { true }) {
    self.bytes = bytes
    self.size = size ?? Int64(bytes.count)
    self.isCurrent = isCurrent
  }
  package convenience init(_ text: String) { self.init(Array(text.utf8)) }

  package func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ContainerError)
    -> Int
  {
    guard offset < bytes.count else { return 0 }
    let piece = bytes[Int(offset)...].prefix(buffer.count)
    buffer.copyBytes(from: piece)
    return piece.count
  }
  package func isStillCurrent() -> Bool { isCurrent() }
  /// Unknown for a source that shrinks or has grown.
  package var sha256: [UInt8]? { size == bytes.count ? Digest.of(bytes) : nil }
}

/// `a/b/c` as a path.
package func path(_ text: String) -> ContainerPath {
  ContainerPath(text.split(separator: "/").compactMap { try? ItemName(String($0)) })
}

extension Container {
  package func contents(
    _ path: ContainerPath, _ item: RemoteItem, _ range: Range<Int64>? = nil,
    _ call: CallContext = CallContext()
  ) throws(ContainerError) -> [UInt8] {
    var bytes: [UInt8] = []
    try read(path, version: item.version, range: range ?? 0..<item.size, call) {
      piece throws(ContainerError) in
      bytes += piece
    }
    return bytes
  }

  /// What is at `path` now, read until nobody changes it in between; nil when nothing is there.
  package func current(_ path: ContainerPath) throws(ContainerError) -> (item: RemoteItem, bytes: [UInt8])? {
    while let item = try item(at: path, CallContext()) {
      do throws(ContainerError) {
        return (item, try contents(path, item))
      } catch  where error.code == .versionChanged || error.code == .notFound {}
    }
    return nil
  }

  @discardableResult
  package func put(_ path: ContainerPath, _ text: String, if condition: Precondition = .absent)
    throws(ContainerError)
    -> RemoteItem
  {
    try put(path, from: BytesSource(text), attributes: .init(), if: condition, CallContext())
  }
}
