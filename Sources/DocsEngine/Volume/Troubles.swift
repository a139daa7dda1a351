import Containers

/// What keeps failing at the container beside uploads, whose items tell it themselves.
final class Troubles: Sendable {
  enum Kind: Int {
    case looking
    case fetching
  }
  private let last = Guarded<[Kind: String]>([:])

  func note(_ kind: Kind, _ message: String) { last.withLock { $0[kind] = message } }

  /// One of the kind has succeeded.
  func end(_ kind: Kind) { last.withLock { if !$0.isEmpty { $0[kind] = nil } } }

  var messages: [String] { last.withLock { $0.sorted { $0.key.rawValue < $1.key.rawValue }.map(\.value) } }
}
