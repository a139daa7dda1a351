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
      About(container: plan.address.withoutSecrets, mountpoint: plan.mountpoint.text, version: docsfsVersion))
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
    let configuration = plan.options.configuration(
      state: plan.state.path.text, owner: (uid: geteuid(), gid: getegid()))
    do { return try Volume.open(configuration, container: container) } catch {
      throw Failure(error.message, error.exitCode)
    }
  }

  private func serve(_ volume: Volume, _ session: Guarded<FuseMount?>) throws(Failure) -> Int32 {
    defer { volume.stop(timeout: 10) }
    let mount: FuseMount
    do {
      mount = try FuseMount.mount(
        volume: volume, mountpoint: plan.mountpoint.text,
        options: FuseOptions(
          allowOther: plan.options.allowOther, readOnly: plan.options.readOnly,
          fsname: plan.state.path.text))
    } catch { throw Failure(error.message) }
    session.withLock { $0 = mount }
    volume.start(kernel: mount)
    let server: ControlServer
    do {
      server = try ControlServer.start(
        in: plan.state.path, commands: VolumeCommands(volume: volume, plan: plan, unmount: { mount.stop() }))
    } catch {
      mount.stop()
      throw error
    }
    defer { server.stop() }
    announceWhenItAnswers(mount)
    mount.run(workers: 10)
    return ExitCode.done
  }

  private func endOnSignals(_ session: Guarded<FuseMount?>) {
    let mountpoint = plan.mountpoint
    EndSignals.serve(
      first: { number in
        // Before the mount there is nothing to end but this process.
        guard let mount = session.withLock({ $0 }) else { _exit(128 + number) }
        mount.stop()
      },
      again: { _ in
        // The first one did not end it. What was acknowledged is on disk; only the kernel's side is in the way.
        try? Unmounting.unmount(mountpoint, lazily: true)
        _exit(ExitCode.failed)
      })
  }

  private func announceWhenItAnswers(_ mount: FuseMount) {
    let mountpoint = plan.mountpoint, ready = ready
    BackgroundThread.start("ready") {
      do throws(Errno) {
        _ = try mountpoint.status()
        ready.ready()
      } catch {
        ready.failed(Failure("the mount does not answer at", mountpoint, error))
        mount.stop()
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
