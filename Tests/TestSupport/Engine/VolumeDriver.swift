import Containers
import DocsEngine
import Glibc
import StorageErrors

/// Calls a volume as the kernel would, by paths, and waits for the answers. `begin…` does not wait.
package final class VolumeDriver {
  package let volume: Volume
  package let cache = RecordingCache()
  private var lookups: [NodeID: UInt64] = [:]
  private let caller = Caller(uid: 1000, gid: 1000, pid: 0)

  /// The files of handles that are lent, opened anew as the kernel opens them.
  private let lent = Guarded<[ObjectIdentifier: OpenFile]>([:])

  /// `lends`: content files are lent to this driver, which reads and writes them as the kernel does in passthrough.
  package init(_ volume: Volume, lends: Bool = false) {
    self.volume = volume
    if lends { _ = volume.lendContentFiles { _ in nil } }
    volume.start(kernel: cache)
  }

  private static func name(_ text: Substring) throws(Errno) -> ItemName { try ItemName(String(text)) }

  private func split(_ path: String) throws(Errno) -> (folder: String, name: ItemName) {
    guard let slash = path.lastIndex(of: "/") else { return ("", try Self.name(path[...])) }
    return (String(path[..<slash]), try Self.name(path[path.index(after: slash)...]))
  }

  private func parent(_ path: String) throws(Errno) -> (NodeID, ItemName) {
    let (folder, name) = try split(path)
    return (try node(folder), name)
  }

  /// The kernel knows of one more.
  private func note(_ entry: Entry) { lookups[entry.node, default: 0] += 1 }

  // MARK: Names

  /// The entry at `path`; ENOENT when there is none.
  package func entry(_ path: String) throws(Errno) -> Entry {
    let (parent, name) = try parent(path)
    guard let entry = try beginLookup(parent, name).get() else { throw .ENOENT }
    note(entry)
    return entry
  }

  package func beginLookup(_ parent: NodeID, _ name: ItemName) -> Pending<Entry?> {
    Pending { volume.lookup(parent, name, $0, $1) }
  }

  package func node(_ path: String) throws(Errno) -> NodeID { path.isEmpty ? .root : try entry(path).node }
  package func exists(_ path: String) throws(Errno) -> Bool {
    do throws(Errno) { _ = try entry(path) } catch {
      guard error == .ENOENT else { throw error }
      return false
    }
    return true
  }
  package func attributes(_ path: String) throws(Errno) -> Attributes { try entry(path).attributes }

  /// The kernel forgets all that it has looked up.
  package func forgetAll() {
    for (node, count) in lookups { volume.forget(node, count: count) }
    lookups = [:]
  }

  package func makeFolder(_ path: String) throws(Errno) {
    let (parent, name) = try parent(path)
    note(try Pending { volume.makeFolder(parent, name, mode: 0o755, caller, $0, $1) }.get())
  }

  package func makeSymlink(_ path: String, target: String) throws(Errno) {
    let (parent, name) = try parent(path)
    note(try Pending { volume.makeSymlink(parent, name, target: Array(target.utf8), caller, $0, $1) }.get())
  }

  package func unlink(_ path: String) throws(Errno) {
    let (parent, name) = try parent(path)
    try Pending { volume.unlink(parent, name, $0, $1) }.get()
  }

  package func removeFolder(_ path: String) throws(Errno) { try beginRemoveFolder(path).get() }
  package func beginRemoveFolder(_ path: String) throws(Errno) -> Pending<Void> {
    let (parent, name) = try parent(path)
    return Pending { volume.removeFolder(parent, name, $0, $1) }
  }

  package func rename(_ path: String, _ target: String, _ flags: RenameFlags = []) throws(Errno) {
    let (parent, name) = try parent(path)
    let (newParent, newName) = try self.parent(target)
    try Pending { volume.rename(parent, name, to: newParent, newName, flags, $0, $1) }.get()
  }

  package func readlink(_ path: String) throws(Errno) -> String {
    String(decoding: try volume.readlink(try node(path)).get(), as: UTF8.self)
  }

  /// The names of a folder, sorted, without `.` and `..`.
  package func list(_ path: String = "") throws(Errno) -> [String] {
    let node = try node(path)
    let handle = try Pending { volume.openFolder(node, $0, $1) }.get()
    defer { volume.releaseFolder(handle) }
    var names: [String] = []
    try volume.readFolder(handle, after: 0, plus: false) { entry in
      names.append(String(decoding: entry.name, as: UTF8.self))
      return true
    }.get()
    return names.filter { $0 != "." && $0 != ".." }.sorted()
  }

  // MARK: Attributes

  package func change(_ path: String, _ body: (inout AttributeChange) -> Void) throws(Errno) {
    var change = AttributeChange()
    body(&change)
    _ = try beginChange(path, change).get()
  }
  package func beginChange(_ path: String, _ change: AttributeChange) throws(Errno) -> Pending<Attributes> {
    let node = try node(path)
    return Pending { volume.setAttributes(node, nil, change, caller, $0, $1) }
  }

  package func xattr(_ path: String, _ name: String) throws(Errno) -> String {
    String(decoding: try volume.xattr(try node(path), Array(name.utf8), caller).get(), as: UTF8.self)
  }
  package func setXattr(_ path: String, _ name: String, _ value: String) throws(Errno) {
    let node = try node(path)
    try Pending { volume.setXattr(node, Array(name.utf8), Array(value.utf8), flags: 0, $1) }.get()
  }

  // MARK: Files

  package func beginOpen(_ path: String, writes: Bool = false, truncates: Bool = false) throws(Errno)
    -> Pending<FileHandle>
  {
    beginOpen(try node(path), writes: writes, truncates: truncates)
  }
  /// As the kernel does by a name that it has looked up before.
  package func beginOpen(_ node: NodeID, writes: Bool = false, truncates: Bool = false) -> Pending<FileHandle> {
    let mode = OpenMode(reads: !truncates, writes: writes || truncates, truncates: truncates)
    return Pending { volume.open(node, mode, caller, $0, $1) }
  }
  package func open(_ path: String, writes: Bool = false, truncates: Bool = false) throws(Errno) -> FileHandle {
    do throws(Errno) { return try beginOpen(path, writes: writes, truncates: truncates).get() } catch {
      // The kernel looks the name up once more.
      guard error == .ESTALE else { throw error }
      return try beginOpen(path, writes: writes, truncates: truncates).get()
    }
  }
  package func create(_ path: String) throws(Errno) -> FileHandle {
    let (parent, name) = try parent(path)
    let mode = OpenMode(reads: true, writes: true, truncates: false)
    let (entry, handle) = try Pending { volume.create(parent, name, mode: 0o644, mode, caller, $0, $1) }.get()
    note(entry)
    return handle
  }
  package func release(_ handle: FileHandle) {
    lent.withLock { $0[ObjectIdentifier(handle)] = nil }
    volume.release(handle)
  }

  /// What the kernel reads and writes by itself; nil: the volume does.
  private func lentFile(_ handle: FileHandle) throws(Errno) -> OpenFile? {
    guard let source = handle.lent else { return nil }
    return try lent.withLock { files throws(Errno) in
      if let known = files[ObjectIdentifier(handle)] { return known }
      let file = try OpenFile("/proc/self/fd/\(source.fd)", O_RDWR)
      files[ObjectIdentifier(handle)] = file
      return file
    }
  }

  package func beginRead(_ handle: FileHandle, _ offset: Int64, _ count: Int) -> Pending<ReadResult> {
    Pending { volume.read(handle, offset: offset, count: count, $0, $1) }
  }
  /// One read(2): fewer bytes than `count` only at the end.
  package func read(_ handle: FileHandle, _ offset: Int64, _ count: Int) throws(Errno) -> [UInt8] {
    if let file = try lentFile(handle) { return try file.read(count, at: offset) }
    return try Self.bytes(try beginRead(handle, offset, count).get())
  }
  package static func bytes(_ result: ReadResult) throws(Errno) -> [UInt8] {
    guard case .file(let file, let offset, let count) = result else { return [] }
    var bytes = [UInt8](repeating: 0, count: count)
    let got = pread(file.fd, &bytes, count, off_t(offset))
    guard got >= 0 else { throw Errno.current }
    return Array(bytes.prefix(got))
  }
  /// All that is left behind `offset`.
  package func readAll(_ handle: FileHandle, from offset: Int64 = 0) throws(Errno) -> [UInt8] {
    var all: [UInt8] = []
    while true {
      let piece = try read(handle, offset + Int64(all.count), 1 << 20)
      if piece.isEmpty { return all }
      all += piece
    }
  }

  package func beginWrite(_ handle: FileHandle, _ offset: Int64, _ bytes: [UInt8]) -> Pending<Int> {
    Pending { wait, reply in
      bytes.withUnsafeBytes { volume.write(handle, offset: offset, $0, wait, reply) }
    }
  }
  package func write(_ handle: FileHandle, _ offset: Int64, _ bytes: [UInt8]) throws(Errno) {
    if let file = try lentFile(handle) {
      try file.write(bytes, at: offset)
      return
    }
    guard try beginWrite(handle, offset, bytes).get() == bytes.count else { throw .EIO }
  }
  package func sync(_ handle: FileHandle) throws(Errno) {
    try Pending { volume.sync(handle, dataOnly: false, $0, $1) }.get()
  }

  // MARK: Whole files

  package func read(_ path: String) throws(Errno) -> [UInt8] {
    let handle = try open(path)
    defer { release(handle) }
    return try readAll(handle)
  }
  package func text(_ path: String) throws(Errno) -> String {
    String(decoding: try read(path), as: UTF8.self)
  }

  /// Makes a file, or replaces what is in it, as `cp` does.
  package func write(_ path: String, _ bytes: [UInt8]) throws(Errno) {
    let handle = try exists(path) ? open(path, truncates: true) : create(path)
    defer { release(handle) }
    if !bytes.isEmpty { try write(handle, 0, bytes) }
  }
  package func write(_ path: String, _ text: String) throws(Errno) { try write(path, Array(text.utf8)) }

  /// Changes some bytes of a file.
  package func patch(_ path: String, _ offset: Int64, _ bytes: [UInt8]) throws(Errno) {
    let handle = try open(path, writes: true)
    defer { release(handle) }
    try write(handle, offset, bytes)
  }
}
