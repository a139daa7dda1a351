import CLinux
import Containers
import Faults
import Glibc
import StorageErrors

extension Volume {
  /// Opens the state of a container, or makes it; what a killed process left is put right. The container must
  /// answer the first time; later, a volume also opens without it.
  package static func open(
    _ configuration: VolumeConfiguration, container: any Container
  ) throws(VolumeError) -> Volume {
    let store = try ContentStore(stateDirectory: configuration.stateDirectory)
    let catalog = try Catalog(directory: configuration.stateDirectory)
    var state = VolumeState()
    let identity = try identify(container, catalog, configuration)
    state.link = identity.link
    state.showsStubs = configuration.placeholderStyle == .stub
    do throws(Errno) {
      try restore(catalog, store, configuration, &state)
    } catch {
      throw VolumeError("\(configuration.stateDirectory)/catalog.db cannot be read (\(error)); run docsfs doctor")
    }
    let volume = Volume(configuration, container, catalog, store, identity.id, state.nextContent, state)
    volume.flush()
    volume.makeReserve()
    return volume
  }

  private static func identify(
    _ container: any Container, _ catalog: Catalog, _ configuration: VolumeConfiguration
  ) throws(VolumeError) -> (id: ContainerID?, link: LinkState) {
    let known = (try? catalog.text("container")).flatMap { $0 }.flatMap { ContainerID($0) }
    do throws(ContainerError) {
      // Written by the first mount that may write; later a missing one means that something is wrong there.
      let create = known == nil && !configuration.readOnly && !container.traits.isReadOnly
      let id = try container.identify(create: create, CallContext(timeout: configuration.timeo))
      guard let known else {
        try? catalog.setText("container", id.text)
        return (id, .connected)
      }
      if known == id { return (known, .connected) }
      let reason = "\(container.url): another container is there (\(id), not \(known))"
      Log.error("disconnected", ["reason": reason])
      return (known, .disconnected(.cloud, reason: reason))
    } catch {
      // One that may not be written to has no marker: its URL is what it is known by.
      if error.code == .identityMissing, known == nil, configuration.readOnly { return (nil, .connected) }
      guard known != nil else { throw VolumeError(error.message, exitCode: 69) }
      Log.warning("disconnected", ["container": container.url, "reason": error.message])
      return (known, .disconnected(.cloud, reason: error.message))
    }
  }

  private static func restore(
    _ catalog: Catalog, _ store: ContentStore, _ configuration: VolumeConfiguration, _ state: inout VolumeState
  ) throws(Errno) {
    let facts = try catalog.facts()
    state.nextItem = UInt64(facts["nextItem"] ?? 2)
    state.nextContent = facts["nextContent"] ?? 1
    let root = try catalog.record(.root)
    let rootItem = Item(root ?? rootRecord(configuration))
    state.items[.root] = rootItem
    state.queue(rootItem)
    let totals = try catalog.totals()
    state.itemCount = totals.items + (root == nil ? 1 : 0)
    state.cacheBytes = totals.bytes
    state.dirtyBytes = totals.dirtyBytes
    for record in try catalog.journal() {
      let item = Item(record)
      state.items[item.id] = item
      state.pending.insert(item.id)
      state.notePending(item)
      if record.flags.contains(.lent) { state.setDirty(item, true) }
      if item.record.isDirty { takeFromContentFile(item, store, &state) }
      if record.flags.contains(.lent) { resumeLoan(item, store, &state) }
      if let job = record.job { state.recalling[job.place] = item.id }
      state.updateVacating(item, before: nil)
    }
  }

  private static func rootRecord(_ configuration: VolumeConfiguration) -> ItemRecord {
    let now = Timestamp.now()
    return ItemRecord(
      id: .root, place: Place(folder: ItemID(0), name: .root), kind: .folder, mode: 0o755, uid: configuration.uid,
      gid: configuration.gid, size: 0, accessed: now, modified: now, changed: now)
  }

  /// What was being written when the process ended: the content file knows how far.
  private static func takeFromContentFile(_ item: Item, _ store: ContentStore, _ state: inout VolumeState) {
    guard item.record.content != 0 else { return }
    if let info = store.info(item.record.content) {
      item.record.size = info.size
      item.record.modified = info.modified
      state.countBytes(item, info.bytes)
    } else if let remote = item.record.remote {
      // After power loss, for edits that were never synced: the version they started from is still whole.
      state.setDirty(item, false)
      item.record.flags.remove(.whole)
      item.record.content = 0
      item.record.size = remote.size
      state.countBytes(item, 0)
    } else {
      item.record.content = 0
      item.record.size = 0
      state.countBytes(item, 0)
    }
    state.queue(item)
  }

  /// A file that was lent for writing when the process ended. Programs may still map it, and write.
  private static func resumeLoan(_ item: Item, _ store: ContentStore, _ state: inout VolumeState) {
    guard let file = try? store.openForReading(item.record.content), let info = file.status else {
      item.record.flags.remove(.lent)
      return state.queue(item)
    }
    let content = state.content(of: item)
    content.loan = Loan(file: file, isWritable: true, isRecorded: true, stamp: FileStamp(info))
    content.opens += 1
    state.lent[ObjectIdentifier(content)] = content
  }

  /// The sizes and times of what is being written go into the catalog.
  func settleDirtySizes() {
    locked { state in
      for id in state.pending { if let item = state.items[id], item.record.isDirty { state.queue(item) } }
    }
  }
}
