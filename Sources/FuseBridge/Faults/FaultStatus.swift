import Containers
import Faults

/// What is armed, and what has become of it.
package struct FaultStatus: Codable, Sendable {
  package struct Rule: Codable, Sendable {
    package var id: String
    /// As it could be written again.
    package var rule: String
    package var matched: Int
    package var fired: Int
    /// Failures that applications have seen.
    package var visible: Int
    /// How often it may still fire; nil: without end.
    package var remaining: Int?
  }

  package var rules: [Rule]
  package var seed: UInt64
  package var recording: Bool
  /// `connected` or `disconnected(PROFILE)`.
  package var link: String
  /// Counts reconnects by command.
  package var epoch: Int
  /// Failures by the link that applications have seen.
  package var linkFailures: Int
  /// Calls that wait for a delay or hang.
  package var held: Int
}

extension FaultInjector {
  package var status: FaultStatus {
    let held = held.count
    return state.withLock { state in
      FaultStatus(
        rules: state.faults.counters.map { rule, counters in
          .init(
            id: rule.id, rule: rule.text, matched: counters.matched, fired: counters.fired, visible: counters.visible,
            remaining: counters.remaining)
        },
        seed: state.faults.seed, recording: state.faults.record,
        link: state.link.profile.map { "disconnected(\($0.name))" } ?? "connected", epoch: state.link.epoch,
        linkFailures: state.linkFailures, held: held)
    }
  }
}
