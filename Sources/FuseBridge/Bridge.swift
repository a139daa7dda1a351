import CFuse
import Containers
import DocsEngine

/// What all requests of one mount share; libfuse's `userdata`. It owns the session, which therefore lives
/// until the last request is answered.
final class Bridge: @unchecked Sendable {
  // Sendable holds because `session` and `notifier` are set once, before any thread serves requests, and libfuse
  // locks the session itself.
  let volume: Volume
  let options: FuseOptions
  let interruptions = InterruptionTable()
  let handshake = Handshake()
  private(set) var session: OpaquePointer?
  weak var notifier: Notifier?

  init(volume: Volume, options: FuseOptions) {
    self.volume = volume
    self.options = options
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

  /// The bridge that libfuse hands back with a request or in `init`.
  static func of(userdata: UnsafeMutableRawPointer) -> Bridge {
    Unmanaged<Bridge>.fromOpaque(userdata).takeUnretainedValue()
  }
}
