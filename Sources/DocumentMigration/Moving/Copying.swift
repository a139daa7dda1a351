import Foundation
import StorageErrors

// The steps of a document that goes to another file system, in their order.
extension Mover {
  func copy(_ subject: Step.Subject, _ read: @escaping (Int64) -> Void) throws(StepFailure) -> Step {
    let temporary = subject.target.renamed(TemporaryName.make(ledger.seed, subject.entry.path))
    // Before the file itself: whatever happens, a later run finds it.
    try ledger.note(
      .began(
        path: subject.entry.path, temporary: temporary, target: subject.target, wasPlaceholder: subject.wasPlaceholder),
      durable: true)
    try attempt(.destination, "remove", destination[temporary]) { () throws(Errno) in
      try POSIX.removeIfPresent(destination[temporary])
    }
    return .attributes(
      subject.status.kind == .symlink
        ? try copyLink(subject, temporary) : try copyFile(subject, temporary, read))
  }

  private func copyFile(
    _ subject: Step.Subject, _ temporary: DocumentPath, _ read: @escaping (Int64) -> Void
  ) throws(StepFailure) -> Step.Copy {
    let path = source[subject.entry.path]
    let from = try open(.source, path)
    let before = try attempt(.source, "look at", path) { () throws(Errno) in try from.status() }
    guard before.stamp == subject.status.stamp else { throw .refused(.keepsChanging) }
    let to = try attempt(.destination, "make", destination[temporary]) { () throws(Errno) in
      try Descriptor(destination[temporary], O_RDWR | O_CREAT | O_EXCL)
    }
    let files = FileCopy { count throws(StepFailure) in
      read(count)
      try control.checkpoint()
    }
    let digest = try files.copy(from, size: before.size, path: path, to: to, at: destination[temporary])
    let after = try attempt(.source, "look at", path) { () throws(Errno) in try from.status() }
    guard after.stamp == before.stamp else { throw .refused(.keepsChanging) }
    return Step.Copy(subject: subject, temporary: temporary, file: to, content: .bytes(sha256: digest))
  }

  private func copyLink(_ subject: Step.Subject, _ temporary: DocumentPath) throws(StepFailure) -> Step.Copy {
    let target = try link(.source, source[subject.entry.path])
    try attempt(.destination, "make", destination[temporary]) { () throws(Errno) in
      try POSIX.symlink(target, at: destination[temporary])
    }
    return Step.Copy(subject: subject, temporary: temporary, file: nil, content: .link(target))
  }

  func setAttributes(_ copy: Step.Copy) throws(StepFailure) -> Step {
    var copy = copy
    let path = destination[copy.temporary]
    let status = copy.subject.status
    guard let file = copy.file else {
      POSIX.setOwner(path, of: status)
      try attempt(.destination, "set the times of", path) { () throws(Errno) in try POSIX.setTimes(path, of: status) }
      return .sync(copy)
    }
    try setXattrs(from: source[copy.subject.entry.path], to: path, &copy.notes)
    file.setOwner(of: status)
    do throws(Errno) { try file.setMode(status.mode) } catch {
      // FAT and some network file systems have no modes.
      guard error == .EPERM || error == .EOPNOTSUPP else {
        throw .system(error, .destination, verb: "set the mode of", path)
      }
      copy.notes.append("its mode could not be kept")
    }
    try attempt(.destination, "set the times of", path) { () throws(Errno) in try file.setTimes(of: status) }
    return .sync(copy)
  }

  /// A move never drops what a user has attached to a document; a copy tells.
  private func setXattrs(
    from: DocumentPath, to: DocumentPath, _ notes: inout [String]
  ) throws(StepFailure) {
    var refused: [String] = []
    let xattrs = try attempt(.source, "read the attributes of", from) { () throws(Errno) in
      try POSIX.userXattrs(from)
    }
    for (name, value) in xattrs {
      do throws(Errno) { try POSIX.setXattr(to, name, value) } catch {
        guard [.EOPNOTSUPP, .E2BIG, .ERANGE, .EPERM].contains(error) else {
          throw .system(error, .destination, verb: "set the attribute \(name) of", to)
        }
        refused.append(name)
      }
    }
    guard !refused.isEmpty else { return }
    if options.disposition == .move { throw .refused(.attributesDoNotFit(refused)) }
    notes.append("attributes not kept: " + refused.joined(separator: ", "))
  }

  func sync(_ copy: Step.Copy) throws(StepFailure) -> Step {
    let path = destination[copy.temporary]
    if let file = copy.file {
      try control.syncing { () throws(StepFailure) in
        try attempt(.destination, "sync", path) { () throws(Errno) in try file.sync() }
      }
      file.dropCache()
    }
    return .verify(copy)
  }

  /// Through a handle of its own, as whoever opens the document next will read it.
  func verify(_ copy: Step.Copy) throws(StepFailure) -> Step {
    let path = destination[copy.temporary]
    let found: Step.Content
    if copy.file == nil {
      found = .link(try link(.destination, path))
    } else {
      let file = try open(.destination, path)
      file.dropCache()
      let size = try attempt(.destination, "look at", path) { () throws(Errno) in try file.status().size }
      guard size == copy.subject.status.size else { throw .refused(.readBackDiffers) }
      let files = FileCopy { _ throws(StepFailure) in try control.checkpoint() }
      found = .bytes(sha256: try files.digest(of: file, size: size, side: .destination, path: path))
    }
    guard found == copy.content else { throw .refused(.readBackDiffers) }
    return .place(copy)
  }

  func place(_ copy: Step.Copy) throws(StepFailure) -> Step {
    let subject = copy.subject
    guard try found(at: .source, subject.entry.path)?.stamp == subject.status.stamp else {
      throw .refused(.keepsChanging)
    }
    try destination.check(.destination)
    try put(destination[copy.temporary], at: destination[subject.target], replacing: subject.replacing)
    guard let there = try found(at: .destination, subject.target) else { throw .refused(.readBackDiffers) }
    try ledger.note(
      .placed(
        path: subject.entry.path, target: subject.target, source: subject.status.stamp, destination: there.stamp))
    return .syncFolder(
      Step.Placed(
        subject: subject, outcome: options.disposition == .move ? .moved : .copied, proven: there.stamp,
        notes: copy.notes))
  }
}
