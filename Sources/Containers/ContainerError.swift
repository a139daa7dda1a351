import StorageErrors

/// Why a container refused or failed: a stable code, a sentence, the place.
package struct ContainerError: Error, Sendable, CustomStringConvertible {
  package enum Code: Sendable, Equatable {
    case notFound
    case preconditionFailed
    case versionChanged
    case notEmpty
    case permissionDenied
    case outOfSpace
    case readOnly
    /// Nobody answers, or the marker is another container's: nothing may be concluded about its items.
    case unreachable
    case identityMissing
    /// It answers, and cannot do it now: it asks for patience, or failed inside.
    case busy
    case cancelled
    case timedOut
    /// The container contradicts itself: fewer bytes than it said, a bad reply.
    case inconsistent
    /// The container cannot hold this name or kind.
    case notRepresentable
    /// Any other failure of the system below.
    case system(Errno)
  }
  package var code: Code
  package var message: String
  /// Seconds before which the container does not want to be asked again, where it said so.
  package var retryAfter: Double?

  package init(_ code: Code, _ message: String, retryAfter: Double? = nil) {
    self.code = code
    self.message = message
    self.retryAfter = retryAfter
  }
  package var description: String { message }

  /// Whether the same call may succeed later without anybody's doing.
  package var isTransient: Bool {
    switch code {
    case .unreachable, .busy, .timedOut, .inconsistent, .system, .outOfSpace, .versionChanged: true
    case .notFound, .preconditionFailed, .notEmpty, .permissionDenied, .readOnly, .identityMissing, .cancelled,
      .notRepresentable:
      false
    }
  }
}
