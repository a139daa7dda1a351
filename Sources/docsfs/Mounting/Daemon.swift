import CLinux
import Glibc
import Containers
import DocsEngine
import FuseBridge
import StorageErrors

/// One mount, from its lock to the end of its session, in this process.
struct Daemon {
  var plan: MountPlan
  var ready: ReadyPipe

  /// Blocks until unmounted. What goes wrong before the mount answers is thrown; after that the exit code tells.
  func run() throws(Failure) -> Int32 {
    umask(0o077)
    raiseDescriptorLimit()
    EndSignals.block()
    let session = Guarded<FuseMount?>(nil)
    endOnSignals(session)
    let lock = try StateLock.acquire(plan.state, mountpoint: plan.mountpoint)
    defer { lock.release() }
    try prepareMountpoint()
    try plan.state.write(
      About(container: plan.address.text, mountpoint: plan.mountpoint.text, version: docsfsVersion))
    // A relative container path was made absolute; from here on no folder is kept busy.
    chdir("/")
    return try serve(try openVolume(), session)
  }

  private func prepareMountpoint() throws(Failure) {
    switch try plan.check(holdingLock: true) {
    case .ready: break
    case .missing:
      guard plan.mountpoint.call({ mkdir($0, 0o700) }) == 0 else {
        throw Failure("cannot make the mountpoint", plan.mountpoint, .current)
      }
      ready.note("made the folder \(plan.mountpoint)")
    case .stale(let mount):
      try Unmounting.clearStale(mount)
      ready.note("replaced the dead mount at \(plan.mountpoint)")
    }
  }

  private func openVolume() throws(Failure) -> Volume {
    let container = try plan.address.open()
    let configuration = plan.options.configuration(state: plan.state.path, uid: geteuid(), gid: getegid())
    do { return try Volume.open(configuration, container: container) } catch {
      throw Failure(error.message, error.exitCode)
    }
  }

  private func serve(_ volume: Volume, _ session: Guarded<FuseMount?>) throws(Failure) -> Int32 {
    defer { volume.stop(timeout: 10) }
    // Before the mount: without its socket there shall be none.
    let server = try ControlServer.start(
      in: plan.state.path,
      commands: VolumeCommands(volume: volume, plan: plan) { Self.stop(session, force: $0) })
    defer { server.stop() }
    let mount = try mountVolume(volume)
    session.withLock { $0 = mount }
    volume.start(kernel: mount.kernelCache)
    announceWhenItAnswers(mount)
    mount.run(workers: 10)
    return ExitCode.done
  }

  private static func stop(_ session: Guarded<FuseMount?>, force: Bool) -> FuseMountError? {
    do throws(FuseMountError) {
      try session.withLock { $0 }?.stop(force ? .forced : .ifUnused)
      return nil
    } catch { return error }
  }

  private func mountVolume(_ volume: Volume) throws(Failure) -> FuseMount {
    var options = FuseOptions(fsname: plan.state.path.text)
    options.allowOther = plan.options.allowOther
    options.readOnly = plan.options.readOnly
    do {
      return try FuseMount.mount(volume: volume, mountpoint: plan.mountpoint.text, options: options)
    } catch { throw Failure(error.message) }
  }

  private func endOnSignals(_ session: Guarded<FuseMount?>) {
    EndSignals.serve(
      first: { number in
        // Before the mount there is nothing to end but this process.
        guard let mount = session.withLock({ $0 }) else { _exit(128 + number) }
        Self.end(mount)
      },
      again: { _ in
        _ = Self.stop(session, force: true)
        // What was acknowledged is on disk. When the process ends, so does the connection, and who waits for it.
        sleep(3)
        _exit(ExitCode.failed)
      })
  }

  /// Who has something open keeps it until done with it, or until the second signal.
  private static func end(_ mount: FuseMount) {
    do { try mount.stop(.ifUnused) } catch {
      Log.note("\(error.message): unmounted lazily; another signal cuts off who still uses it")
      try? mount.stop(.lazy)
    }
  }

  private func announceWhenItAnswers(_ mount: FuseMount) {
    let mountpoint = plan.mountpoint, ready = ready
    startDetached("ready") {
      do throws(Errno) {
        _ = try mountpoint.status()
        ready.ready()
      } catch {
        ready.failed(Failure("the mount does not answer at", mountpoint, error))
        try? mount.stop(.forced)
      }
    }
  }

  private func raiseDescriptorLimit() {
    var limit = rlimit()
    let kind = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    guard getrlimit(kind, &limit) == 0, limit.rlim_cur < limit.rlim_max else { return }
    limit.rlim_cur = limit.rlim_max
    setrlimit(kind, &limit)
  }
}
