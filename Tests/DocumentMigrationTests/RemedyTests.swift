import StorageErrors
import XCTest

@testable import DocumentMigration

/// What StorageErrors says of an errno, and what a migration makes of it.
final class RemedyTests: XCTestCase {
  func testActions() {
    let expected: [(Errno, Remedy.Action)] = [
      (.ESTALE, .reopen), (.EIO, .reopen), (.ENXIO, .wait), (.ENODEV, .wait), (.ENOTCONN, .wait), (.ETIMEDOUT, .wait),
      (.ENOSPC, .stop), (.EDQUOT, .stop), (.EROFS, .stop), (.EACCES, .skip), (.ENAMETOOLONG, .skip), (.EDEADLK, .skip),
    ]
    for (errno, action) in expected { XCTAssertEqual(Remedy(errno).action, action, errno.name) }
  }

  func testEveryAdviceSaysWhatToDo() {
    for number in 1..<134 {
      let remedy = Remedy(Errno(rawValue: Int32(number)))
      XCTAssertTrue(remedy.advice.contains("run the same command again"), "\(number): \(remedy.advice)")
    }
  }
}
