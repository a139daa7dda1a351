import CFuse
import CLinux
import Containers
import DocsEngine
import StorageErrors

/// A volume at a mountpoint: one session with the kernel.
package final class FuseMount: Sendable {
  private let bridge: Bridge
  private let notifier: Notifier
  private let controls: ControlFiles?
  private let caches: CacheRefresh?
  let mounted: MountedFileSystem

  private init(_ bridge: Bridge, _ mounted: MountedFileSystem) {
    self.bridge = bridge
    self.mounted = mounted
    notifier = Notifier(bridge)
    controls = bridge.options.control.map { ControlFiles(bridge, $0) }
    caches = bridge.faults.map { _ in CacheRefresh(bridge) }
    bridge.notifier = notifier
    bridge.controls = controls
    bridge.caches = caches
    bridge.faults?.caches.withLock { $0 = caches }
  }

  /// Where it is mounted, without symlinks.
  package var mountpoint: String { mounted.mountpoint }

  /// For `Volume.start`. Notices are delivered once `run` runs.
  package var kernelCache: any KernelCache { notifier }

  /// Mounts, and agrees with the kernel on how to talk; requests are answered from `run` on.
  ///
  /// The mountpoint is an existing folder; whether it suits is the caller's business. Call it before other
  /// threads write to standard error, which is caught meanwhile.
  package static func mount(
    volume: Volume, mountpoint: String, options: FuseOptions
  ) throws(FuseMountError) -> FuseMount {
    guard let resolved = realpath(mountpoint + "/.", nil) else {
      throw FuseMountError("\(mountpoint): \(Errno.current)")
    }
    defer { free(resolved) }
    let path = String(cString: resolved)
    LibfuseLog.capture()
    LibfuseLog.clear()
    let bridge = Bridge(volume: volume, options: options)
    guard let session = bridge.makeSession() else { throw refused(path) }
    let (result, printed) = capturingStandardError { fuse_session_mount(session, path) }
    LibfuseLog.append(printed)
    guard result == 0 else { throw refused(path) }
    guard let mounted = MountedFileSystem.at(path) else {
      fuse_session_unmount(session)
      throw FuseMountError("\(path) was mounted, and is not in the table of mounts")
    }
    let mount = FuseMount(bridge, mounted)
    try mount.shakeHands(session)
    try mount.beginPassthrough()
    return mount
  }

  private static func refused(_ path: String) -> FuseMountError {
    let reason = LibfuseLog.text
    return FuseMountError("cannot mount at \(path): \(reason.isEmpty ? "libfuse gives no reason" : reason)")
  }

  /// The kernel's first request is INIT: it is served here, before there are other threads.
  private func shakeHands(_ session: OpaquePointer) throws(FuseMountError) {
    bridge.watchDevice(session)
    serveRequests(bridge, session, atMost: 1)
    bridge.handshake.finish()
    if fuse_session_exited(session) != 0 {
      let reason = LibfuseLog.text
      try? stop(.forced)
      throw FuseMountError("cannot mount at \(mountpoint): \(reason)")
    }
    // The kernel starts with 128 KiB, whatever INIT asks for; only root may raise it.
    tellKernel("/sys/class/bdi/\(mounted.device)/read_ahead_kb", String(readahead / 1024))
  }

  private func beginPassthrough() throws(FuseMountError) {
    guard bridge.options.io != .cached, let reason = bridge.passthrough.begin(bridge),
      bridge.options.io == .passthrough
    else { return }
    try? stop(.forced)
    throw FuseMountError("cannot mount at \(mountpoint) with io=passthrough: \(reason); io=auto does without")
  }

  /// Serves the mount with `workers` threads until it is unmounted, or the connection is cut.
  package func run(workers: Int = 10) {
    guard let session = bridge.session else { return }
    let (bridge, notifier) = (bridge, notifier)
    let telling = Thread(name: "docsfs-notify") { notifier.run() }
    let (faults, caches) = (bridge.faults, caches)
    let timing = faults.flatMap { faults in Thread(name: "docsfs-faults") { faults.run() } }
    let forgetting = caches.flatMap { caches in Thread(name: "docsfs-caches") { caches.run() } }
    let serving = (1..<max(2, workers)).compactMap { number in
      Thread(name: "docsfs-fuse-\(number)") {
        if let session = bridge.session { serveRequests(bridge, session) }
      }
    }
    serveRequests(bridge, session)
    for thread in serving { thread.join() }
    fuse_session_exit(session)
    notifier.close()
    caches?.close()
    faults?.held.stop()
    for thread in [telling, timing, forgetting] { thread?.join() }
  }
}

/// Serves requests until the session has ended, or `atMost` of them.
private func serveRequests(_ bridge: Bridge, _ session: OpaquePointer, atMost: Int = .max) {
  var buffer = fuse_buf()
  defer { free(buffer.mem) }
  var served = 0
  while served < atMost, fuse_session_exited(session) == 0 {
    let result = fuse_session_receive_buf(session, &buffer)
    if result == -EINTR || result == -EAGAIN { continue }
    guard result > 0 else { return }
    if atMost == 1 {
      bridge.handshake.note(buffer)
      fuse_session_process_buf(session, &buffer)
    } else if bridge.admit(&buffer) {
      bridge.handOn(&buffer)
    }
    served += 1
  }
}
