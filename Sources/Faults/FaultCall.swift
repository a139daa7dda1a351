import StorageErrors

/// Whether a handle was opened before the last reconnect.
package enum HandleAge: String, CaseIterable, Sendable {
  case old, new
}

/// One call of a mount, as the rules see it.
package struct FaultCall: Equatable, Sendable {
  package var operation: FaultOperation
  /// From the mount's root, with `/` in front.
  package var path: [UInt8]
  /// Of a rename or link.
  package var newPath: [UInt8]?
  package var uid: UInt32
  /// The process, not the thread; 0 when unknown.
  package var pid: Int32
  /// Absolute; empty when unknown.
  package var executable: [UInt8]
  /// nil: the call has no handle.
  package var handle: HandleAge?
  /// Bytes from the file's beginning; nil where the operation knows none.
  package var offset: Int64?
  /// Bytes that the call would move; 0 when it moves none.
  package var length: Int64

  package init(
    _ operation: FaultOperation, path: [UInt8], newPath: [UInt8]? = nil, uid: UInt32 = 0, pid: Int32 = 0,
    executable: [UInt8] = [], handle: HandleAge? = nil, offset: Int64? = nil, length: Int64 = 0
  ) {
    self.operation = operation
    self.path = path
    self.newPath = newPath
    self.uid = uid
    self.pid = pid
    self.executable = executable
    self.handle = handle
    self.offset = offset
    self.length = length
  }
}

/// What is to happen to a call.
package struct FaultDecision: Equatable, Sendable {
  package var ruleID: String
  /// Empty when only `allowed` holds.
  package var effect: FaultEffect
  /// Nanoseconds, of all rules that delay this call; jitter is drawn already.
  package var delay: UInt64
  /// Which of the rule's matching calls this is, from 1.
  package var ordinal: Int
  /// The call may move only so many bytes, so that exactly the bytes up to an `after=` are moved. No fault by itself.
  package var allowed: Int64?
  /// The rules before `ruleID` that only added their delay.
  package var delayedBy: [String] = []
  /// Where `corrupt` begins to draw.
  var corruptionSeed: UInt64 = 0

  /// Whether anything is injected; else there is only a limit that the call must keep.
  package var isFault: Bool { !effect.isEmpty }

  /// So many bytes the call may move, of all that shortens it; nil: all.
  package var limit: Int64? {
    [allowed, effect.short.map(Int64.init), effect.torn.map(Int64.init)].compactMap { $0 }.min()
  }

  /// Flips `effect.corrupt` bits, all different, at places that follow from the seed and the call.
  package func corrupt(_ bytes: UnsafeMutableRawBufferPointer) {
    guard let wanted = effect.corrupt, !bytes.isEmpty else { return }
    let bits = bytes.count * 8
    var random = FaultRandom(corruptionSeed)
    // Floyd's sampling: as many different places as wanted, each equally likely.
    var flipped: Set<Int> = []
    for top in (bits - min(wanted, bits))..<bits {
      let drawn = Int(random.below(UInt64(top + 1)))
      let place = flipped.contains(drawn) ? top : drawn
      flipped.insert(place)
      bytes[place / 8] ^= 1 << UInt8(place % 8)
    }
  }
}
