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
  /// By which the link is down; nil: it is not, or not by command.
  package var profile: String?
  /// By command.
  package var reconnects: Int
  /// Failures by the link that applications have seen.
  package var linkFailures: Int
  /// Calls that wait for a delay or hang.
  package var held: Int
}

extension FaultInjector {
  /// Since the mount: how often rules have fired, and failures by the link that applications have seen. Now: how many
  /// rules there are, and the profile that the link is down by, if it is by command.
  package var totals: (fired: UInt64, link: Int, rules: Int, profile: String?) {
    state.withLock { state in
      (state.faults.firings, state.linkFailures, state.faults.rules.count, state.link.profile?.name)
    }
  }

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
        profile: state.link.profile?.name, reconnects: state.link.epoch,
        linkFailures: state.linkFailures, held: held)
    }
  }
}
