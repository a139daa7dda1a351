/// Why a migration could not begin, or had to end before its documents were all tried.
public struct MigrationError: Error, Hashable, Sendable, CustomStringConvertible {
  /// What kind of trouble it is.
  public enum Kind: String, Codable, Sendable {
    /// The source, the destination or what is above it is not there.
    case missing
    /// The folders cannot be migrated into each other (one within the other, or no folders).
    case unfit
    /// Another migration of these folders runs.
    case busy
    /// The journal cannot be read or written.
    case journal
    /// The destination has too little room for what the plan says.
    case noRoom
    /// The storage failed, as `message` says.
    case storage
  }

  /// What kind.
  public var kind: Kind
  /// One line: what, where, what to do.
  public var message: String

  init(_ kind: Kind, _ message: String) {
    self.kind = kind
    self.message = message
  }

  /// The message.
  public var description: String { message }
}

extension DocumentPath {
  /// An empty path is a shell's variable that is not set; the folder that one happens to be in is not meant.
  func checkNamed(_ what: String) throws(MigrationError) {
    if isRoot { throw MigrationError(.unfit, "the \(what)'s path is empty; name a folder, or . for this one") }
  }
}
