import Foundation
import StorageErrors

/// Looks through an app's Documents for what looks as if it could be downloaded or made again, and so belongs in
/// `Library/Caches`. Changes nothing and materializes nothing. A guess: the app's author knows.
public struct Audit: Sendable {
  /// What it looks like.
  public enum Kind: String, Codable, CaseIterable, Sendable {
    /// A SQLite database with its sidecars.
    case database
    /// A database of map tiles.
    case mapTiles
    /// A trained model.
    case model
    /// An archive, as downloads come.
    case archive
    /// A download that has not ended.
    case partialDownload
    /// Lies in a folder for caches, temporary files, thumbnails or logs, or is named as such a file.
    case cache
    /// A video or a recording.
    case media
  }

  /// A file, or a database with its sidecars.
  public struct Finding: Codable, Hashable, Sendable {
    /// From Documents.
    public var path: DocumentPath
    /// What it looks like.
    public var kind: Kind
    /// Bytes, of all its files.
    public var bytes: Int64
    /// How many files it has.
    public var files: Int
    /// Backups leave it out already.
    public var isExcludedFromBackup: Bool
    /// Its bytes are not, or not all, on this disk.
    public var isPlaceholder: Bool
  }

  /// What was found.
  public struct Report: Codable, Hashable, Sendable {
    /// The largest first.
    public var findings: [Finding]
    /// Bytes of all of Documents.
    public var totalBytes: Int64
    /// Files in Documents.
    public var totalFiles: Int
    /// What could not be looked at, and why.
    public var unreadable: [String]

    /// Bytes of what was found, and is not left out of backups yet.
    public var bytesInBackup: Int64 { findings.filter { !$0.isExcludedFromBackup }.reduce(0) { $0 + $1.bytes } }
  }

  private let home: DocumentPath

  /// `home` is the folder with `Documents` in it.
  public init(home: URL) { self.init(home: DocumentPath(home)) }
  /// As with a URL, for a path that need not be text.
  public init(home: DocumentPath) { self.home = home }

  /// Looks.
  ///
  /// - Throws: `MigrationError` when Documents cannot be listed.
  public func run() throws(MigrationError) -> Report {
    try home.checkNamed("app's folder")
    let documents = home.appending(Relocation.documents)
    let listing: Listing
    do throws(Errno) { listing = try Walker(root: try POSIX.resolved(documents)).list() } catch {
      throw MigrationError(
        error == .ENOENT ? .missing : .storage, "cannot list \(documents): \(error.message.lowercasedFirst)")
    }
    let files = listing.entries.filter { $0.status.kind == .file }
    let findings = Self.find(files) { Self.beginsAsDatabase(documents.appending($0)) }
    return Report(
      findings: findings.map { finding in
        var finding = finding
        finding.isExcludedFromBackup = BackupExclusion.isSet(documents.appending(finding.path))
        return finding
      },
      totalBytes: files.reduce(0) { $0 + $1.status.size }, totalFiles: files.count,
      unreadable: listing.refused.map { "\($0.path) \($0.refusal.reason)" })
  }

  /// `beginsAsDatabase` reads a file's first bytes; it is never asked of a placeholder.
  static func find(_ files: [Listing.Entry], beginsAsDatabase: (DocumentPath) -> Bool) -> [Finding] {
    let paths = Set(files.map(\.path))
    var findings: [DocumentPath: Finding] = [:]
    for file in files {
      let database = Sidecar.database(of: file.path).flatMap { paths.contains($0) ? $0 : nil }
      let path = database ?? file.path
      guard
        let kind = kind(path) ?? (file.path == path && !file.isPlaceholder && beginsAsDatabase(path) ? .database : nil)
          ?? (database != nil ? .database : nil)
      else { continue }
      findings[path, default: .init(path, kind)].add(file)
    }
    return findings.values.sorted { ($1.bytes, $0.path) < ($0.bytes, $1.path) }
  }

  private static func kind(_ path: DocumentPath) -> Kind? {
    let names = path.names.map { String(decoding: $0, as: UTF8.self).lowercased() }
    let name = names.last ?? ""
    let ending = name.lastIndex(of: ".").map { String(name[name.index(after: $0)...]) } ?? ""
    if let kind = Kind.allCases.first(where: { $0.endings.contains(ending) }) { return kind }
    return names.dropLast().contains(where: cacheFolders.contains) ? .cache : nil
  }

  private static let cacheFolders: Set<String> = [
    "cache", "caches", ".cache", "tmp", "temp", "temporary", "thumbnails", ".thumbnails", "logs", "downloads",
  ]

  private static func beginsAsDatabase(_ path: DocumentPath) -> Bool {
    let mark = Array("SQLite format 3\0".utf8)
    guard let file = try? Descriptor(path, O_RDONLY | O_NONBLOCK) else { return false }
    var bytes = [UInt8](repeating: 0, count: mark.count)
    let count = bytes.withUnsafeMutableBytes { (try? file.read(into: $0, at: 0)) ?? 0 }
    return count == mark.count && bytes == mark
  }
}

extension Audit.Kind {
  /// Endings of file names that say so.
  fileprivate var endings: Set<String> {
    switch self {
    case .database: ["sqlite", "sqlite3", "db", "db3", "realm"]
    case .mapTiles: ["mbtiles", "pmtiles"]
    case .model: ["mlmodel", "mlpackage", "tflite", "onnx", "gguf", "safetensors"]
    case .archive: ["zip", "gz", "tgz", "xz", "zst", "7z", "tar", "ipa", "apk", "dmg", "iso"]
    case .partialDownload: ["part", "partial", "download", "crdownload"]
    case .cache: ["cache", "tmp", "log"]
    case .media: ["mp4", "m4v", "mov", "mkv", "webm", "avi", "mp3", "m4a", "aac", "flac", "wav"]
    }
  }
}

extension Audit.Finding {
  fileprivate init(_ path: DocumentPath, _ kind: Audit.Kind) {
    self.init(path: path, kind: kind, bytes: 0, files: 0, isExcludedFromBackup: false, isPlaceholder: false)
  }

  fileprivate mutating func add(_ file: Listing.Entry) {
    bytes += file.status.size
    files += 1
    isPlaceholder = isPlaceholder || file.isPlaceholder
  }
}
