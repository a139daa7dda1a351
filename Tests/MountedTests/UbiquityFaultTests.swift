import Foundation
import StorageErrors
import TestSupport
import Ubiquity
import XCTest

/// Every operation of a move fails once, one after the other. Whatever the app is told, each document is whole somewhere,
/// and no name holds half of one.
final class UbiquityFaultTests: MountedTestCase {
  private let bytes = patterned(1_500_000, seed: 1)
  private let operations = [
    "lookup", "getattr", "open", "create", "read", "write", "flush", "fsync", "rename", "unlink", "rmdir", "mkdir",
    "opendir", "readdir", "getxattr", "setxattr", "listxattr", "chmod", "utimens", "symlink", "readlink", "fsyncdir",
  ]

  override var patience: Double { 300 }

  func testIntoTheCloud() throws { try sweep(intoTheCloud: true) }
  func testOutOfTheCloud() throws { try sweep(intoTheCloud: false) }

  private func sweep(intoTheCloud: Bool) throws {
    let volume = try mount()
    let there = try outside("local")
    var failures = 0
    for operation in operations {
      for number in 1...200 {
        let name = "\(operation)-\(number)"
        let (source, target) =
          intoTheCloud ? (there + "/" + name, volume.path(name)) : (volume.path(name), there + "/" + name)
        try makeTree(source)
        try control(volume, "add id=x op=\(operation) errno=EIO when=\(number) times=1")
        var thrown: (any Error)?
        do {
          try FileManager.default.setUbiquitous(
            intoTheCloud, itemAt: URL(fileURLWithPath: source), destinationURL: URL(fileURLWithPath: target))
        } catch { thrown = error }
        let wasReached = try Sys.text(volume.path(".docsfs/control")).contains("remaining=0")
        try control(volume, "del x")
        if let thrown {
          failures += 1
          XCTAssertTrue(isExternalStorageWriteError(thrown), "\(name): \(thrown)")
          XCTAssertEqual(classify(thrown).cause.symbol, "EIO", "\(name): \(thrown)")
        }
        check(name, source, target, succeeded: thrown == nil)
        try volume.must("rm -rf '\(source)' '\(target)'; rm -rf '\(there)'/.moving-* $M/.moving-*")
        if !wasReached { break }
        XCTAssertLessThan(number, 200, "\(operation) goes on and on")
      }
    }
    XCTAssertGreaterThan(failures, 30, "most failures reach the app")
  }

  private func control(_ volume: MountedVolume, _ line: String) throws {
    try OpenFile(volume.path(".docsfs/control"), O_WRONLY).write(line + "\n")
  }

  private func makeTree(_ root: String) throws {
    try Sys.makeFolders(root + "/sub")
    try Sys.put(root + "/one", bytes)
    try Sys.put(root + "/sub/two", "zwei")
    try Sys.setXattr(root + "/one", "user.tag", [1])
    try Sys.symlink("one", at: root + "/link")
  }

  private func check(_ name: String, _ source: String, _ target: String, succeeded: Bool) {
    XCTAssertTrue(!Sys.exists(target) || isWhole(target), "\(name): half of it under its name")
    if succeeded { XCTAssertTrue(isWhole(target) && !Sys.exists(source), "\(name): reported as done") }
    XCTAssertTrue(isWhole(source) || isWhole(target), "\(name): lost")
  }

  private func isWhole(_ root: String) -> Bool {
    (try? Sys.contents(root + "/one")) == bytes && (try? Sys.text(root + "/sub/two")) == "zwei"
      && (try? Sys.xattr(root + "/one", "user.tag")) == [1] && (try? Sys.readlink(root + "/link")) == "one"
  }
}
