import CLinux
import CSQLite
import Containers
import Glibc
import StorageErrors

/// Checks a state directory that no daemon holds: catalog, content files and container against each other.
///
/// A repair never removes what may be the only copy of something: content files that belong to no item are moved to
/// `lost/`, a damaged catalog is kept beside its salvaged copy, and an item whose bytes are in doubt is fetched
/// again only when the container has its version.
package enum Doctor {
  package struct Finding: Sendable {
    /// From the mount's root, or a file of the state directory.
    package var path: String
    package var what: String
    package var repaired: Bool
  }

  package static func run(
    stateDirectory: String, container: any Container, repair: Bool, report: (Finding) -> Void
  ) throws(VolumeError) {
    if let damage = try CatalogSalvage.check(stateDirectory) {
      report(Finding(path: "catalog.db", what: damage, repaired: repair))
      guard repair else { return }
      try CatalogSalvage.salvage(stateDirectory)
    }
    let store = try ContentStore(stateDirectory: stateDirectory)
    let catalog = try Catalog(directory: stateDirectory)
    defer { catalog.close() }
    let check = Checkup(catalog, store, container, repair: repair)
    do throws(Errno) {
      try check.run(report)
    } catch {
      throw VolumeError("\(stateDirectory)/catalog.db cannot be read: \(error)")
    }
  }
}

/// One pass over everything.
private final class Checkup {
  private let catalog: Catalog
  private let store: ContentStore
  private let container: any Container
  private let repair: Bool
  private var changes = CatalogChanges()
  private var findings: [Doctor.Finding] = []
  private var records: [ItemID: Outline] = [:]
  private var entries: Set<Place> = []
  /// Content files that are not to be trusted: out of the way, though not deleted.
  private var superseded: [Int64] = []

  /// What is kept of every record for the checks across items.
  private struct Outline {
    var place: Place
    var remote: Place?
    var isFolder: Bool
    var isDeleted: Bool
  }

  init(_ catalog: Catalog, _ store: ContentStore, _ container: any Container, repair: Bool) {
    self.catalog = catalog
    self.store = store
    self.container = container
    self.repair = repair
  }

  func run(_ report: (Doctor.Finding) -> Void) throws(Errno) {
    let canAsk = checkIdentity()
    try catalog.forEach { record in
      self.records[record.id] = Outline(
        place: record.place, remote: record.remote?.place, isFolder: record.kind == .folder,
        isDeleted: record.flags.contains(.deleted))
    }
    var used: Set<Int64> = []
    try catalog.forEach { record in
      if record.content != 0 { used.insert(record.content) }
      self.checkPlace(record)
      self.checkJournal(record)
      if record.kind == .file { self.checkContent(record, canAsk: canAsk) }
    }
    checkOrphans(used)
    if repair, !changes.isEmpty, let errno = catalog.commit(changes) { throw errno }
    if repair {
      _ = catalog.sync()
      for number in superseded { _ = store.moveAside(number) }
    }
    findings.forEach(report)
  }

  private func note(_ record: ItemRecord, _ what: String, _ mended: ItemRecord? = nil) {
    if let mended { changes.records.append(mended) }
    findings.append(.init(path: path(record.id), what: what, repaired: repair && mended != nil))
  }

  private func path(_ id: ItemID) -> String {
    var names: [String] = []
    var current = id
    while current != .root, names.count < 1000, let outline = records[current] {
      names.append(outline.place.name.description)
      current = outline.place.folder
    }
    return names.reversed().joined(separator: "/")
  }

  // MARK: Checks

  /// Whether the container may be asked about items.
  private func checkIdentity() -> Bool {
    do throws(ContainerError) {
      let id = try container.identify(create: false, CallContext(timeout: 30))
      guard let known = try? catalog.text("container"), known != id.text else { return true }
      findings.append(
        .init(path: container.url, what: "is another container (\(id.text), not \(known))", repaired: false))
    } catch {
      findings.append(.init(path: container.url, what: error.message, repaired: false))
    }
    return false
  }

  private func checkPlace(_ record: ItemRecord) {
    guard record.id != .root, !record.flags.contains(.deleted) else { return }
    guard let folder = records[record.place.folder], folder.isFolder else {
      var mended = record
      mended.place.folder = .root
      mended.pending = mended.pending ?? Timestamp.now().nanoseconds
      return note(record, "its folder is missing; it belongs into the root", mended)
    }
    guard reachesRoot(record.id) else {
      var mended = record
      mended.place.folder = .root
      mended.pending = mended.pending ?? Timestamp.now().nanoseconds
      records[record.id]?.place.folder = .root
      return note(record, "it lies within itself; it belongs into the root", mended)
    }
    if !entries.insert(record.place).inserted {
      var mended = record
      mended.place.name = Volume.conflictName(record.place.name, isFolder: record.kind == .folder)
      mended.pending = mended.pending ?? Timestamp.now().nanoseconds
      note(record, "another item has the same name; it needs one of its own", mended)
    }
  }

  private func reachesRoot(_ id: ItemID) -> Bool {
    var current = id
    for _ in 0..<VolumeState.deepest where current != .root {
      guard let above = records[current]?.place.folder else { return true }
      current = above
    }
    return current == .root
  }

  /// What differs from the container must be in the journal.
  private func checkJournal(_ record: ItemRecord) {
    guard record.id != .root, record.pending == nil else { return }
    let differs =
      record.isDirty || record.flags.contains(.deleted) || record.flags.contains(.attributesDirty)
      || record.remote?.place != record.place
    guard differs else { return }
    var mended = record
    mended.pending = Timestamp.now().nanoseconds
    note(record, "is not uploaded, and not in the journal", mended)
  }

  private func checkContent(_ record: ItemRecord, canAsk: Bool) {
    guard !record.flags.contains(.deleted), record.content != 0 || record.flags.contains(.whole) else { return }
    let info = record.content == 0 ? nil : store.info(record.content)
    // What was lent for writing when the process died counts as edited, as it does for the next mount.
    if record.isDirty || record.flags.contains(.lent) {
      if record.content != 0, info == nil, record.size > 0 {
        note(record, "its content file \(record.content) is missing, with edits that were not uploaded")
      }
      return
    }
    guard record.size > 0, record.flags.contains(.whole) || !record.extents.isEmpty else { return }
    guard let info, info.size == record.size else {
      return note(
        record, "its content file \(record.content) is \(info == nil ? "missing" : "of another size"); fetched again",
        asPlaceholder(record))
    }
    if canAsk, record.flags.contains(.whole), record.pending == nil { compareBytes(record) }
  }

  /// The same version must be the same bytes. Another version is no fault: the next mount takes it over.
  private func compareBytes(_ record: ItemRecord) {
    guard let remote = record.remote, let path = remotePath(remote.place) else { return }
    let call = CallContext(timeout: 60 + Double(record.size) / 1e6)
    do throws(ContainerError) {
      guard let found = try container.item(at: path, call), found.version == remote.version else { return }
      guard found.size == record.size else {
        return note(record, "the container says \(found.size) bytes, the catalog \(record.size)", asPlaceholder(record))
      }
      guard let file = try? store.open(record.content, create: false) else { return }
      var at: Int64 = 0
      var differs = false
      let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)
      defer { room.deallocate() }
      try container.read(path, version: remote.version, range: 0..<record.size, call) { piece throws(ContainerError) in
        guard piece.count <= room.count else { return differs = true }
        let n = pread(file.fd, room.baseAddress, piece.count, off_t(at))
        if n != piece.count || !room[..<n].elementsEqual(piece) { differs = true }
        at += Int64(piece.count)
      }
      if differs { note(record, "its bytes here are not those of the container's version", asPlaceholder(record)) }
    } catch {
      if error.code == .versionChanged { return }
      note(record, error.message)
    }
  }

  private func remotePath(_ place: Place) -> ContainerPath? {
    var names = [place.name]
    var folder = place.folder
    while folder != .root {
      guard let remote = records[folder]?.remote, names.count < 4096 else { return nil }
      names.append(remote.name)
      folder = remote.folder
    }
    return ContainerPath(names.reversed())
  }

  private func asPlaceholder(_ record: ItemRecord) -> ItemRecord? {
    guard record.remote != nil else { return nil }
    var mended = record
    if record.content != 0 { superseded.append(record.content) }
    mended.flags.remove(.whole)
    mended.extents = RangeSet()
    mended.content = 0
    mended.bytes = 0
    return mended
  }

  private func checkOrphans(_ used: Set<Int64>) {
    for number in store.numbers() where !used.contains(number) {
      let moved = repair && store.moveAside(number)
      findings.append(
        .init(
          path: "content file \(number)", what: "belongs to no item" + (moved ? "; moved to lost/" : ""),
          repaired: moved))
    }
  }
}
