import DocumentMigration
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// Two folders and a journal of their own.
class MigrationTestCase: XCTestCase {
  private(set) var home = ""
  var source: String { home + "/source" }
  var destination: String { home + "/destination" }
  var journal: String { home + "/journal" }
  private var folder: TemporaryFolder?

  override func setUpWithError() throws {
    let folder = try TemporaryFolder()
    self.folder = folder
    home = folder.path
    for path in [source, destination] { try Sys.makeFolders(path) }
  }

  override func tearDownWithError() throws {
    // Modes that keep others out do not keep the folder's removal out: tests run as root or own everything.
    _ = Shell.run(["chmod", "-R", "u+rwX", home])
    folder?.remove()
  }

  func options(_ disposition: Migration.Disposition, _ policy: Migration.ConflictPolicy = .fail) -> Migration.Options {
    var options = Migration.Options(disposition)
    options.journal = DocumentPath(journal)
    options.onConflict = policy
    options.patience = 1
    return options
  }

  func migration(_ options: Migration.Options) -> Migration {
    Migration(source: DocumentPath(source), destination: DocumentPath(destination), options: options)
  }

  @discardableResult
  func migrate(
    _ disposition: Migration.Disposition, _ policy: Migration.ConflictPolicy = .fail
  ) throws -> MigrationReport {
    try migration(options(disposition, policy)).run()
  }

  func put(_ path: String, _ text: String) throws { try Sys.put(path, text) }

  /// One document of a report.
  func outcome(_ report: MigrationReport, _ path: String) throws -> FileReport {
    try XCTUnwrap(report.files.first { $0.path == DocumentPath(path) }, path)
  }

  /// Neither side has what a migration had not finished.
  func assertNothingTemporary(file: StaticString = #filePath, line: UInt = #line) throws {
    for folder in [source, destination] {
      let left = try FolderTree(at: folder).nodes.keys.filter { $0.description.contains(".docsfs-migrate") }
      XCTAssertEqual(left, [], folder, file: file, line: line)
    }
  }
}

/// Runs on a second file system: /dev/shm, which is a tmpfs wherever tests run.
class AcrossFileSystems: MigrationTestCase {
  private var other: String = ""
  override var destination: String { other }

  override func setUpWithError() throws {
    var template = Array("/dev/shm/docsfs-test-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw XCTSkip("needs /dev/shm") }
    other = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    try super.setUpWithError()
    let (here, there) = (try Sys.info(source).st_dev, try Sys.info(other).st_dev)
    try XCTSkipIf(here == there, "needs two file systems")
  }

  override func tearDownWithError() throws {
    _ = Shell.run(["rm", "-rf", other])
    try super.tearDownWithError()
  }
}
