import Containers
import StorageErrors

@testable import DocsEngine

/// A volume's state without a volume: what was done here is in it, and what the container has.
final class PlanWorld {
  var state = VolumeState()
  let root: Item
  private var nextID: UInt64 = 2

  init() {
    var record = SampleItems.record(1, "x", in: ItemID(0), kind: .folder, flags: .listed)
    record.place.name = .root
    root = Item(record)
    root.folder?.isLoaded = true
    state.items[.root] = root
  }

  /// An item made here; with `version`, the container has it too.
  func add(
    _ name: String, in folder: Item? = nil, kind: ItemKind = .file, version: String? = nil,
    flags: ItemRecord.Flags? = nil
  ) -> Item {
    let parent = folder ?? root
    var record = SampleItems.record(nextID, name, in: parent.id, kind: kind)
    nextID += 1
    record.flags = flags ?? (kind == .file ? .whole : [])
    if let version {
      record.remote = SampleItems.remote(record, version)
    } else if kind == .file {
      record.flags.insert(.contentDirty)
    }
    let item = state.add(record, to: parent.folder)
    item.folder?.isLoaded = true
    return item
  }

  func edit(_ item: Item) {
    state.setDirty(item, true)
    state.setPending(item, true)
  }

  func delete(_ item: Item) {
    state.items[item.record.place.folder]?.folder?.remove(item)
    item.record.flags.insert(.deleted)
    state.setDirty(item, false)
    state.setPending(item, true)
    state.updateVacating(item, before: item.record.remote)
  }

  func move(_ item: Item, to name: String, in folder: Item? = nil) {
    let parent = folder ?? root
    let old = state.items[item.record.place.folder]?.folder
    old?.remove(item)
    if let id = parent.folder?.children[SampleItems.name(name)], let target = state.items[id] {
      delete(target)
    }
    put(item, at: name, in: parent)
  }

  func swap(_ items: Item...) {
    let places = items.map(\.record.place)
    for (item, place) in zip(items, places.dropFirst() + places.prefix(1)) {
      guard let folder = state.items[place.folder] else { continue }
      put(item, at: place.name.description, in: folder)
    }
  }

  private func put(_ item: Item, at name: String, in folder: Item) {
    item.record.place = Place(folder: folder.id, name: SampleItems.name(name))
    folder.folder?.insert(item.record.place.name, item.id)
    state.setPending(item, true)
    state.updateVacating(item, before: item.record.remote)
  }

  func plan(_ item: Item) throws -> UploadStep { try state.plan(item) }

  /// The container did what the step said.
  func finish(_ item: Item, at place: Place? = nil, version: String) {
    let before = item.record.remote
    var remote = SampleItems.remote(item.record, version)
    remote.place = place ?? item.record.place
    item.record.remote = remote
    state.updateVacating(item, before: before)
  }

  /// The container has removed it.
  func finishRemoval(_ item: Item) {
    let before = item.record.remote
    item.record.remote = nil
    state.updateVacating(item, before: before)
    state.discard(item)
  }
}
