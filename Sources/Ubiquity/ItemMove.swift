#if os(Linux)
  import CLinux
  import Foundation
  import StorageErrors

  /// Moves an item between two file systems, so that at every moment it is whole at the one place or at the other:
  /// copied under another name beside the destination, synced, compared, renamed, and only then removed.
  struct ItemMove {
    private let source: RawPath
    private let destination: RawPath
    /// Whether the source may hold stubs.
    private let isFromMount: Bool
    /// What was copied, in the order in which it was: a folder before what is in it.
    private var copied: [(path: RawPath, info: stat)] = []

    init(_ source: RawPath, to destination: RawPath, isFromMount: Bool) {
      self.source = source
      self.destination = destination
      self.isFromMount = isFromMount
    }

    mutating func run() throws(Problem) {
      if try at(destination, { () throws(Errno) in try destination.statusIfThere() }) != nil {
        throw Problem(.EEXIST, destination)
      }
      let staged = destination.parent.appending(Self.stagingName())
      do throws(Problem) {
        try copy(source, to: staged)
        try publish(staged)
      } catch {
        Self.discard(staged)
        throw error
      }
      try removeSource()
    }

    /// Hidden, and short whatever the name.
    private static func stagingName() -> [UInt8] {
      Array(".moving-\(String(UInt64.random(in: 0...UInt64.max), radix: 36))".utf8)
    }

    private func publish(_ staged: RawPath) throws(Problem) {
      let destination = destination
      try at(destination) { () throws(Errno) in
        try staged.move(to: destination)
        try destination.parent.sync()
      }
    }

    // MARK: Copying

    private mutating func copy(_ source: RawPath, to target: RawPath) throws(Problem) {
      let info = try at(source) { () throws(Errno) in try source.status() }
      copied.append((source, info))
      if info.isFolder {
        try copyFolder(source, info, to: target)
      } else if info.isSymlink {
        let link = try at(source) { () throws(Errno) in try source.linkTarget() }
        try at(target) { () throws(Errno) in
          try target.makeLink(to: link)
          try target.setTimes(of: info)
        }
      } else if info.isFile {
        try FileCopy(source, info, target).run()
      } else {
        throw Problem(.EOPNOTSUPP, source, "it is a device, a socket or a FIFO, which no cloud holds")
      }
    }

    private mutating func copyFolder(_ source: RawPath, _ info: stat, to target: RawPath) throws(Problem) {
      try at(target) { () throws(Errno) in try target.makeFolder(0o700) }
      for name in try at(source, { () throws(Errno) in try source.names() }) {
        let shown = source.appending(name)
        let child = isFromMount ? try at(shown) { () throws(Errno) in try shown.document() } : shown
        try copy(child, to: target.appending(child.name))
      }
      try copyAttributes(from: source, to: target)
      try at(target) { () throws(Errno) in
        let folder = try OpenDescriptor(target, O_RDONLY)
        try folder.setMode(info.st_mode)
        try folder.setTimes(of: info)
        try folder.sync()
      }
    }

    // MARK: Removing

    /// What has changed since it was copied, or has come in, stays: then both places have something, and nothing is lost.
    private func removeSource() throws(Problem) {
      for (path, info) in copied.reversed() {
        try at(path) { () throws(Errno) in
          if info.isFolder { return try path.removeFolder() }
          guard try path.status().isUnchanged(since: info) else { throw .EBUSY }
          try path.remove()
        }
      }
    }

    /// Only what this move has made.
    private static func discard(_ path: RawPath) {
      guard let info = try? path.status() else { return }
      guard info.isFolder else { return (try? path.remove()) ?? () }
      for name in (try? path.names()) ?? [] { discard(path.appending(name)) }
      try? path.removeFolder()
    }
  }

  /// One file, copied and compared.
  private struct FileCopy {
    private static let piece = 1 << 20

    let source: RawPath
    let info: stat
    let target: RawPath

    init(_ source: RawPath, _ info: stat, _ target: RawPath) {
      self.source = source
      self.info = info
      self.target = target
    }

    func run() throws(Problem) {
      let input = try at(source) { () throws(Errno) in try OpenDescriptor(source, O_RDONLY) }
      let output = try at(target) { () throws(Errno) in try OpenDescriptor(target, O_WRONLY | O_CREAT | O_EXCL) }
      try eachPiece(of: input) { _, bytes throws(Problem) in
        try at(target) { () throws(Errno) in try output.write(bytes) }
      }
      try copyAttributes(from: source, to: target)
      try at(target) { () throws(Errno) in
        try output.setMode(info.st_mode)
        try output.setTimes(of: info)
        try output.sync()
      }
      try compare(input)
    }

    /// Both are read once more: what the destination gives must be what the source gives, and the source must have
    /// stayed as it was.
    private func compare(_ input: OpenDescriptor) throws(Problem) {
      let written = try at(target) { () throws(Errno) in try OpenDescriptor(target, O_RDONLY) }
      try eachPiece(of: input) { offset, bytes throws(Problem) in
        let again = try at(target) { () throws(Errno) in try written.read(upTo: Self.piece, at: offset) }
        if again != bytes { throw Problem(.EIO, target, "it does not give back what was written to it") }
      }
      let size = try at(target) { () throws(Errno) in try written.status().st_size }
      let now = try at(source) { () throws(Errno) in try input.status() }
      guard size == info.st_size, now.isUnchanged(since: info) else {
        throw Problem(.EBUSY, source, "it was changed while it was moved")
      }
    }

    private func eachPiece(
      of input: OpenDescriptor, _ body: (Int64, [UInt8]) throws(Problem) -> Void
    ) throws(Problem) {
      var offset: Int64 = 0
      while true {
        let bytes = try at(source) { () throws(Errno) in try input.read(upTo: Self.piece, at: offset) }
        if bytes.isEmpty { return }
        try body(offset, bytes)
        offset += Int64(bytes.count)
      }
    }
  }

  private func copyAttributes(from source: RawPath, to target: RawPath) throws(Problem) {
    for name in try at(source, { () throws(Errno) in try source.attributeNames() }) {
      guard let value = try at(source, { () throws(Errno) in try source.attribute(name) }) else { continue }
      do { try target.setAttribute(name, value) } catch {
        throw Problem(error, target, "the extended attribute \(name) cannot be kept there")
      }
    }
  }
#endif
