import Foundation
import StorageErrors

/// The two roots, resolved.
struct Trees {
  var source: DocumentPath
  var destination: DocumentPath
  var destinationIsThere: Bool

  init(_ source: DocumentPath, _ destination: DocumentPath) throws(MigrationError) {
    try source.checkNamed("source")
    try destination.checkNamed("destination")
    self.source = try Self.folder(source, "source")
    do throws(Errno) {
      destinationIsThere = try POSIX.statusIfPresent(destination) != nil
      // Only the last folder is made: where more is missing, a disk or a mount may be.
      let above = destination.parent.isRoot ? DocumentPath(".") : destination.parent
      self.destination =
        destinationIsThere
        ? try POSIX.resolved(destination) : try POSIX.resolved(above).appending(destination.name)
    } catch {
      throw MigrationError(
        .missing, "the destination \(destination): \(error.message.lowercasedFirst); is its disk or mount there?")
    }
    if destinationIsThere { _ = try Self.folder(self.destination, "destination") }
    try checkApart()
  }

  private static func folder(_ path: DocumentPath, _ what: String) throws(MigrationError) -> DocumentPath {
    let resolved: DocumentPath
    let kind: FileStatus.Kind
    do throws(Errno) {
      resolved = try POSIX.resolved(path)
      kind = try POSIX.status(resolved).kind
    } catch {
      throw MigrationError(
        error == .ENOENT ? .missing : .storage, "the \(what) \(path): \(error.message.lowercasedFirst)")
    }
    guard kind == .folder else { throw MigrationError(.unfit, "the \(what) \(path) is no folder") }
    return resolved
  }

  private func checkApart() throws(MigrationError) {
    if destination.isWithin(source) || source.isWithin(destination) || isSameFolder {
      throw MigrationError(
        .unfit, "\(source) and \(destination) lie within each other; choose folders that are apart")
    }
  }

  /// By another path, as a bind mount gives one.
  private var isSameFolder: Bool {
    guard let a = try? POSIX.status(source), let b = try? POSIX.status(destination) else { return false }
    return a.isSameFile(as: b)
  }

  /// Of the lock: the same in both directions. Of one document that both trees have, each direction would take the other
  /// one's for what may go.
  var pair: String {
    let (a, b) = (min(source, destination), max(source, destination))
    return shortDigest(a.bytes + [0] + b.bytes)
  }

  /// Of the journal: readable, and another for each pair of trees.
  var name: String {
    let last = String(decoding: source.name, as: UTF8.self).unicodeScalars.filter {
      $0.isASCII && ($0.properties.isAlphabetic || ("0"..."9").contains($0) || "._-".unicodeScalars.contains($0))
    }
    return String(String.UnicodeScalarView(last)).prefix(32) + "-"
      + shortDigest(source.bytes + [0] + destination.bytes)
  }
}
