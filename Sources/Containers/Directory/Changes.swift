import CLinux
import Glibc
import StorageErrors

extension DirectoryContainer {
  package func makeFolder(_ path: ContainerPath, attributes: RemoteAttributes, _ call: CallContext)
    throws(ContainerError) -> RemoteItem
  {
    try make("make the folder", path, attributes, .folder, nil, call) { folder, name throws(Errno) in
      try check(mkdirat(folder.fd, name, 0o777))
    }
  }

  package func makeSymlink(
    _ path: ContainerPath, target: [UInt8], attributes: RemoteAttributes, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    guard !target.isEmpty, !target.contains(0) else {
      throw ContainerError(.notRepresentable, "cannot make the symlink \(path): its target is no path")
    }
    return try make("make the symlink", path, attributes, .symlink, target, call) { folder, name throws(Errno) in
      try check(symlinkat(cName(target), folder.fd, name))
    }
  }

  /// What is returned is what was made, even if somebody has already put something else in its place: the next
  /// look tells that it has changed. For the same reason nothing is undone but an empty folder.
  private func make(
    _ what: String, _ path: ContainerPath, _ attributes: RemoteAttributes, _ kind: ItemKind, _ target: [UInt8]?,
    _ call: CallContext, _ create: (borrowing Descriptor, [CChar]) throws(Errno) -> Void
  ) throws(ContainerError) -> RemoteItem {
    try perform(what, path, call) { root throws(ContainerError) in
      let name = try requireName(what, path)
      let folder = try root.folder(path.parent, what)
      try on(what, path) { () throws(Errno) in try create(folder, cName(name.bytes)) }
      do throws(ContainerError) {
        guard let new = try look(at: path, in: folder, root, what), new.state.kind == kind,
          new.state.target == target
        else { throw changed(what, path, "something else took its place") }
        return try on(what, path) { () throws(Errno) in
          try write(attributes, to: new.descriptor, kind: kind, mode: new.state.mode)
          try folder.syncNames()
          guard let done = try FileState(of: new.descriptor, rootDevice: root.device) else { throw .ENOENT }
          let xattrs = kind == .symlink ? nil : try readXattrs(new.descriptor)
          return RemoteItem(done, name: name, xattrs: xattrs)
        }
      } catch {
        if kind == .folder { unlinkat(folder.fd, cName(name.bytes), AT_REMOVEDIR) }
        throw error
      }
    }
  }

  package func rename(
    _ path: ContainerPath, to target: ContainerPath, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try perform("rename", path, call) { root throws(ContainerError) in
      let name = cName(try requireName("rename", path).bytes)
      let newName = try requireName("rename", target)
      let folder = try root.folder(path.parent, "rename")
      let newFolder = try root.folder(target.parent, "rename to")
      let hidden = try openHidden(root)
      let lock = try lockBoth(path, folder, target, newFolder, hidden)
      defer { withExtendedLifetime(lock) {} }
      guard let found = try look(at: path, in: folder, root, "rename") else {
        throw ContainerError(.ENOENT, "rename", path)
      }
      if let version, found.state.version != version {
        throw changed("rename", path, "it has another version by now")
      }
      let isDone: Bool
      do throws(Errno) {
        isDone = try moveAtOnce(from: folder, name, to: newFolder, cName(newName.bytes))
      } catch {
        throw ContainerError(error, "rename", error == .EEXIST ? target : path)
      }
      if !isDone { try moveInTwoSteps(path, folder, target, newFolder, version, hidden, root) }
      guard let moved = try look(at: target, in: newFolder, root, "rename") else {
        // Somebody has taken it from there already: the next listing tells.
        return RemoteItem(
          found.state, name: newName, xattrs: found.item.attributes.xattrs,
          version: found.state.unknownVersion)
      }
      if let version, !moved.state.hasContent(of: version) {
        return try moveBack(path, target, folder, newFolder, hidden, root)
      }
      try on("rename", path) { () throws(Errno) in
        try newFolder.syncNames()
        if path.parent != target.parent { try folder.syncNames() }
      }
      return moved.item
    }
  }

  private func lockBoth(
    _ path: ContainerPath, _ folder: borrowing Descriptor, _ target: ContainerPath,
    _ newFolder: borrowing Descriptor, _ hidden: borrowing Hidden
  ) throws(ContainerError) -> NameLock {
    let names = [
      (try inodeNumber(folder, "rename"), try requireName("rename", path)),
      (try inodeNumber(newFolder, "rename"), try requireName("rename", target)),
    ]
    return try on("rename", path) { () throws(Errno) in try NameLock(names, hidden) }
  }

  /// For file systems that cannot refuse to replace: the hidden folder lies between.
  private func moveInTwoSteps(
    _ path: ContainerPath, _ folder: borrowing Descriptor, _ target: ContainerPath,
    _ newFolder: borrowing Descriptor, _ version: Version?, _ hidden: borrowing Hidden, _ root: borrowing Root
  ) throws(ContainerError) {
    // Early: taking it aside and putting it back would give it another ctime, and so another version.
    if try look(at: target, in: newFolder, root, "rename") != nil {
      throw changed("rename", target, "something is there")
    }
    let aside = try takeProven(version, at: path, folder, hidden, root, "rename")
    do throws(Errno) {
      try bring(from: hidden.displaced, aside.name, to: newFolder, cName(target.last?.bytes ?? []))
    } catch {
      try putBack(aside, to: folder, hidden, root)
      throw ContainerError(error, "rename", error == .EEXIST ? target : path)
    }
    discard(aside, hidden)
  }

  /// What was renamed was not what was meant: it returns to its name, or beside it. Always throws.
  private func moveBack(
    _ path: ContainerPath, _ target: ContainerPath, _ folder: borrowing Descriptor,
    _ newFolder: borrowing Descriptor, _ hidden: borrowing Hidden, _ root: borrowing Root
  ) throws(ContainerError) -> RemoteItem {
    let aside = try makeAside(AsideNote(ours: nil, base: nil, path: path), hidden)
    do throws(Errno) {
      let name = cName(target.last?.bytes ?? [])
      try check(renameat(newFolder.fd, name, hidden.displaced.fd, aside.name))
    } catch {
      discard(aside, hidden)
      throw ContainerError(error, "undo the rename of", path)
    }
    try putBack(aside, to: folder, hidden, root)
    throw changed("rename", path, "somebody was changing it")
  }

  package func remove(_ path: ContainerPath, kind: ItemKind, version: Version?, _ call: CallContext)
    throws(ContainerError)
  {
    try perform("remove", path, call) { root throws(ContainerError) in
      let name = try requireName("remove", path)
      let folder = try root.folder(path.parent, "remove")
      let hidden = try openHidden(root)
      let lock = try lock(name, in: folder, hidden, "remove")
      defer { withExtendedLifetime(lock) {} }
      guard let found = try look(at: path, in: folder, root, "remove") else {
        throw ContainerError(.ENOENT, "remove", path)
      }
      guard found.state.kind == kind else { throw changed("remove", path, "something else is there") }
      if let version, found.state.version != version {
        throw changed("remove", path, "it has another version by now")
      }
      if kind == .folder {
        try on("remove", path) { () throws(Errno) in
          try check(unlinkat(folder.fd, cName(name.bytes), AT_REMOVEDIR))
        }
      } else {
        try requireQuiet(version, at: path, folder, root, "remove")
        discard(try takeProven(version, at: path, folder, hidden, root, "remove"), hidden)
      }
      try on("remove", path) { () throws(Errno) in try folder.syncNames() }
    }
  }

  package func setAttributes(
    _ path: ContainerPath, _ attributes: RemoteAttributes, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try perform("set the attributes of", path, call) { root throws(ContainerError) in
      let what = "set the attributes of"
      try refuseHidden(what, path, .notRepresentable)
      let folder = try root.folder(path.parent, what)
      guard let found = try look(at: path, in: folder, root, what) else {
        throw ContainerError(.ENOENT, what, path)
      }
      return try on(what, path) { () throws(Errno) in
        try apply(attributes, to: found, version, root)
      }.get(changed(what, path, "it has another version by now"))
    }
  }

  /// nil when `version` is not there. An edit in place at the same time must not be taken for the caller's
  /// change: nobody can begin one here, and with somebody at it already the version returned is one that
  /// nobody sees.
  private func apply(
    _ attributes: RemoteAttributes, to found: borrowing Found, _ version: Version?, _ root: borrowing Root
  ) throws(Errno) -> RemoteItem? {
    let isFile = found.state.kind == .file
    let barrier = isFile ? try? WriteBarrier(found.descriptor) : nil
    guard let before = try FileState(of: found.descriptor, rootDevice: root.device) else { return nil }
    if let version, before.version != version { return nil }
    try write(attributes, to: found.descriptor, kind: before.kind, mode: before.mode)
    if found.state.kind != .symlink { try? sync(found.descriptor) }
    guard let after = try FileState(of: found.descriptor, rootDevice: root.device) else { return nil }
    let isSame = after.size == before.size && after.modified == before.modified && attributes.mtime == nil
    let isQuiet = !isFile || barrier != nil || isSame
    return RemoteItem(
      after, name: found.item.name, xattrs: try readXattrs(found.descriptor),
      version: isQuiet ? after.version : after.unknownVersion)
  }

  private func sync(_ item: borrowing Descriptor) throws(Errno) {
    let file = try item.reopened(O_RDONLY | O_NONBLOCK | O_NOCTTY)
    try check(fsync(file.fd))
  }
}

extension Optional {
  fileprivate func get<E: Error>(_ otherwise: @autoclosure () -> E) throws(E) -> Wrapped {
    guard let self else { throw otherwise() }
    return self
  }
}
