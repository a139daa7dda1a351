import CFuse
import Containers
import DocsEngine

/// What all requests of one mount share; libfuse's `userdata`. It owns the session, which therefore lives
/// until the last request is answered.
final class Bridge: @unchecked Sendable {  // its variables are set before any thread serves; libfuse locks `session`
  let volume: Volume
  let options: FuseOptions
  let interruptions = InterruptionTable()
  let handshake: Handshake
  let passthrough = Passthrough()
  let amendments = ReplyAmendments()
  let faults: FaultInjector?
  let traffic: MountTraffic
  private(set) var session: OpaquePointer?
  weak var notifier: Notifier?
  weak var controls: ControlFiles?
  weak var caches: CacheRefresh?

  init(volume: Volume, options: FuseOptions) {
    self.volume = volume
    self.options = options
    faults = options.faults
    handshake = Handshake(asksPassthrough: options.io != .cached)
    traffic = options.traffic
  }

  deinit {
    if let session { fuse_session_destroy(session) }
  }

  /// Makes the session; nil when libfuse refused, with its reason in `LibfuseLog`.
  func makeSession() -> OpaquePointer? {
    var operations = fuseOperations()
    let userdata = Unmanaged.passUnretained(self).toOpaque()
    session = withFuseArguments(options.arguments) { args in
      fuse_session_new(args, &operations, MemoryLayout<fuse_lowlevel_ops>.size, userdata)
    }
    return session
  }

  /// The kernel's end of the session.
  var device: Int32 { session.map { fuse_session_fd($0) } ?? -1 }

  /// How long the kernel may answer from its caches now: not at all while a fault is armed. Where it cannot be made to
  /// forget all names at once, it may not remember them for long, or a fault would be late.
  var lifetimes: CacheLifetimes {
    guard let faults else { return options.lifetimes }
    if faults.forbidsCaching { return .none }
    return handshake.forgetsNames ? options.lifetimes : options.lifetimes.atMost(seconds: 1)
  }

  /// The bridge that libfuse hands back with a request or in `init`.
  static func of(userdata: UnsafeMutableRawPointer) -> Bridge {
    Unmanaged<Bridge>.fromOpaque(userdata).takeUnretainedValue()
  }
}
