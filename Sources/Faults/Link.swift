import StorageErrors

/// How a disconnected link behaves; the `cloud` row of the profile table. Further profiles come as data.
package enum LinkProfile: String, Sendable, CaseIterable {
  /// The network to the container is down: what is local goes on, what is missing fails.
  case cloud
}

/// The state of the connection between a volume and its container.
package enum LinkState: Sendable, Equatable {
  case connected
  /// `reason` is one line for people: what cut the link, and what mends it.
  case disconnected(LinkProfile, reason: String)

  package var isConnected: Bool { self == .connected }
}
