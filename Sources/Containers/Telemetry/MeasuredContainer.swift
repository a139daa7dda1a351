import Faults

/// What has been asked of a container, and how that went. Counted where each request is made; a request that is tried
/// again counts again.
package final class ContainerTraffic: Sendable {
  private let requests = CounterTable(rows: CloudOperation.allCases.count, columns: RequestOutcome.allCases.count)
  private let durations = CloudOperation.allCases.map { _ in DurationHistogram() }
  /// Bytes of files that have gone to the container, and come from it, among them those that were of no use.
  package let sent = Counter()
  package let received = Counter()

  package init() {}

  func count(_ operation: CloudOperation, _ outcome: RequestOutcome, nanoseconds: UInt64) {
    let row = Self.index(operation)
    requests.add(row: row, column: RequestOutcome.allCases.firstIndex(of: outcome) ?? 0)
    durations[row].add(nanoseconds: nanoseconds)
  }

  package func requests(_ operation: CloudOperation, _ outcome: RequestOutcome) -> UInt64 {
    requests.value(row: Self.index(operation), column: RequestOutcome.allCases.firstIndex(of: outcome) ?? 0)
  }
  package func durations(_ operation: CloudOperation) -> DurationHistogram { durations[Self.index(operation)] }

  private static func index(_ operation: CloudOperation) -> Int {
    CloudOperation.allCases.firstIndex(of: operation) ?? 0
  }
}

/// How a request ended, in a word.
package enum RequestOutcome: String, CaseIterable, Sendable {
  case ok
  case notFound = "not_found"
  case preconditionFailed = "precondition_failed"
  case versionChanged = "version_changed"
  case notEmpty = "not_empty"
  case permissionDenied = "permission_denied"
  case outOfSpace = "out_of_space"
  case readOnly = "read_only"
  case unreachable
  case identityMissing = "identity_missing"
  case busy
  case cancelled
  case timedOut = "timed_out"
  case inconsistent
  case notRepresentable = "not_representable"
  case system

  init(_ code: ContainerError.Code) {
    self =
      switch code {
      case .notFound: .notFound
      case .preconditionFailed: .preconditionFailed
      case .versionChanged: .versionChanged
      case .notEmpty: .notEmpty
      case .permissionDenied: .permissionDenied
      case .outOfSpace: .outOfSpace
      case .readOnly: .readOnly
      case .unreachable: .unreachable
      case .identityMissing: .identityMissing
      case .busy: .busy
      case .cancelled: .cancelled
      case .timedOut: .timedOut
      case .inconsistent: .inconsistent
      case .notRepresentable: .notRepresentable
      case .system: .system
      }
  }
}

/// Counts, times and logs each request to a container. What it costs is two clock readings a request.
package final class MeasuredContainer: Container {
  private let base: any Container
  package let traffic: ContainerTraffic

  package init(_ base: any Container, _ traffic: ContainerTraffic = ContainerTraffic()) {
    self.base = base
    self.traffic = traffic
  }

  package var url: String { base.url }
  package var traits: ContainerTraits { base.traits }
  package func checksum(of version: Version) -> ContentDigest? { base.checksum(of: version) }

  private func measure<R>(
    _ operation: CloudOperation, _ path: ContainerPath?, _ body: () throws(ContainerError) -> R
  ) throws(ContainerError) -> R {
    let start = Clock.now()
    do throws(ContainerError) {
      let result = try body()
      ended(operation, path, start, nil)
      return result
    } catch {
      ended(operation, path, start, error)
      throw error
    }
  }

  private func ended(_ operation: CloudOperation, _ path: ContainerPath?, _ start: UInt64, _ error: ContainerError?) {
    let outcome = error.map { RequestOutcome($0.code) } ?? .ok
    let duration = Clock.now() &- start
    traffic.count(operation, outcome, nanoseconds: duration)
    Log.debug(
      "request",
      [
        "op": operation.rawValue, "path": path?.description ?? "-", "outcome": outcome.rawValue,
        "seconds": Double(duration / 1000) / 1e6, "error": error?.message ?? "-",
      ])
  }

  // MARK: - Questions

  package func identify(create: Bool, _ call: CallContext) throws(ContainerError) -> ContainerID {
    try measure(.identify, nil) { () throws(ContainerError) in try base.identify(create: create, call) }
  }

  package func tryOut(_ call: CallContext) throws(ContainerError) {
    try measure(.identify, nil) { () throws(ContainerError) in try base.tryOut(call) }
  }

  package func list(_ folder: ContainerPath, _ call: CallContext) throws(ContainerError) -> [RemoteItem] {
    try measure(.list, folder) { () throws(ContainerError) in try base.list(folder, call) }
  }

  package func item(at path: ContainerPath, _ call: CallContext) throws(ContainerError) -> RemoteItem? {
    try measure(.look, path) { () throws(ContainerError) in try base.item(at: path, call) }
  }

  package func quota(_ call: CallContext) throws(ContainerError) -> Quota? {
    try measure(.quota, nil) { () throws(ContainerError) in try base.quota(call) }
  }

  package func read(
    _ path: ContainerPath, version: Version, range: Range<Int64>, _ call: CallContext,
    sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) {
    try measure(.fetch, path) { () throws(ContainerError) in
      try base.read(path, version: version, range: range, call) { piece throws(ContainerError) in
        traffic.received.add(piece.count)
        try sink(piece)
      }
    }
  }

  package func changeFeed(_ handler: @escaping @Sendable ([ChangeHint]) -> Void) -> (any ChangeFeed)? {
    base.changeFeed(handler)
  }

  // MARK: - Changes

  package func put(
    _ path: ContainerPath, from source: any UploadSource, attributes: RemoteAttributes,
    if condition: Precondition, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try measure(.upload, path) { () throws(ContainerError) in
      let source = MeasuredSource(base: source, traffic: traffic)
      return try base.put(path, from: source, attributes: attributes, if: condition, call)
    }
  }

  package func makeFolder(_ path: ContainerPath, attributes: RemoteAttributes, _ call: CallContext)
    throws(ContainerError) -> RemoteItem
  {
    try measure(.makeFolder, path) { () throws(ContainerError) in
      try base.makeFolder(path, attributes: attributes, call)
    }
  }

  package func makeSymlink(
    _ path: ContainerPath, target: [UInt8], attributes: RemoteAttributes, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try measure(.makeSymlink, path) { () throws(ContainerError) in
      try base.makeSymlink(path, target: target, attributes: attributes, call)
    }
  }

  package func rename(
    _ path: ContainerPath, to target: ContainerPath, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try measure(.rename, path) { () throws(ContainerError) in
      try base.rename(path, to: target, version: version, call)
    }
  }

  package func remove(_ path: ContainerPath, kind: ItemKind, version: Version?, _ call: CallContext)
    throws(ContainerError)
  {
    try measure(.remove, path) { () throws(ContainerError) in
      try base.remove(path, kind: kind, version: version, call)
    }
  }

  package func setAttributes(
    _ path: ContainerPath, _ attributes: RemoteAttributes, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try measure(.setAttributes, path) { () throws(ContainerError) in
      try base.setAttributes(path, attributes, version: version, call)
    }
  }
}

/// Counts what leaves.
private struct MeasuredSource: UploadSource {
  let base: any UploadSource
  let traffic: ContainerTraffic

  var size: Int64 { base.size }
  var sha256: [UInt8]? { base.sha256 }
  func isStillCurrent() -> Bool { base.isStillCurrent() }
  func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ContainerError) -> Int {
    try base.read(at: offset, into: buffer)
  }
  func sent(_ count: Int) {
    traffic.sent.add(count)
    base.sent(count)
  }
}
