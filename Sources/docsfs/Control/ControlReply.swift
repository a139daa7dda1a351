import DocsEngine
import Faults
import FuseBridge
import StorageErrors

/// A line that the daemon sends back: JSON, with what of it applies. The last one of a command has `done`.
struct ControlReply: Codable, Sendable {
  var status: VolumeStatus?
  var daemon: DaemonInfo?
  var faults: FaultStatus?
  var traffic: TrafficInfo?
  var item: ItemStatus?
  /// Why the item above was left as it is.
  var refused: String?
  var progress: Progress?
  /// Whole lines, of rules or of the log.
  var text: String?
  /// Where in the log the next lines will be, or are.
  var next: Int?
  var done: Bool?
  var exit: Int32?
  /// Why `exit` is not 0.
  var error: String?
  /// The symbol of what a write to `.docsfs/control` would get.
  var errno: String?

  init() {}

  init(item: ItemStatus, refused: String? = nil) {
    self.item = item
    self.refused = refused
  }

  init(text: String, next: Int? = nil) {
    self.text = text
    self.next = next
  }

  static func done(_ exit: Int32 = ExitCode.done, _ error: String? = nil, _ errno: Errno? = nil) -> ControlReply {
    var reply = ControlReply()
    reply.done = true
    reply.exit = exit
    reply.error = error
    reply.errno = errno?.name
    return reply
  }

  static func done(_ error: ControlError) -> ControlReply {
    .done(error.errno == .EINVAL ? ExitCode.usage : ExitCode.failed, error.description, error.errno)
  }
  static func done(_ failure: Failure) -> ControlReply { .done(failure.exitCode, failure.message) }
}

struct DaemonInfo: Codable, Sendable, Equatable {
  var pid: Int32
  var version: String
  var mountpoint: String
  var readOnly: Bool
  /// The URL where Prometheus may ask, if any.
  var metrics: String?
}

/// What has gone to and come from the container since the mount.
struct TrafficInfo: Codable, Sendable, Equatable {
  /// Bytes of files, those in vain among them.
  var sentBytes: UInt64
  var receivedBytes: UInt64
  /// Requests that were made again after a failure.
  var retries: UInt64

  init(_ containers: ContainerStack) {
    sentBytes = containers.measured.traffic.sent.value
    receivedBytes = containers.measured.traffic.received.value
    retries = containers.top.retries.value
  }
}

/// How far a long command is.
struct Progress: Codable, Sendable, Equatable {
  var doneBytes: Int64
  var totalBytes: Int64
  var doneItems: Int
  var totalItems: Int
}

extension Progress {
  init(_ progress: CommandProgress) {
    self.init(
      doneBytes: progress.doneBytes, totalBytes: progress.totalBytes, doneItems: progress.doneItems,
      totalItems: progress.totalItems)
  }
}
