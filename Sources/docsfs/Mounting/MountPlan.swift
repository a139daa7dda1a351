import CLinux
import Containers
import Faults
import StorageErrors

/// What a `mount` is going to do: all paths absolute and resolved, nothing changed yet.
struct MountPlan {
  var mountpoint: FilePath
  var address: ContainerAddress
  var state: StateDirectory
  var options: MountOptions
  var inForeground: Bool
  var logLevel = Log.Level.info

  init(_ arguments: ParsedArguments) throws(Failure) {
    options = try MountOptions(arguments.values("options"))
    inForeground = arguments.has("foreground")
    if let name = arguments.text("log-level") {
      guard let level = Log.Level(name: name) else {
        let names = Log.Level.allCases.map(\.name)
        throw .usage(
          "mount: --log-level=\(name) is none of \(names.joined(separator: ", "))"
            + suggestion(for: name, among: names, prefix: "--log-level="))
      }
      logLevel = level
    }
    address =
      if let url = arguments.value("container") { try ContainerAddress(url) } else { try .standard() }
    mountpoint = try Self.resolve(FilePath(arguments.arguments[0]))
    let folder =
      if let path = arguments.value("state") {
        try Self.resolve(FilePath(path))
      } else {
        try UserDirectories.state().appending(stateName(of: address.identity))
      }
    state = StateDirectory(path: folder)
    guard mountpoint.string != nil else { throw .usage("the mountpoint \(mountpoint) is not UTF-8") }
    guard state.path.string != nil else { throw .usage("the state directory \(state.path) is not UTF-8") }
  }

  /// Symlinks are followed up to a mount, so that a dead one is not asked.
  private static func resolve(_ path: FilePath) throws(Failure) -> FilePath {
    guard !path.bytes.isEmpty else { throw .usage("an empty path is no folder") }
    return try PathResolver.current().resolve(path, followingLast: true)
  }
}

/// What lies at the mountpoint before the mount.
enum MountpointState: Equatable {
  case ready
  /// A docsfs mount whose daemon has gone.
  case stale(MountEntry)
}

// The checks. None of them changes anything; each refusal is one line.
extension MountPlan {
  /// `holdingLock`: by the daemon, which has the state directory.
  func check(holdingLock: Bool = false) throws(Failure) -> MountpointState {
    let table = try MountTable.current()
    try checkNesting(table)
    try checkContainer()
    try state.check()
    // A daemon that was just killed holds it for a moment yet.
    if !holdingLock, !state.waitUntilFree(seconds: 1), let holder = state.holder() {
      throw Failure(
        "the container \(address.text) is in use: its state directory \(state.path) is \(holder.description); "
          + "docsfs unmount \(holder.mountpoint ?? "MOUNTPOINT") ends that", ExitCode.tryAgain)
    }
    try checkOwner()
    return try checkMountpoint(table, holdingLock)
  }

  private func checkNesting(_ table: MountTable) throws(Failure) {
    for (what, path) in [("container", address.folder), ("state directory", state.path)] {
      if let path, let mount = table.mount(holding: path), mount.isDocsfs {
        throw Failure(
          "the \(what) \(path) lies in the docsfs mount \(mount.mountpoint); choose a folder outside")
      }
    }
    if let folder = address.folder { try checkNesting(with: folder) }
    if state.path.isWithin(mountpoint) || mountpoint.isWithin(state.path) {
      throw Failure(
        "the state directory \(state.path) and the mountpoint \(mountpoint) lie one in the other; give another with --state"
      )
    }
  }

  private func checkNesting(with folder: FilePath) throws(Failure) {
    if mountpoint.isWithin(folder) {
      throw Failure("the mountpoint \(mountpoint) lies in the container \(folder); mount it outside")
    }
    if folder.isWithin(mountpoint) {
      throw Failure("the container \(folder) lies in the mountpoint \(mountpoint); mount it elsewhere")
    }
    if state.path.isWithin(folder) {
      throw Failure(
        "the state directory \(state.path) lies in the container \(folder); give another with --state")
    }
  }

  /// A cloud's is asked by the daemon, when it opens it.
  private func checkContainer() throws(Failure) {
    guard let folder = address.folder else { return }
    let status: stat
    do { status = try folder.status() } catch {
      // One that was there before may be away, as a cloud may be: what is known of it is shown.
      if error == .ENOENT, address.isDefault || state.about() != nil { return }
      let hint = error == .ENOENT ? "; make it first, or mount the disk that holds it" : ""
      throw Failure(
        "the container \(folder) cannot be used: \(error.message.lowercasedFirst)\(hint)",
        ExitCode.unavailable)
    }
    guard lx_is_dir(status.st_mode) != 0 else {
      throw Failure("the container \(folder) is not a folder", ExitCode.unavailable)
    }
    guard folder.call({ access($0, R_OK | X_OK) }) == 0 else {
      throw Failure("the container \(folder) is not readable for you; ask its owner", ExitCode.unavailable)
    }
  }

  /// A state directory keeps one container's items: another's would be taken for mass deletion.
  private func checkOwner() throws(Failure) {
    guard let about = state.about() else { return }
    let owner = try ContainerAddress(Array(about.container.utf8))
    if owner.identity == address.identity { return }
    throw Failure(
      "the state directory \(state.path) belongs to the container \(about.container); give another with --state"
    )
  }

  private func checkMountpoint(_ table: MountTable, _ holdingLock: Bool) throws(Failure) -> MountpointState {
    if let mount = table.mount(at: mountpoint) { return try checkMount(mount, holdingLock) }
    if let around = table.mount(holding: mountpoint), around.isDocsfs {
      throw Failure(
        "the mountpoint \(mountpoint) lies in the docsfs mount \(around.mountpoint); choose one outside")
    }
    let status: stat
    do { status = try mountpoint.status() } catch { throw missing(error) }
    guard lx_is_dir(status.st_mode) != 0 else {
      throw Failure("the mountpoint \(mountpoint) is not a folder")
    }
    try checkAccess(status)
    let names: [[UInt8]]
    do { names = try mountpoint.entries() } catch {
      throw Failure("cannot read the mountpoint", mountpoint, error)
    }
    guard names.isEmpty || options.nonEmpty else {
      throw Failure(
        "the mountpoint \(mountpoint) is not empty; empty it, or cover what is there with -o nonempty")
    }
    return .ready
  }

  private func checkAccess(_ status: stat) throws(Failure) {
    if geteuid() == 0 { return }
    guard status.st_uid == geteuid() || status.st_mode & mode_t(S_ISVTX) == 0 else {
      throw Failure(
        "the mountpoint \(mountpoint) belongs to user \(status.st_uid); choose a folder of your own")
    }
    guard mountpoint.call({ access($0, W_OK | X_OK) }) == 0 else {
      throw Failure("the mountpoint \(mountpoint) is not writable for you; choose a folder of your own")
    }
  }

  private func missing(_ error: Errno) -> Failure {
    guard error == .ENOENT, !mountpoint.exists else { return Failure("cannot use the mountpoint", mountpoint, error) }
    return Failure("the mountpoint \(mountpoint) does not exist; make it first: mkdir -p \(mountpoint)")
  }

  private func checkMount(_ mount: MountEntry, _ holdingLock: Bool) throws(Failure) -> MountpointState {
    guard mount.isDocsfs else {
      throw Failure(
        "\(mountpoint) is already a mount (\(mount.type), of \(mount.source)); choose another folder")
    }
    // Whoever holds the lock of its state directory knows that its daemon is no more.
    let isOurs = holdingLock && mount.stateDirectory == state.path
    if isOurs || mount.daemonIsDead { return .stale(mount) }
    let other = StateDirectory(path: mount.stateDirectory).about()?.container ?? "another container"
    throw Failure(
      "\(mountpoint) already shows \(other); docsfs unmount \(mountpoint) first, or choose another folder")
  }
}

extension MountEntry {
  /// Whether the daemon behind a docsfs mount has gone. Its lock tells; the mount is asked only when that is not
  /// readable, and then just what a dead one answers at once.
  var daemonIsDead: Bool {
    let state = StateDirectory(path: stateDirectory)
    if state.holder() != nil { return false }
    if state.lockFile.call({ access($0, R_OK) }) == 0 { return true }
    do {
      _ = try mountpoint.status()
      return false
    } catch {
      return error == .ENOTCONN
    }
  }
}
