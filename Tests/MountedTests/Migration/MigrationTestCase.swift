import DocumentMigration
import Foundation
import StorageErrors
import TestSupport
import XCTest

/// `docsfs migrate`, in a child process, between a local folder and a mount.
class MigrationTestCase: MountedTestCase {
  var local: String { (try? outside("local")) ?? "" }

  func migrate(_ volume: MountedVolume, _ arguments: String..., within limit: Double = 120) -> Outcome {
    volume.docsfs(["migrate"] + arguments, within: limit)
  }

  /// As `migrate`, for what has to succeed.
  @discardableResult
  func must(_ volume: MountedVolume, _ arguments: String..., within limit: Double = 120) throws -> Outcome {
    try volume.run(["migrate"] + arguments, within: limit)
  }

  func report(_ outcome: Outcome) throws -> MigrationReport {
    try JSONDecoder().decode(MigrationReport.self, from: Data(outcome.output))
  }

  /// What the container has, as another device sees it.
  func remote(_ volume: MountedVolume, _ folder: String = "") throws -> FolderTree {
    var tree = try FolderTree(at: folder.isEmpty ? volume.container : volume.remote(folder))
    tree.nodes = tree.nodes.filter { !$0.key.description.hasPrefix(".docsfs") }
    return tree
  }

  /// Inode number, times and size of each file in the container: what any upload would change.
  func remoteStamps(_ volume: MountedVolume) throws -> [DocumentPath: [Int]] {
    var stamps: [DocumentPath: [Int]] = [:]
    for path in try remote(volume).nodes.keys {
      let info = try Sys.info(volume.remote(String(decoding: path.bytes, as: UTF8.self)))
      stamps[path] = [Int(info.st_ino), Int(info.st_size), info.st_mtim.nanoseconds, info.st_ctim.nanoseconds]
    }
    return stamps
  }

  func assertNothingTemporary(
    _ folders: String..., file: StaticString = #filePath, line: UInt = #line
  ) throws {
    for folder in folders {
      let left = try FolderTree(at: folder).nodes.keys.filter { $0.description.contains(".docsfs-migrate") }
      XCTAssertEqual(left, [], folder, file: file, line: line)
    }
  }
}
