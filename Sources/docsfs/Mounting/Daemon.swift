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
    beginLog()
    raiseDescriptorLimit()
    EndSignals.block()
    let session = MountSession()
    endOnSignals(session)
    let lock = try StateLock.acquire(plan.state, mountpoint: plan.mountpoint)
    defer { lock.release() }
    let found = try plan.check(holdingLock: true)
    // All paths are absolute; from here on no folder is kept busy.
    chdir("/")
    let containers = ContainerStack(try plan.address.open())
    return try serve(try openVolume(containers.top), containers, at: found, session)
  }

  /// In the background standard error is the state directory's log, which whoever started us has opened.
  private func beginLog() {
    Log.setLevel(plan.logLevel)
    if ready.descriptor == nil { Log.useStandardError() } else { Log.useFile(plan.state.logFile.text) }
  }

  private func prepareMountpoint(_ found: MountpointState) throws(Failure) {
    switch found {
    case .ready: break
    case .stale(let mount):
      try Unmounting.clearStale(mount)
      ready.note("replaced the dead mount at \(plan.mountpoint)")
    }
  }

  private func openVolume(_ container: any Container) throws(Failure) -> Volume {
    let configuration = plan.options.configuration(state: plan.state.path, uid: geteuid(), gid: getegid())
    do { return try Volume.open(configuration, container: container) } catch {
      throw Failure(error.message, error.exitCode)
    }
  }

  private func serve(
    _ volume: Volume, _ containers: ContainerStack, at found: MountpointState, _ session: MountSession
  ) throws(Failure) -> Int32 {
    defer { volume.stop(timeout: 10) }
    try plan.state.write(
      About(container: plan.address.text, mountpoint: plan.mountpoint.text, version: docsfsVersion))
    // Before the mount: without its socket there shall be none.
    let faults = FaultInjector(volume: volume, isAllowed: plan.options.faults)
    let traffic = MountTraffic()
    let page = MetricsPage(volume: volume, containers: containers, faults: faults, mount: traffic)
    let metrics = try plan.options.metrics.map { address throws(Failure) in
      try MetricsServer.start(address) { page.text }
    }
    defer { metrics?.stop() }
    let commands = VolumeCommands(
      volume: volume, containers: containers, faults: faults, plan: plan, metricsURL: metrics?.url
    ) { $0 ? session.cutOff() : session.stop(.ifUnused) }
    let server = try ControlServer.start(in: plan.state.path, commands: commands)
    defer { server.stop() }
    try prepareMountpoint(found)
    let mount = try mountVolume(volume, commands, traffic)
    Log.info(
      "mounted", ["mountpoint": plan.mountpoint.text, "container": volume.status().container, "version": docsfsVersion])
    session.began(mount, volume, faults)
    volume.start(kernel: mount.kernelCache)
    announceWhenItAnswers(session)
    mount.run(workers: 10)
    session.ended()
    Log.info("unmounted", ["mountpoint": plan.mountpoint.text])
    return ExitCode.done
  }

  private func mountVolume(
    _ volume: Volume, _ commands: VolumeCommands, _ traffic: MountTraffic
  ) throws(Failure) -> FuseMount {
    var options = FuseOptions(fsname: plan.state.path.text)
    options.traffic = traffic
    options.allowOther = plan.options.allowOther
    options.readOnly = plan.options.readOnly
    options.io = plan.options.faults ? .cached : plan.options.io
    options.kernel = plan.options.kernel
    options.faults = commands.faults
    options.control = MountControl(commands)
    do {
      return try FuseMount.mount(volume: volume, mountpoint: plan.mountpoint.text, options: options)
    } catch { throw Failure(error.message) }
  }

  private func endOnSignals(_ session: MountSession) {
    EndSignals.serve(
      first: { number in
        // Before the mount there is nothing to end but this process.
        guard session.hasBegun else { _exit(128 + number) }
        session.end()
      },
      again: { _ in _ = session.cutOff() })
  }

  private func announceWhenItAnswers(_ session: MountSession) {
    let mountpoint = plan.mountpoint, ready = ready
    startDetached("ready") {
      do throws(Errno) {
        _ = try mountpoint.status()
        ready.ready()
      } catch {
        ready.failed(Failure("the mount does not answer at", mountpoint, error))
        _ = session.cutOff()
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
