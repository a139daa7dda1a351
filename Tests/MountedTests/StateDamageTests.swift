import StorageErrors
import TestSupport
import XCTest

/// Somebody works in the state directory, which is nobody's business.
final class StateDamageTests: MountedTestCase {
  private let body = patterned(50_000, seed: 3)

  /// A file that is uploaded and local, whose content file is then treated by `damage`.
  private func damaged(_ damage: String) throws -> MountedVolume {
    let volume = try mount()
    try Sys.put(volume.path("f"), body)
    try volume.settle()
    try volume.unmount()
    try volume.must("for f in $(find '\(volume.state)/content' -type f); do \(damage) $f; done")
    try volume.mount()
    return volume
  }

  func testAContentFileThatIsTooShortIsFetchedAgain() throws {
    for damage in ["truncate -s 0", "truncate -s 4096", "rm"] {
      let volume = try damaged(damage)
      assertBytes(try Sys.contents(volume.path("f")), body, damage)
      try volume.unmount()
    }
  }

  func testAnAppendToSuchAFileKeepsItsBytes() throws {
    for damage in ["truncate -s 0", "truncate -s 4096", "rm"] {
      let volume = try damaged(damage)
      try volume.must("printf x >>$M/f")
      try volume.settle()
      assertBytes(try Sys.contents(volume.remote("f")), body + [0x78], damage)
      try volume.unmount()
    }
  }

  func testOwnNamesCannotBeMade() throws {
    let volume = try mount()
    assertErrno(.EPERM) { try Sys.makeFolder(volume.path(".docsfs-container")) }
    // It is there already, a folder.
    assertErrno(.EISDIR) { try Sys.put(volume.path(".docsfs"), "x") }
    assertErrno(.EEXIST) { try Sys.makeFolder(volume.path(".docsfs")) }
    try Sys.put(volume.path("f"), "x")
    assertErrno(.EPERM) { try Sys.rename(volume.path("f"), volume.path(".docsfs-swap-1")) }
    try Sys.makeFolder(volume.path("d"))
    try Sys.put(volume.path("d/.docsfs"), "only in the root")
    try volume.settle()
  }
}
