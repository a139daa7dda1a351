import StorageErrors

/// The cloud side: a tree of items with versions.
///
/// Every call blocks its thread, ends early when its `CallContext` is cancelled or past its deadline, and throws
/// `ContainerError`. Callers run it on worker threads, never on one that answers the kernel. A call may be made
/// from any thread, many at once.
///
/// Mutations carry preconditions; a container that cannot check one atomically does so with the widest guard it has.
/// Each mutation returns the item as it is afterwards, with its new version, so that the caller's own
/// change is not mistaken for somebody else's.
package protocol Container: AnyObject, Sendable {
  /// The URL it was opened by, without secrets; for messages and `status`.
  var url: String { get }
  var traits: ContainerTraits { get }

  /// The container's own id: read from its marker, or written when `create` and there is none.
  /// `.identityMissing` when there is none and it may not be made; `.unreachable` when nobody answers.
  func identify(create: Bool, _ call: CallContext) throws(ContainerError) -> ContainerID

  /// Finds out what the container keeps of what changes need, so that `traits` tell; once, and it may write for that.
  func tryOut(_ call: CallContext) throws(ContainerError)

  /// All items of a folder: complete, or an error. What has a bad name or an unknown kind is left out.
  func list(_ folder: ContainerPath, _ call: CallContext) throws(ContainerError) -> [RemoteItem]

  /// The item at `path`; nil when nothing is there. A missing parent is nil too, an unreachable container an error.
  func item(at path: ContainerPath, _ call: CallContext) throws(ContainerError) -> RemoteItem?

  /// Gives the bytes of `range` of that `version`, in order, in pieces, to `sink`; what `sink` throws ends it.
  /// A piece is checked to be of `version`, as well as the container can, before it is given.
  /// `.versionChanged` when the item has another version by now, before or *after* its bytes were given:
  /// the caller drops what it got. `range` lies within the version's size.
  func read(
    _ path: ContainerPath, version: Version, range: Range<Int64>, _ call: CallContext,
    sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError)

  /// What the bytes of a version of a file add up to, where the container tells by the version alone; asks nobody.
  func checksum(of version: Version) -> ContentDigest?

  /// Publishes a file at `path` in one step: readers see what was there or all of the new one, never a part.
  /// `source.isStillCurrent` is asked last before publication; false makes this throw `.cancelled`.
  /// Precondition `.absent`: nothing is there; `.version`: that version is. Otherwise `.preconditionFailed`.
  func put(
    _ path: ContainerPath, from source: any UploadSource, attributes: RemoteAttributes,
    if condition: Precondition, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem

  /// `.preconditionFailed` when something is there, `.notFound` without a parent.
  func makeFolder(_ path: ContainerPath, attributes: RemoteAttributes, _ call: CallContext) throws(ContainerError)
    -> RemoteItem
  func makeSymlink(
    _ path: ContainerPath, target: [UInt8], attributes: RemoteAttributes, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem

  /// Never replaces: `.preconditionFailed` when something is at `target`, or `path` has another version.
  /// `.notFound` when nothing is at `path`, or `target` has no parent. `version` nil (folders): any.
  func rename(
    _ path: ContainerPath, to target: ContainerPath, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem

  /// Removes a file or symlink of that version, or an empty folder (`.notEmpty` otherwise). `.notFound` when it is gone.
  func remove(_ path: ContainerPath, kind: ItemKind, version: Version?, _ call: CallContext) throws(ContainerError)

  /// Sets what it can hold of `attributes`. `.preconditionFailed` when `version` is given and is not there.
  func setAttributes(
    _ path: ContainerPath, _ attributes: RemoteAttributes, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem

  /// nil when it has no notion of one.
  func quota(_ call: CallContext) throws(ContainerError) -> Quota?

  /// Starts telling `handler` what changes, where the container can; nil where only listing tells.
  /// `handler` runs on the feed's own thread. Hints may be late, doubled or the caller's own changes.
  func changeFeed(_ handler: @escaping @Sendable ([ChangeHint]) -> Void) -> (any ChangeFeed)?
}

package struct ContainerTraits: Sendable {
  package var isReadOnly: Bool
  /// Whether `RemoteItem.identity` is given, so that a remote rename is recognised.
  package var hasIdentities: Bool
  package var holdsMode: Bool
  package var holdsXattrs: Bool
  package var holdsSymlinks: Bool
  /// Whether somebody may set the attributes of a file without changing its version, so that those of an item whose
  /// version is known have to be looked at as well.
  package var attributesChangeAlone = false
  /// What a person should know that it cannot promise, in one line; nil: nothing, or nothing yet.
  package var weakness: String?

  package init(
    isReadOnly: Bool = false, hasIdentities: Bool, holdsMode: Bool, holdsXattrs: Bool, holdsSymlinks: Bool
  ) {
    self.isReadOnly = isReadOnly
    self.hasIdentities = hasIdentities
    self.holdsMode = holdsMode
    self.holdsXattrs = holdsXattrs
    self.holdsSymlinks = holdsSymlinks
  }
}

/// A container's own random id, from its marker: 32 lower-case hex digits.
package struct ContainerID: Hashable, Sendable, CustomStringConvertible {
  package let text: String
  package init?(_ text: String) {
    guard text.utf8.count == 32, text.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) })
    else { return nil }
    self.text = text
  }
  package static func random() -> ContainerID {
    var text = ""
    for _ in 0..<32 { text.append("0123456789abcdef".randomElement() ?? "0") }
    return ContainerID(unchecked: text)
  }
  private init(unchecked text: String) { self.text = text }
  package var description: String { text }
}

/// What travels with an item beside its content; nil or absent: not known, or leave it as it is.
package struct RemoteAttributes: Sendable, Equatable {
  /// The low 12 bits of st_mode.
  package var mode: UInt32?
  package var mtime: Timestamp?
  /// All `user.` attributes by full name; nil: leave as they are.
  package var xattrs: [[UInt8]: [UInt8]]?
  /// Nobody has been asked: these are for an item of which nothing better is known.
  package var areGuessed = false
  package init(mode: UInt32? = nil, mtime: Timestamp? = nil, xattrs: [[UInt8]: [UInt8]]? = nil) {
    self.mode = mode
    self.mtime = mtime
    self.xattrs = xattrs
  }
}

/// An item as the container has it.
package struct RemoteItem: Sendable, Equatable {
  package var name: ItemName
  package var kind: ItemKind
  /// Bytes; 0 for folders. Never negative.
  package var size: Int64
  package var version: Version
  package var identity: RemoteIdentity?
  package var attributes: RemoteAttributes
  /// A symlink's target, as stored; never followed here.
  package var target: [UInt8]?

  package init(
    name: ItemName, kind: ItemKind, size: Int64, version: Version, identity: RemoteIdentity? = nil,
    attributes: RemoteAttributes = .init(), target: [UInt8]? = nil
  ) {
    self.name = name
    self.kind = kind
    self.size = size
    self.version = version
    self.identity = identity
    self.attributes = attributes
    self.target = target
  }
}

/// What the bytes of a file must add up to.
package struct ContentDigest: Sendable, Equatable {
  package var algorithm: Digest.Algorithm
  package var bytes: [UInt8]
  package init(_ algorithm: Digest.Algorithm, _ bytes: [UInt8]) {
    self.algorithm = algorithm
    self.bytes = bytes
  }
}

package enum Precondition: Sendable, Equatable {
  case absent
  case version(Version)
}

package struct Quota: Sendable {
  /// Bytes.
  package var total: Int64
  package var free: Int64
  package init(total: Int64, free: Int64) {
    self.total = total
    self.free = free
  }
}

/// The bytes of an upload.
package protocol UploadSource: Sendable {
  var size: Int64 { get }
  /// The SHA-256 of all its bytes, where it is known: what arrives with another one is not published (`.inconsistent`).
  var sha256: [UInt8]? { get }
  /// Reads at `offset` into `buffer`; the count, 0 only at the end.
  func read(at offset: Int64, into buffer: UnsafeMutableRawBufferPointer) throws(ContainerError) -> Int
  /// Whether what was read is still worth publishing.
  func isStillCurrent() -> Bool
  /// The container says so when so many of the bytes have left for it; some may leave twice.
  func sent(_ count: Int)
}

extension UploadSource {
  package func sent(_ count: Int) {}
}

/// Something changed in `folder`; with `name`, that entry alone; without, list the folder again.
package struct ChangeHint: Hashable, Sendable {
  package var folder: ContainerPath
  package var name: ItemName?
  package init(folder: ContainerPath, name: ItemName? = nil) {
    self.folder = folder
    self.name = name
  }
}

/// Tells of changes by itself, or learns of them when it is told to `ask`.
package protocol ChangeFeed: AnyObject, Sendable {
  /// Tells about `folder` from now on; false when it cannot (too many), so that it must be polled.
  func watch(_ folder: ContainerPath) -> Bool
  func unwatch(_ folder: ContainerPath)
  /// Whether it learns of changes by `ask` alone.
  var asks: Bool { get }
  /// Called once a poll, from one thread: a feed that has to ask does it now. When it returns, the handler has been told
  /// of every folder that is watched and may have changed; when it throws, nothing is known of any of them.
  func ask(_ call: CallContext) throws(ContainerError)
  /// Returns when no handler runs any more.
  func stop()
}

extension ChangeFeed {
  package var asks: Bool { false }
  package func ask(_ call: CallContext) throws(ContainerError) {}
}
