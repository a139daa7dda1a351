import Containers
import Foundation
import StorageErrors

// With `placeholder_style=stub` a folder shows a placeholder as iOS, and macOS before 14, did: as `.name.icloud`, a
// small property list. It turns into `name` when it is materialized. Its real name still leads to it: an open by
// that name materializes it. What is done to the stub's name (rename, unlink, chmod) is done to the item.
package enum PlaceholderStyle: String, Sendable {
  case plain
  case stub
}

/// The bytes of a stub, and names of stubs.
package enum Stub {
  private static let prefix = Array(".".utf8)
  private static let suffix = Array(".icloud".utf8)

  /// nil for a name that is too long for a stub's, or is no UTF-8, which a property list cannot say.
  static func name(of name: ItemName) -> ItemName? {
    guard String(validating: name.bytes, as: UTF8.self) != nil else { return nil }
    return try? ItemName(prefix + name.bytes + suffix)
  }

  /// The name that a stub's name stands for; nil when it is none.
  static func realName(of name: ItemName) -> ItemName? {
    let bytes = name.bytes
    guard bytes.count > prefix.count + suffix.count, bytes.starts(with: prefix),
      bytes.suffix(suffix.count) == suffix[...]
    else { return nil }
    return try? ItemName(bytes.dropFirst(prefix.count).dropLast(suffix.count))
  }

  /// A binary property list: NSURLNameKey, NSURLFileSizeKey (bytes) and NSURLFileResourceTypeKey.
  package static func bytes(name: String, size: Int64) -> [UInt8] {
    let list: [String: Any] = [
      "NSURLNameKey": name, "NSURLFileSizeKey": size, "NSURLFileResourceTypeKey": "NSURLFileResourceTypeRegular",
    ]
    let data = try? PropertyListSerialization.data(fromPropertyList: list, format: .binary, options: 0)
    return Array(data ?? Data())
  }
}

extension NodeID {
  private static let stubBit: UInt64 = 1 << 61

  /// The node of an item's stub.
  init(stubOf id: ItemID) { self.init(id.rawValue | Self.stubBit) }

  /// The item whose stub this is; nil for any other node.
  var stubbedItem: ItemID? {
    rawValue >> 61 == 1 ? ItemID(rawValue & ~Self.stubBit) : nil
  }
}

extension VolumeState {
  /// The name under which an item is shown as a stub; nil when it is shown as it is.
  func stubName(_ item: Item) -> ItemName? {
    guard showsStubs, item.record.kind == .file, item.record.size > 0, !item.isDeleted, !item.isGone,
      !(item.content?.isWhole ?? item.record.flags.contains(.whole))
    else { return nil }
    return Stub.name(of: item.record.place.name)
  }

  /// The item that a stub's name in a folder leads to.
  func stubbedChild(_ folder: Folder, _ name: ItemName) throws(Need) -> Item? {
    guard showsStubs, let real = Stub.realName(of: name), let id = folder.children[real] else { return nil }
    let item = try item(id)
    return stubName(item) == name ? item : nil
  }

  func stubBytes(_ item: Item) -> [UInt8] {
    Stub.bytes(name: String(decoding: item.record.place.name.bytes, as: UTF8.self), size: item.record.size)
  }

  func stubAttributes(_ item: Item) -> Attributes {
    var attributes = attributes(item, nil)
    attributes.size = Int64(stubBytes(item).count)
    attributes.blocks = 1
    attributes.mode &= 0o444
    return attributes
  }

  /// The entry by which a folder shows an item.
  mutating func shownEntry(_ item: Item) -> Entry {
    guard stubName(item) != nil else { return entry(item) }
    let node = NodeID(stubOf: item.id)
    lookups[node, default: 0] += 1
    item.lastSeenVersion = nil
    return Entry(node: node, attributes: stubAttributes(item))
  }
}

extension Volume {
  /// An item has become a stub, or is none any more, or has another name: the kernel forgets both its names.
  func showAnew(_ item: Item, at place: Place, _ state: VolumeState) {
    guard state.showsStubs, item.record.kind == .file, let dir = state.items[place.folder] else { return }
    tellKernel { kernel in
      kernel.invalidateEntry(dir.node, place.name)
      if let stub = Stub.name(of: place.name) { kernel.invalidateEntry(dir.node, stub) }
      kernel.invalidateContent(dir.node)
    }
  }
}
