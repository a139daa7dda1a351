/// Where a PATH argument lies, found without a call that a mount would have to answer: it may hang.
struct PathResolver {
  var table: MountTable
  var workingDirectory: FilePath
  /// readlink(2), in tests a table.
  var linkTarget: (FilePath) -> FilePath? = { $0.linkTarget }

  struct Place: Equatable {
    var mount: MountEntry
    /// From the root of the file system that is mounted, no `/` in front; empty for the root.
    var relative: [UInt8]

    var isMountpoint: Bool { FilePath(relative).names == mount.root.names }
  }

  /// The absolute path, without `.`, `..` and symlinks before its last name. Inside a docsfs mount names are taken as
  /// they stand.
  func resolve(_ path: FilePath, followingLast: Bool = false) -> FilePath {
    var todo = Array((path.isAbsolute ? path : workingDirectory.appending(path.bytes)).names.reversed())
    var done: [[UInt8]] = []
    var links = 0
    while let name = todo.popLast() {
      if name == [0x2e] { continue }
      if name == [0x2e, 0x2e] {
        _ = done.popLast()
        continue
      }
      let here = FilePath.absolute(done + [name])
      let mayFollow = (followingLast || !todo.isEmpty) && links < 40
      if mayFollow, table.mount(holding: here)?.isDocsfs != true, let target = linkTarget(here) {
        links += 1
        if target.isAbsolute { done = [] }
        todo += target.names.reversed()
      } else {
        done.append(name)
      }
    }
    return .absolute(done)
  }

  /// The docsfs mount that `path` lies in, and where in it; nil when it lies in none.
  func place(_ path: FilePath) -> Place? {
    // A last name that is a symlink to a mountpoint means the mount; one that lies in a mount, itself.
    for followingLast in [false, true] {
      let absolute = resolve(path, followingLast: followingLast)
      guard let mount = table.mount(holding: absolute), mount.isDocsfs else { continue }
      let below = absolute.names.dropFirst(mount.mountpoint.names.count)
      return Place(mount: mount, relative: Array((mount.root.names + below).joined(separator: [0x2f])))
    }
    return nil
  }
}

extension PathResolver {
  static func current() throws(Failure) -> PathResolver {
    PathResolver(table: try .current(), workingDirectory: .workingDirectory)
  }

  /// The docsfs mount at or above `path`.
  func requirePlace(_ path: FilePath) throws(Failure) -> Place {
    if let place = place(path) { return place }
    throw Failure(
      "\(path) is not in a docsfs mount; docsfs status lists those there are", ExitCode.unavailable)
  }

  func requireMount(_ mountpoint: FilePath) throws(Failure) -> MountEntry {
    let place = try requirePlace(mountpoint)
    if place.isMountpoint { return place.mount }
    throw Failure(
      "\(mountpoint) is no mountpoint; it lies in the mount \(place.mount.mountpoint)", ExitCode.unavailable)
  }
}
