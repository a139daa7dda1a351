import Containers
import StorageErrors

@testable import DocsEngine

/// Items as tests make them: numbered, named, and otherwise plain.
enum SampleItems {
  static func name(_ text: String) -> ItemName {
    guard let name = try? ItemName(text) else { preconditionFailure("\(text) is no name") }
    return name
  }

  static func record(
    _ id: UInt64, _ name: String, in folder: ItemID = .root, kind: ItemKind = .file,
    flags: ItemRecord.Flags = []
  ) -> ItemRecord {
    let time = Timestamp(nanoseconds: 1_700_000_000_000_000_000 + Int64(id))
    var record = ItemRecord(
      id: ItemID(id), place: Place(folder: folder, name: self.name(name)), kind: kind, mode: 0o640, uid: 1,
      gid: 2,
      size: 10, accessed: time, modified: time, changed: time)
    record.flags = flags
    return record
  }

  static func version(_ text: String) -> Version { Version(Array(text.utf8)) }

  static func remote(_ record: ItemRecord, _ version: String) -> RemoteState {
    RemoteState(
      place: record.place, version: self.version(version),
      identity: RemoteIdentity(Array("id of \(record.id)".utf8)),
      size: record.size)
  }
}

extension ItemRecord: Equatable {
  /// By all that it says of itself; xattrs apart, since a dictionary has no order.
  public static func == (a: ItemRecord, b: ItemRecord) -> Bool {
    func text(_ record: ItemRecord) -> String {
      var plain = record
      plain.xattrs = [:]
      return "\(plain)"
    }
    return text(a) == text(b) && a.xattrs == b.xattrs
  }
}
