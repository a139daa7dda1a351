import CLinux
import Containers
import Glibc
import StorageErrors

/// How far an upload is. Bytes.
final class UploadProgress: Sendable {
  let size: Int64
  private let count = Counter()

  init(size: Int64) { self.size = size }

  func add(_ bytes: Int) { count.add(bytes) }
  /// What leaves twice counts once.
  var sent: Int64 { min(size, Int64(clamping: count.value)) }
}

/// A file's bytes for an upload. They are those of one moment: nothing is published when the file has been changed
/// since, or else they are read from a copy.
final class ContentSnapshot: UploadSource {
  let size: Int64
  private let file: ContentFile?
  private let progress: @Sendable () -> Void
  private let stillCurrent: @Sendable () -> Bool
  private let sum = Guarded<[UInt8]?>(nil)
  /// How much of it has left.
  let sending: UploadProgress

  private init(
    _ file: ContentFile?, size: Int64, _ progress: @escaping @Sendable () -> Void,
    _ stillCurrent: @escaping @Sendable () -> Bool
  ) {
    self.progress = progress
    self.file = file
    self.size = size
    sending = UploadProgress(size: size)
    self.stillCurrent = stillCurrent
  }

  /// `copies`: from a copy of its own, a reflink where the disk can.
  static func take(
    _ content: Content, _ store: ContentStore, copies: Bool, _ progress: @escaping @Sendable () -> Void,
    _ stillCurrent: @escaping @Sendable () -> Bool
  ) throws(ContainerError) -> ContentSnapshot {
    let (number, expected) = content.local.withLock { ($0.number, $0.size) }
    guard number != 0 else { return ContentSnapshot(nil, size: 0, progress, stillCurrent) }
    let file: ContentFile
    let size: Int64
    do throws(Errno) {
      (file, size) = try open(number, store, copies: copies)
    } catch {
      if error == .ENOENT, expected == 0 { return ContentSnapshot(nil, size: 0, progress, stillCurrent) }
      throw ContainerError(.system(error), "content file \(number): \(error)")
    }
    // What somebody did to the content file behind our back must not become the container's only version.
    guard size == expected || copies || !stillCurrent() else {
      throw ContainerError(.system(.EIO), "content file \(number) has \(size) bytes instead of \(expected)")
    }
    return ContentSnapshot(file, size: size, progress, stillCurrent)
  }

  private static func open(
    _ number: Int64, _ store: ContentStore, copies: Bool
  ) throws(Errno) -> (ContentFile, Int64) {
    var file = try store.openForReading(number)
    if copies { file = try store.unnamedCopy(of: file) }
    var info = stat()
    guard fstat(file.fd, &info) == 0 else { throw Errno.current }
    return (file, Int64(info.st_size))
  }

  func isStillCurrent() -> Bool { stillCurrent() }
  func sent(_ count: Int) { sending.add(count) }

  func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ContainerError) -> Int {
    progress()
    guard let file else { return 0 }
    let n = pread(file.fd, buffer.baseAddress, min(buffer.count, Int(max(0, size - offset))), off_t(offset))
    guard n >= 0 else { throw ContainerError(.system(.current), "a content file cannot be read: \(Errno.current)") }
    // However long a busy disk has taken: it is not the container that does not answer.
    progress()
    return n
  }

  var sha256: [UInt8]? { sum.withLock { $0 } }

  /// The SHA-256 of all bytes. From then on the container can check what comes to it.
  func digest(_ call: CallContext) throws(ContainerError) -> [UInt8] {
    let hash = Digest()
    let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)
    defer { room.deallocate() }
    var at: Int64 = 0
    while at < size {
      try call.check("upload")
      let n = try read(at: at, into: room)
      guard n > 0 else { throw ContainerError(.cancelled, "the file became shorter while it was read") }
      hash.update(UnsafeRawBufferPointer(rebasing: room[..<n]))
      at += Int64(n)
    }
    let digest = hash.finish()
    sum.withLock { $0 = digest }
    return digest
  }
}
