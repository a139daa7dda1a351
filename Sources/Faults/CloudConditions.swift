/// What a volume asks of its container, as one word for each kind of request.
package enum CloudOperation: String, CaseIterable, Sendable {
  case identify, list, look, fetch, upload, makeFolder, makeSymlink, rename, remove, setAttributes, quota
}

/// How the cloud side behaves, until it is told otherwise: what a request meets on its way to the container and back.
package struct CloudConditions: Equatable, Sendable {
  /// Nobody answers.
  package var offline = false
  /// Nanoseconds that each request takes longer.
  package var latency: Int64?
  /// Bytes per second of all bodies together; above 0.
  package var rate: Int64?
  /// The HTTP status that requests are answered with instead of being carried out.
  package var status: Int?
  /// Nanoseconds: the `Retry-After` that goes with `status`.
  package var retryAfter: Int64?
  /// Bodies end after so many bytes, as when a connection breaks.
  package var truncate: Int64?
  /// Bodies are altered on the wire.
  package var corrupt = false
  /// Bytes that uploads may take from now on; whatever is beyond is refused as a full account refuses it.
  package var quota: Int64?
  /// The credentials have run out.
  package var authExpired = false
  /// Which requests meet this; nil: all.
  package var operations: Set<CloudOperation>?
  /// So many requests meet this, then it is over; nil: until it is changed.
  package var times: Int?

  /// Requests that met these conditions, and those of them that failed by them.
  package private(set) var met = 0
  package private(set) var failed = 0
  /// Bytes of `quota` that uploads have taken.
  package private(set) var used: Int64 = 0

  package init() {}

  /// Whether any request can meet anything.
  package var isClear: Bool {
    guard times.map({ met < $0 }) ?? true else { return true }
    return !offline && latency == nil && rate == nil && status == nil && truncate == nil && !corrupt && quota == nil
      && !authExpired
  }

  /// What the next request meets; counted. `size`: the bytes that it uploads.
  package mutating func meet(_ operation: CloudOperation, size: Int64 = 0) -> CloudEffect {
    guard !isClear, operations?.contains(operation) ?? true else { return CloudEffect() }
    met += 1
    var effect = CloudEffect()
    effect.isSlow = latency != nil || rate != nil
    effect.failure = failure(operation, size)
    if effect.failure != nil { failed += 1 }
    effect.bodyLimit = truncate
    // Another place each time, as on a wire: two bodies of one file do not agree.
    effect.corruption = corrupt ? UInt64(met) : nil
    return effect
  }

  /// An upload that was refused after all took nothing.
  package mutating func giveBack(_ size: Int64) { used = max(0, used - size) }

  private mutating func failure(_ operation: CloudOperation, _ size: Int64) -> CloudFailure? {
    if offline { return .unreachable }
    if authExpired { return .expired }
    if let status { return .status(status, retryAfter: retryAfter) }
    guard let quota, operation == .upload else { return nil }
    if size > quota - used { return .full }
    used += size
    return nil
  }
}

/// What one request meets.
package struct CloudEffect: Equatable, Sendable {
  package var failure: CloudFailure?
  /// Whether `latency` and `rate` hold for it.
  package var isSlow = false
  /// Its body ends after so many bytes.
  package var bodyLimit: Int64?
  /// Its body is altered: a number that differs from request to request.
  package var corruption: UInt64?

  package init() {}
}

package enum CloudFailure: Equatable, Sendable {
  case unreachable
  /// `retryAfter` in nanoseconds.
  case status(Int, retryAfter: Int64?)
  case expired
  case full
}
