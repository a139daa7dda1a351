import Containers
import StorageErrors

@testable import DocsEngine

/// One item of every sort that a catalog can hold. `Samples/catalog-1.db` was made from these, by the first schema:
/// once a schema is released, its sample and these rows stay as they are.
enum SampleCatalog {
  static let container = "0123456789abcdef0123456789abcdef"

  static let records: [ItemRecord] = [
    root, pinnedFolder, materialized, dirty, partial, renamed, deleted, symlink, uploading, refused,
  ]

  /// A catalog with all of them in `directory`.
  static func make(_ directory: String) throws -> Catalog {
    let catalog = try Catalog(directory: directory)
    var changes = CatalogChanges(records: records)
    changes.facts = ["nextItem": 5000, "nextContent": 6000]
    if let errno = catalog.commit(changes) { throw errno }
    try catalog.setText("container", container)
    return catalog
  }

  private static func known(_ record: ItemRecord) -> ItemRecord {
    var record = record
    record.remote = RemoteState(
      place: record.place, version: SampleItems.version("v\(record.id.rawValue)"),
      identity: RemoteIdentity(Array("handle \(record.id.rawValue)".utf8)), size: record.size)
    return record
  }

  private static var root: ItemRecord {
    var record = SampleItems.record(1, "x", in: ItemID(0), kind: .folder, flags: .listed)
    record.place.name = .root
    return record
  }

  private static var pinnedFolder: ItemRecord {
    known(SampleItems.record(2, "Papers", kind: .folder, flags: [.listed, .pinned]))
  }

  private static var materialized: ItemRecord {
    var record = known(SampleItems.record(3, "letter.txt", flags: .whole))
    record.content = 11
    record.bytes = 4096
    record.used = 1_700_000_000
    record.xattrs = [Array("user.tag".utf8): Array("blue".utf8), Array("user.empty".utf8): []]
    return record
  }

  private static var dirty: ItemRecord {
    var record = known(SampleItems.record(4, "draft.txt", in: ItemID(2), flags: [.whole, .contentDirty]))
    record.content = 12
    record.bytes = 4096
    record.pending = 200
    return record
  }

  private static var partial: ItemRecord {
    var record = known(SampleItems.record(5, "film.mp4"))
    record.size = 1 << 40
    record.remote?.size = 1 << 40
    record.content = 13
    record.bytes = 4096
    record.extents.insert(0..<4096)
    record.extents.insert(1 << 39..<(1 << 39) + 1)
    return record
  }

  private static var renamed: ItemRecord {
    var record = known(SampleItems.record(6, "new name", flags: .attributesDirty))
    record.remote?.place = Place(folder: ItemID(2), name: SampleItems.name("old name"))
    record.pending = 300
    return record
  }

  private static var deleted: ItemRecord {
    var record = known(SampleItems.record(10, "gone", flags: .deleted))
    record.pending = 500
    return record
  }

  private static var symlink: ItemRecord {
    var record = known(SampleItems.record(8, "link", kind: .symlink))
    record.target = Array("../elsewhere".utf8)
    return record
  }

  private static var uploading: ItemRecord {
    var record = SampleItems.record(7, "caf\u{e9} \u{1f4c4}", flags: [.whole, .contentDirty])
    record.content = 14
    record.bytes = 4096
    record.pending = 100
    record.job = UploadJob(place: record.place, digest: (0..<32).map { UInt8($0) }, size: 10)
    return record
  }

  private static var refused: ItemRecord {
    var record = SampleItems.record(9, "aux", in: ItemID(2), kind: .folder, flags: .listed)
    record.pending = 400
    record.error = "the container has no such name"
    return record
  }
}
