import CFuse
import CLinux
import Containers
import DocsEngine
import Faults
import StorageErrors

/// What the files in `.docsfs` of the mount's root are connected to.
package protocol ControlChannel: AnyObject, Sendable {
  /// Carries out commands, one after the other until one fails; what follows is dropped. `done` is called once, on any
  /// thread; it must not wait for the container on this one.
  func carryOut(_ statements: [ControlStatement], _ done: @escaping @Sendable (ControlError?) -> Void)
  /// A command that could not be read.
  func refused(_ error: ControlError)
  /// What reading `control`, `status.json` and `error` gives.
  var rules: String { get }
  var status: String { get }
  var lastError: String { get }
}

/// The files of `.docsfs`. It is found by name, and in no listing: a `cp -r` of the mount must not copy it.
enum ControlFile: UInt64, CaseIterable {
  case folder, control, status, log, error

  private static let base: UInt64 = 1 << 63

  init?(_ node: NodeID) {
    guard node.rawValue >= Self.base else { return nil }
    self.init(rawValue: node.rawValue - Self.base)
  }

  init?(name: [UInt8], in folder: NodeID) {
    let names: [String: ControlFile] =
      folder == .root
      ? [".docsfs": .folder]
      : folder == ControlFile.folder.node
        ? ["control": .control, "status.json": .status, "log": .log, "error": .error] : [:]
    guard let file = names[String(decoding: name, as: UTF8.self)] else { return nil }
    self = file
  }

  var node: NodeID { NodeID(Self.base + rawValue) }
  var name: String {
    switch self {
    case .folder: ".docsfs"
    case .control: "control"
    case .status: "status.json"
    case .log: "log"
    case .error: "error"
    }
  }
  var mode: UInt32 {
    switch self {
    case .folder: UInt32(S_IFDIR) | 0o500
    case .control: UInt32(S_IFREG) | 0o600
    default: UInt32(S_IFREG) | 0o400
    }
  }
}

/// Answers what the kernel asks of the control files, before libfuse and the faults see it: so it works while
/// everything else fails or hangs.
final class ControlFiles: Sendable {
  private enum Open {
    case control(ControlInput, text: [UInt8])
    case text([UInt8])
    case log(start: Int)
  }
  private struct State {
    var open: [UInt64: Open] = [:]
    var next: UInt64 = 1
  }
  private let state = Guarded(State())
  private let bridge: Bridge
  private let channel: any ControlChannel
  private let began = Timestamp.now()

  init(_ bridge: Bridge, _ channel: any ControlChannel) {
    self.bridge = bridge
    self.channel = channel
  }

  /// Whether it is one for these files; then it is answered.
  func serves(_ request: KernelRequest) -> Bool {
    guard let file = ControlFile(request.node) else { return servesName(request) }
    guard request.header.uid == geteuid() || request.header.uid == 0 || isHarmless(request.opcode) else {
      fail(request, .EPERM)
      return true
    }
    serve(request, file)
    return true
  }

  /// FORGET and RELEASE are nobody's in particular.
  private func isHarmless(_ opcode: UInt32) -> Bool {
    [
      FUSE_GETATTR.rawValue, FUSE_LOOKUP.rawValue, FUSE_RELEASE.rawValue, FUSE_RELEASEDIR.rawValue,
      FUSE_FORGET.rawValue,
    ]
    .contains(opcode)
  }

  /// What looks for `.docsfs` in the root, or would move it, remove it, or move something into it.
  private func servesName(_ request: KernelRequest) -> Bool {
    guard let call = request.call else { return false }
    let isNamed = call.node == .root && call.name.flatMap { ControlFile(name: $0, in: .root) } != nil
    if isNamed, call.operation == .lookup {
      lookedUp(request, .folder)
      return true
    }
    guard isNamed || call.target.map({ ControlFile($0.folder) != nil }) == true,
      [.unlink, .rmdir, .rename].contains(call.operation)
    else { return false }
    fail(request, .EPERM)
    return true
  }

  private func serve(_ request: KernelRequest, _ file: ControlFile) {
    switch request.opcode {
    case FUSE_LOOKUP.rawValue:
      guard let name = request.texts(after: 0).first, let child = ControlFile(name: name, in: request.node) else {
        return fail(request, .ENOENT)
      }
      lookedUp(request, child)
    case FUSE_FORGET.rawValue: break
    case FUSE_GETATTR.rawValue: attributes(request, file)
    // `>` truncates, and some set times: neither means anything here.
    case FUSE_SETATTR.rawValue: file == .control ? attributes(request, file) : fail(request, .EPERM)
    case FUSE_OPEN.rawValue: open(request, file)
    case FUSE_OPENDIR.rawValue: opened(request, handle: 0, flags: 0)
    case FUSE_READDIR.rawValue, FUSE_READDIRPLUS.rawValue: list(request)
    case FUSE_READ.rawValue: read(request)
    case FUSE_WRITE.rawValue: write(request)
    case FUSE_FLUSH.rawValue: flush(request)
    case FUSE_RELEASE.rawValue:
      if let release: fuse_release_in = request.argument() { state.withLock { $0.open[release.fh] = nil } }
      succeed(request)
    case FUSE_RELEASEDIR.rawValue, FUSE_FSYNC.rawValue, FUSE_FSYNCDIR.rawValue: succeed(request)
    case FUSE_GETXATTR.rawValue, FUSE_REMOVEXATTR.rawValue: fail(request, .ENODATA)
    case FUSE_LISTXATTR.rawValue: noXattrs(request)
    case FUSE_STATFS.rawValue:
      var answer = fuse_statfs_out()
      (answer.st.bsize, answer.st.frsize, answer.st.namelen) = (4096, 4096, 255)
      bridge.answer(request.header.unique, value: answer)
    case FUSE_IOCTL.rawValue: fail(request, Errno(rawValue: ENOTTY))
    case FUSE_CREATE.rawValue, FUSE_MKDIR.rawValue, FUSE_MKNOD.rawValue, FUSE_SYMLINK.rawValue, FUSE_UNLINK.rawValue,
      FUSE_RMDIR.rawValue, FUSE_RENAME.rawValue, FUSE_RENAME2.rawValue, FUSE_LINK.rawValue:
      fail(request, .EPERM)
    default: fail(request, .EOPNOTSUPP)
    }
  }

  private func succeed(_ request: KernelRequest) { bridge.answer(request.header.unique) }
  private func fail(_ request: KernelRequest, _ error: Errno) {
    bridge.answer(request.header.unique, error: error.wireValue)
  }

  // MARK: Attributes and names

  private func lookedUp(_ request: KernelRequest, _ file: ControlFile) {
    var entry = fuse_entry_out()
    entry.nodeid = file.node.rawValue
    // The name for as long as there is a mount; the attributes never: `log` grows.
    entry.entry_valid = 86_400
    entry.attr = attributes(of: file)
    bridge.answer(request.header.unique, value: entry)
  }

  private func attributes(_ request: KernelRequest, _ file: ControlFile) {
    var answer = fuse_attr_out()
    answer.attr = attributes(of: file)
    bridge.answer(request.header.unique, value: answer)
  }

  private func attributes(of file: ControlFile) -> fuse_attr {
    var found = fuse_attr()
    found.ino = file.node.rawValue
    found.mode = file.mode
    found.nlink = 1
    found.uid = geteuid()
    found.gid = getegid()
    found.blksize = 4096
    let time = timespec(file == .folder ? began : Timestamp.now())
    (found.atime, found.mtime, found.ctime) = (UInt64(time.tv_sec), UInt64(time.tv_sec), UInt64(time.tv_sec))
    switch file {
    case .folder, .control: break
    case .status: found.size = UInt64(channel.status.utf8.count)
    case .error: found.size = UInt64(channel.lastError.utf8.count)
    case .log: found.size = UInt64(bridge.faults?.logRange.count ?? 0)
    }
    return found
  }

  private func noXattrs(_ request: KernelRequest) {
    guard let wanted: fuse_getxattr_in = request.argument() else { return fail(request, .EINVAL) }
    if wanted.size == 0 {
      bridge.answer(request.header.unique, value: fuse_getxattr_out())
    } else {
      succeed(request)
    }
  }

  // MARK: Opening and reading

  private func open(_ request: KernelRequest, _ file: ControlFile) {
    // Root passes the mode; a write that nobody takes must not look like one.
    if file != .control, request.call?.opensForWriting == true { return fail(request, .EPERM) }
    let handle: Open
    switch file {
    case .folder: return fail(request, .EISDIR)
    case .control: handle = .control(ControlInput(), text: Array(channel.rules.utf8))
    case .status: handle = .text(Array(channel.status.utf8))
    case .error: handle = .text(Array(channel.lastError.utf8))
    case .log: handle = .log(start: bridge.faults?.logRange.lowerBound ?? 0)
    }
    let number = state.withLock { state in
      state.next += 1
      state.open[state.next] = handle
      return state.next
    }
    // Sizes are not known beforehand, and nothing of it is to be cached.
    opened(request, handle: number, flags: UInt32(FOPEN_DIRECT_IO))
  }

  private func opened(_ request: KernelRequest, handle: UInt64, flags: UInt32) {
    var answer = fuse_open_out()
    answer.fh = handle
    answer.open_flags = flags
    bridge.answer(request.header.unique, value: answer)
  }

  private func read(_ request: KernelRequest) {
    guard let wanted: fuse_read_in = request.argument(), let open = state.withLock({ $0.open[wanted.fh] }) else {
      return fail(request, .EBADF)
    }
    let offset = Int(clamping: wanted.offset)
    let bytes: [UInt8]
    switch open {
    case .control(_, let text), .text(let text): bytes = Array(text.dropFirst(offset).prefix(Int(wanted.size)))
    case .log(let start): bytes = bridge.faults?.log(from: start + offset, count: Int(wanted.size)) ?? []
    }
    bytes.withUnsafeBytes { _ = bridge.answer(request.header.unique, $0) }
  }

  private func list(_ request: KernelRequest) {
    guard let wanted: fuse_read_in = request.argument() else { return fail(request, .EINVAL) }
    var listing = ControlListing(size: Int(wanted.size), plus: request.opcode == FUSE_READDIRPLUS.rawValue)
    for (number, file) in ControlFile.allCases.enumerated().dropFirst(Int(clamping: wanted.offset)) {
      let name = file == .folder ? "." : file.name
      guard listing.add(name, attributes(of: file), cookie: UInt64(number + 1), looksUp: file != .folder) else { break }
    }
    listing.bytes.withUnsafeBytes { _ = bridge.answer(request.header.unique, $0) }
  }

  // MARK: Writing

  private func write(_ request: KernelRequest) {
    guard let wanted: fuse_write_in = request.argument() else { return fail(request, .EINVAL) }
    let bytes = request.data(after: MemoryLayout<fuse_write_in>.size).prefix(Int(wanted.size))
    let unique = request.header.unique
    take(request, wanted.fh) { input throws(ControlError) in
      input.append(bytes)
      return try input.all { input throws(ControlError) in try input.next() }
    } then: { [bridge] in
      bridge.answer(unique, value: fuse_write_out(size: wanted.size, padding: 0))
    }
  }

  /// What has no end of line yet is a command when the handle is closed.
  private func flush(_ request: KernelRequest) {
    guard let wanted: fuse_flush_in = request.argument() else { return fail(request, .EINVAL) }
    let unique = request.header.unique
    take(request, wanted.fh) { input throws(ControlError) in
      try input.all { input throws(ControlError) in try input.finish() }
    } then: { [bridge] in
      bridge.answer(unique)
    }
  }

  /// Takes the commands that are complete now; all are read before the first is carried out.
  private func take(
    _ request: KernelRequest, _ handle: UInt64,
    _ body: (inout ControlInput) throws(ControlError) -> [ControlStatement],
    then succeed: @escaping @Sendable () -> Void
  ) {
    let unique = request.header.unique
    let result = state.withLock { state -> Result<[ControlStatement], ControlError> in
      guard case .control(var input, let text) = state.open[handle] else { return .success([]) }
      // So that adding to it copies nothing.
      state.open[handle] = nil
      defer { state.open[handle] = .control(input, text: text) }
      do throws(ControlError) { return .success(try body(&input)) } catch { return .failure(error) }
    }
    switch result {
    case .failure(let error):
      channel.refused(error)
      fail(request, error.errno)
    case .success(let commands) where commands.isEmpty: succeed()
    case .success(let commands):
      channel.carryOut(commands) { [bridge] error in
        if let error { bridge.answer(unique, error: error.errno.wireValue) } else { succeed() }
      }
    }
  }
}

extension ControlInput {
  /// What `take` gives until it gives nothing. With one that cannot be read, nothing of it is left.
  fileprivate mutating func all(
    _ take: (inout ControlInput) throws(ControlError) -> ControlStatement?
  ) throws(ControlError) -> [ControlStatement] {
    var statements: [ControlStatement] = []
    do throws(ControlError) {
      while let statement = try take(&self) { statements.append(statement) }
    } catch {
      discard()
      throw error
    }
    return statements
  }
}

/// One answer of readdir or readdirplus for `.docsfs`.
private struct ControlListing {
  private(set) var bytes: [UInt8] = []
  let size: Int
  let plus: Bool

  init(size: Int, plus: Bool) {
    self.size = size
    self.plus = plus
  }

  /// False when it has no room left.
  mutating func add(_ name: String, _ attributes: fuse_attr, cookie: UInt64, looksUp: Bool) -> Bool {
    var record: [UInt8] = []
    if plus {
      var entry = fuse_entry_out()
      if looksUp { entry.nodeid = attributes.ino }
      entry.entry_valid = 86_400
      entry.attr = attributes
      withUnsafeBytes(of: entry) { record += $0 }
    }
    let head = fuse_dirent_head(
      ino: attributes.ino, off: cookie, namelen: UInt32(name.utf8.count), type: attributes.mode >> 12 & 0xf)
    withUnsafeBytes(of: head) { record += $0 }
    record += Array(name.utf8)
    record += [UInt8](repeating: 0, count: (8 - record.count % 8) % 8)
    guard bytes.count + record.count <= size else { return false }
    bytes += record
    return true
  }
}

/// `struct fuse_dirent` without its name, whose length is open.
private struct fuse_dirent_head: BitwiseCopyable {
  var ino: UInt64
  var off: UInt64
  var namelen: UInt32
  var type: UInt32
}
