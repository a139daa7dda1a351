import Foundation
import StorageErrors

/// Why a document stays where it is although no system call failed, or whatever the call's errno means by itself.
enum Refusal: Error, Hashable, Sendable {
  case unreadable(Errno)
  /// A FIFO, socket or device.
  case special
  /// A mount lies there.
  case otherFileSystem
  case stubWithoutDocument(DocumentPath)
  case damagedStub
  /// The destination has something else of that name.
  case collision
  /// A folder here, something else there, or the other way round.
  case kindsDiffer
  /// Both paths lead to one entry of one folder.
  case oneEntry
  /// Its folder could not be made.
  case folderMissing
  case keepsChanging
  case openForWriting
  /// What was read back is not what was written.
  case readBackDiffers
  case attributesDoNotFit([String])
  /// A temporary file of a migration.
  case temporary
  /// Of a database only the sidecars are here.
  case databaseMissing
  case vanished
}

extension Refusal {
  /// It could not be looked at, or, a folder, not into.
  var isUnreadable: Bool {
    if case .unreadable = self { true } else { false }
  }

  /// One sentence without a full stop: what and why.
  var reason: String {
    switch self {
    case .unreadable(let errno): "cannot be read: \(errno.message.lowercasedFirst)"
    case .special: "is no file, folder or symlink (a FIFO, socket or device), which no cloud holds"
    case .otherFileSystem: "another file system is mounted there"
    case .stubWithoutDocument(let name): "is the stub of \(name), whose content is in the cloud only"
    case .damagedStub: "is named as an iCloud stub, but its content is none"
    case .collision: "the destination has another document of that name"
    case .kindsDiffer: "one side has a folder of that name, and the other something else"
    case .oneEntry: "source and destination lead to one and the same file"
    case .folderMissing: "its folder could not be made at the destination"
    case .keepsChanging: "it changes while it is copied"
    case .openForWriting: "a program has it open for writing"
    case .readBackDiffers: "what the destination gives back is not what was written"
    case .attributesDoNotFit(let names): "the destination cannot hold its attributes \(names.joined(separator: ", "))"
    case .temporary: "is a temporary file of a migration"
    case .databaseMissing: "only sidecars of it are here, and the database is in neither place, or is another one"
    case .vanished: "it has gone since the folder was read"
    }
  }

  var advice: String {
    switch self {
    case .unreadable(let errno): Remedy(errno).advice
    case .special: "it stays; remove it, or leave it"
    case .otherFileSystem: "migrate that by itself, or unmount it"
    case .stubWithoutDocument: "download it on its device, then run the same command again"
    case .damagedStub: "download the document on its device; if it is one of your own, rename it"
    case .collision: "choose with --on-conflict skip, keep-both, replace or newer"
    case .kindsDiffer: "rename one of them, then run the same command again"
    case .oneEntry: "look for a bind mount within these folders"
    case .folderMissing: "see the folder's own line"
    case .keepsChanging, .openForWriting: "close the program that writes it, then run the same command again"
    case .readBackDiffers: "do not trust that disk; the source is untouched"
    case .attributesDoNotFit: "use --keep, or another destination"
    case .temporary: "run the migration it belongs to again, which tidies up, or remove it"
    case .databaseMissing: "remove the sidecars, if the database is to be downloaded again"
    case .vanished: "nothing to do if you removed it"
    }
  }

  /// In StorageErrors' words.
  var category: Classification.Category {
    switch self {
    case .unreadable(let errno): Remedy(errno).category
    case .special, .otherFileSystem, .attributesDoNotFit, .temporary: .unsupported
    case .stubWithoutDocument: .notMaterialized
    case .damagedStub, .readBackDiffers: .corrupt
    case .collision, .oneEntry: .exists
    case .kindsDiffer: .wrongKind
    case .folderMissing, .vanished, .databaseMissing: .notFound
    case .keepsChanging, .openForWriting: .busy
    }
  }
}
