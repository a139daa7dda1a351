import StorageErrors

/// When the link is down, with which profile, and what the handles of each epoch have been through.
///
/// Disconnects do not nest: one while the link is down takes the place of the profile and its end, and the reconnect
/// that follows raises the epoch once. A handle that lived through several profiles of one disconnect has lost what the
/// first of them took from it.
package struct LinkSchedule: Equatable, Sendable {
  /// Counts reconnects.
  package private(set) var epoch = 0
  /// Counts disconnects; a handle that remembers another number is from before the link went down.
  package private(set) var disconnects = 0
  /// nil: connected.
  package private(set) var profile: LinkProfile?
  /// When it mends by itself; nil: at `reconnect`.
  package private(set) var until: UInt64?

  /// What the handles answer that were open during this disconnect.
  private var loss: Errno?
  /// The errnos of reconnects, each with the last epoch that it holds for. Only where the errno changes, because
  /// a handle asks for the first since its own epoch.
  private var losses: [(lastEpoch: Int, errno: Errno)] = []

  package init() {}

  package static func == (a: Self, b: Self) -> Bool {
    a.epoch == b.epoch && a.disconnects == b.disconnects && a.profile == b.profile && a.until == b.until
      && a.loss == b.loss && a.losses.elementsEqual(b.losses) { $0 == $1 }
  }

  package var isConnected: Bool { profile == nil }

  /// `until` in the nanoseconds of the clock that `expire` gets.
  package mutating func disconnect(_ profile: LinkProfile, until: UInt64? = nil) {
    if self.profile == nil {
      disconnects += 1
      loss = nil
    }
    self.profile = profile
    self.until = until
    loss = loss ?? profile.oldHandle
  }

  /// False when it was connected already: then nothing changes.
  @discardableResult
  package mutating func reconnect() -> Bool {
    guard profile != nil else { return false }
    if let loss {
      if losses.last?.errno == loss { losses.removeLast() }
      losses.append((epoch, loss))
    }
    (profile, until, loss) = (nil, nil, nil)
    epoch += 1
    return true
  }

  /// Reconnects when its time has come; whether it has.
  package mutating func expire(now: UInt64) -> Bool {
    guard let until, until <= now else { return false }
    return reconnect()
  }

  /// What a handle that was opened in `handleEpoch` answers after the reconnects since; nil: it goes on.
  package func answer(forHandleOfEpoch handleEpoch: Int) -> Errno? {
    losses.first { $0.lastEpoch >= handleEpoch }?.errno
  }

  /// The line that could be written back; nil when connected.
  package func text(now: UInt64) -> String? {
    guard let profile else { return nil }
    // In whole milliseconds, for people; never none, which would be no time.
    let left = until.map { max(1, ($0 - min(now, $0) + 999_999) / 1_000_000) * 1_000_000 }
    return ControlCommand.disconnect(profile, duration: left).text
  }
}
