import Containers

/// Names in the root that are docsfs's own: nobody can make them in the mount.
enum ReservedName {
  private static let own: Set<[UInt8]> = [Array(".docsfs".utf8), Array(".docsfs-container".utf8)]
  private static let parked = Array(".docsfs-swap-".utf8)

  /// An item that steps aside for a moment while two swap their places; another device's is none of ours.
  static func isParked(_ place: Place) -> Bool { place.folder == .root && place.name.bytes.starts(with: parked) }

  static func isReserved(_ place: Place) -> Bool {
    place.folder == .root && own.contains(place.name.bytes) || isParked(place)
  }

  static func parking(_ id: ItemID) -> Place {
    let number = String(UInt64.random(in: 0...UInt64.max), radix: 36)
    let bytes = parked + Array("\(id.rawValue)-\(number)".utf8)
    return Place(folder: .root, name: (try? ItemName(bytes)) ?? .root)
  }
}
