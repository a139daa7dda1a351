/// The state of the connection between a volume and its container.
package enum LinkState: Sendable, Equatable {
  case connected
  /// `reason` is one line for people: what cut the link, and what mends it.
  case disconnected(LinkProfile, reason: String)

  package var isConnected: Bool { self == .connected }
}
