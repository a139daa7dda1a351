import Containers

/// How much of a file is local.
enum ContentState: String {
  case placeholder, partial, materializing, materialized
}

/// How an item stands to the container.
enum SyncState: String {
  case current, dirty, uploading, error, conflict
  case remoteNewer = "remote-newer"
}

// Both are derived, never stored: there is nothing that could disagree. Under the volume's lock.
extension Volume {
  func contentState(_ item: Item) -> ContentState {
    guard item.record.kind == .file else { return .materialized }
    guard let content = item.content else {
      if item.record.flags.contains(.whole) { return .materialized }
      return item.record.extents.isEmpty ? .placeholder : .partial
    }
    return content.local.withLock { local in
      if local.whole { return .materialized }
      if local.streaming { return .materializing }
      return local.extents.isEmpty ? .placeholder : .partial
    }
  }

  func syncState(_ item: Item, _ state: VolumeState) -> SyncState {
    if item.record.flags.contains(.remoteNewer) { return .remoteNewer }
    if item.isUploading { return .uploading }
    if item.record.error != nil { return .error }
    if state.pending.contains(item.id) { return .dirty }
    return item.record.flags.contains(.conflict) ? .conflict : .current
  }

  /// The local part of a file, 0 to 1.
  func progress(_ item: Item) -> Double {
    guard item.record.kind == .file, item.record.size > 0 else { return 1 }
    let local =
      item.content?.local.withLock { $0.localCount }
      ?? (item.record.flags.contains(.whole) ? item.record.size : item.record.extents.count)
    return min(1, Double(local) / Double(item.record.size))
  }
}
