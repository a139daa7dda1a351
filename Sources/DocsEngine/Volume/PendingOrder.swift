import Containers

/// What waits to be uploaded, in the order in which it began to. Entries that no longer hold are dropped as they are come
/// upon, so that it stays about as large as what does wait.
struct PendingOrder {
  private var entries: [(id: ItemID, since: Int64)] = []
  private var first = 0

  /// How many entries it holds, with those that no longer hold.
  var count: Int { entries.count }

  /// `item` waits since just now; `pending` has it already.
  mutating func append(_ item: Item, _ pending: Set<ItemID>, _ items: [ItemID: Item]) {
    entries.append((item.id, item.record.pending ?? 0))
    guard entries.count > 2 * pending.count + 1024 else { return }
    entries = entries[first...].filter { Self.holds($0, pending, items) }
    first = 0
  }

  /// With the moment since when, in nanoseconds since 1970.
  mutating func oldest(_ pending: Set<ItemID>, _ items: [ItemID: Item]) -> (id: ItemID, since: Int64)? {
    while first < entries.count, !Self.holds(entries[first], pending, items) { first += 1 }
    return first < entries.count ? entries[first] : nil
  }

  private static func holds(
    _ entry: (id: ItemID, since: Int64), _ pending: Set<ItemID>, _ items: [ItemID: Item]
  ) -> Bool {
    pending.contains(entry.id) && items[entry.id]?.record.pending == entry.since
  }
}

// What waits to be uploaded.
extension VolumeState {
  /// Journals that something of the item is to be uploaded, or that nothing is.
  mutating func setPending(_ item: Item, _ isPending: Bool) {
    if isPending {
      if item.record.pending == nil { item.record.pending = Timestamp.now().nanoseconds }
      if pending.insert(item.id).inserted { notePending(item) }
    } else {
      // The journal is also where a crashed process finds what was lent.
      if !item.record.flags.contains(.lent) { item.record.pending = nil }
      pending.remove(item.id)
      failing.remove(item.id)
    }
  }

  /// It is in `pending` since just now, or since its row was read.
  mutating func notePending(_ item: Item) {
    pendingOrder.append(item, pending, items)
    if item.record.error != nil { failing.insert(item.id) }
  }

  /// What has waited longest to be uploaded, and since when, in nanoseconds since 1970.
  var oldestPending: (id: ItemID, since: Int64)? {
    mutating get { pendingOrder.oldest(pending, items) }
  }

  /// Why the item's last upload failed; nil: it did not.
  mutating func setError(_ item: Item, _ message: String?) {
    item.record.error = message
    if message != nil, pending.contains(item.id) { failing.insert(item.id) } else { failing.remove(item.id) }
  }
}
