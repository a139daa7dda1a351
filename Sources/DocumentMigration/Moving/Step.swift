/// The way of one document, in its order. Each step carries what the ones before it have found out; `Mover.advance` does
/// one and gives the next.
enum Step: Sendable {
  /// What is here, what is there, what does the journal know?
  case look
  /// The destination has something of that name: is it the same?
  case compare(Subject, with: FileStatus)
  /// Both sides are one file system: the name moves, the bytes stay.
  case rename(Subject)
  /// As `rename`, but the document has both names until it is released: for units of several files.
  case link(Subject)
  /// Into a temporary file beside the target.
  case copy(Subject)
  /// Owner, mode, extended attributes, times.
  case attributes(Copy)
  /// Down to the medium.
  case sync(Copy)
  /// Read back, and compared by SHA-256.
  case verify(Copy)
  /// Renamed to its name.
  case place(Copy)
  /// The name too is down at the medium. Only now the source may be touched.
  case syncFolder(Placed)
  /// Removed, or evicted again, if it is still what was copied.
  case release(Placed)
  case done(FileReport)

  /// A document on its way.
  struct Subject: Sendable {
    var entry: Listing.Entry
    /// The source, as it was looked at.
    var status: FileStatus
    /// From the destination's root.
    var target: DocumentPath
    /// Which name of `keep-both` the target is; 1 is its own.
    var number = 1
    /// What the target may replace.
    var replacing: Stamp?
    var wasPlaceholder: Bool
  }

  struct Copy: Sendable {
    var subject: Subject
    /// From the destination's root.
    var temporary: DocumentPath
    /// nil for a symlink.
    var file: Descriptor?
    /// Of what was read from the source: SHA-256 of a file's bytes, or a symlink's target.
    var content: Content
    var notes: [String] = []
  }

  enum Content: Hashable, Sendable {
    case bytes(sha256: String)
    case link([UInt8])
  }

  struct Placed: Sendable {
    var subject: Subject
    var outcome: FileReport.Outcome
    /// The target, as it was when it was found to have the document's bytes; nil when it was renamed, and so has left the
    /// source already.
    var proven: Stamp?
    var notes: [String] = []
  }

  /// For crash points, in tests.
  package var name: String {
    switch self {
    case .look: "look"
    case .compare: "compare"
    case .rename: "rename"
    case .link: "link"
    case .copy: "copy"
    case .attributes: "attributes"
    case .sync: "sync"
    case .verify: "verify"
    case .place: "place"
    case .syncFolder: "syncFolder"
    case .release: "release"
    case .done: "done"
    }
  }
}
