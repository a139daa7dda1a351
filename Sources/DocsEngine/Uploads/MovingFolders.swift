/// Paths through a folder that is just being moved are about to be wrong: uploads, fetches and looks wait for its end.
extension VolumeState {
  /// The folder, at or above `folder` at the container, that an upload is just moving: paths through it are about
  /// to be wrong.
  func movingFolder(_ folder: ItemID) -> ItemID? {
    var id = folder
    for _ in 0..<4096 where id != .root {
      guard let item = items[id] else { return nil }
      if item.isUploading { return id }
      guard let above = item.record.remote?.place.folder else { return nil }
      id = above
    }
    return nil
  }

  /// An upload to the same place that is running, or that the last process may have finished.
  func uploadTo(_ place: Place, besides item: ItemID) -> ItemID? {
    if isRecalling(place), let id = recalling[place], id != item { return id }
    return running.first { $0.key != item && $0.value == place }?.key
  }

  /// An upload that is running below `folder` at the container, or into it.
  func uploadBelow(_ folder: ItemID) -> ItemID? {
    running.keys.first { id in
      guard let record = items[id]?.record else { return false }
      return isBelow(record.place.folder, folder) || record.remote.map { isBelow($0.place.folder, folder) } ?? false
    }
  }

  /// Whether `start` is `folder` or below it at the container.
  func isBelow(_ start: ItemID, _ folder: ItemID) -> Bool {
    var id = start
    for _ in 0..<4096 where id != .root {
      if id == folder { return true }
      guard let above = items[id]?.record.remote?.place.folder else { return false }
      id = above
    }
    return false
  }

  /// Whether `folder` is `item` or below it here.
  func isInside(_ folder: Item, _ item: Item) throws(Need) -> Bool {
    guard item.record.kind == .folder else { return false }
    var current = folder
    while current !== item {
      guard current.id != .root, !current.isGone else { return false }
      current = try self.item(current.record.place.folder)
    }
    return true
  }
}
