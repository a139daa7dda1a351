import Foundation
import StorageErrors
import TestSupport
import XCTest

/// The scenes of seeds/external-storage-errors.md on a mount: external storage goes away under an app, and comes back.
final class ArticleErrorTests: MountedTestCase {
  private func control(_ volume: MountedVolume, _ line: String) throws {
    try OpenFile(volume.path(".docsfs/control"), O_WRONLY).write(line + "\n")
  }

  /// Fails unless `body` throws what the article's predicate takes for a failure of external storage, and
  /// `classify` for this.
  private func assertFails(
    _ category: Classification.Category, _ symbol: String, _ retry: Classification.Retry, line: UInt = #line,
    _ body: () throws -> Void
  ) {
    do {
      try body()
      XCTFail("it succeeded", line: line)
    } catch {
      XCTAssertTrue(isExternalStorageWriteError(error), "\(error)", line: line)
      let result = classify(error)
      XCTAssertEqual(result.category, category, "\(error)", line: line)
      XCTAssertEqual(result.cause.symbol, symbol, "\(error)", line: line)
      XCTAssertEqual(result.retry, retry, "\(error)", line: line)
    }
  }

  private func save(_ text: String, _ path: String) throws {
    try Data(text.utf8).write(to: URL(fileURLWithPath: path))
  }

  func testADriveIsPulledAndPutBack() throws {
    let volume = try mount()
    try save("before", volume.path("f"))
    let handle = try FileHandle(forUpdating: URL(fileURLWithPath: volume.path("f")))
    let file = try OpenFile(volume.path("f"), O_RDONLY)
    try control(volume, "disconnect profile=unplugged")
    assertFails(.disconnected, "ENXIO", .afterReconnect) { try save("gone", volume.path("f")) }
    assertFails(.disconnected, "ENXIO", .afterReconnect) { try save("gone", volume.path("new")) }
    assertFails(.ioFailure, "EIO", .reopenThenRetry) { try handle.write(contentsOf: Data("x".utf8)) }
    assertFails(.ioFailure, "EIO", .reopenThenRetry) { _ = try file.read(1, at: 0) }
    // FileHandle looks at the file's size first, and that fails in its own way.
    assertFails(.disconnected, "ENXIO", .afterReconnect) { _ = try handle.read(upToCount: 1) }
    try control(volume, "reconnect")
    assertFails(.staleHandle, "ESTALE", .reopenThenRetry) { try handle.write(contentsOf: Data("x".utf8)) }
    // Opened again, from the beginning, as the advice says.
    try save("after", volume.path("f"))
    XCTAssertEqual(try Sys.text(volume.path("f")), "after")
  }

  func testADeviceIsTakenOff() throws {
    let volume = try mount()
    try save("before", volume.path("f"))
    try control(volume, "disconnect profile=removed")
    assertFails(.disconnected, "ENODEV", .afterReconnect) { try save("gone", volume.path("f")) }
    assertFails(.disconnected, "ENODEV", .afterReconnect) {
      try FileManager.default.copyItem(atPath: "/etc/hostname", toPath: volume.path("hostname"))
    }
    try control(volume, "reconnect")
    XCTAssertEqual(try Sys.text(volume.path("f")), "before")
  }

  /// What the predicate says no to, though Linux' network file systems answer so; `classify` knows them.
  func testANetworkFileSystemGoesAway() throws {
    let volume = try mount()
    try save("before", volume.path("f"))
    for (profile, symbol, retry) in [
      ("smb", "EHOSTDOWN", Classification.Retry.afterReconnect), ("nfs-softerr", "ETIMEDOUT", .withBackoff),
      ("fuse-dead", "ENOTCONN", .afterReconnect),
    ] {
      try control(volume, "disconnect profile=\(profile)")
      do {
        _ = try Data(contentsOf: URL(fileURLWithPath: volume.path("f")))
        XCTFail("\(profile): it succeeded")
      } catch {
        XCTAssertFalse(isExternalStorageWriteError(error), "\(profile): \(error)")
        XCTAssertEqual(classify(error).category, .disconnected, "\(profile): \(error)")
        XCTAssertEqual(classify(error).cause.symbol, symbol, profile)
        XCTAssertEqual(classify(error).retry, retry, profile)
        XCTAssertEqual(classify(error).cause.file, volume.path("f"), profile)
      }
      try control(volume, "reconnect")
    }
  }
}
