import Foundation
import StorageErrors
import TestSupport
import XCTest

/// The truth table of seeds/external-storage-errors.md.
final class WriteErrorTests: XCTestCase {
  private static let cocoa: [CocoaError.Code] = [
    .fileWriteUnknown, .fileNoSuchFile, .fileWriteNoPermission, .fileWriteOutOfSpace, .fileWriteVolumeReadOnly,
  ]
  private static let posix = [ENODEV, EIO, ENOENT, ENXIO, ESTALE]

  /// Each row, and what stands beside it in its domain or has its number in another.
  private var table: [(error: NSError, isOne: Bool)] {
    let cocoa = Set(Self.cocoa.map(\.rawValue))
    let posix = Set(Self.posix.map(Int.init))
    let rows = (-3...5000).map { (NSError(domain: NSCocoaErrorDomain, code: $0), cocoa.contains($0)) }
    let posixRows = (-3...1000).map { (NSError(domain: NSPOSIXErrorDomain, code: $0), posix.contains($0)) }
    let provider = ([Int.min, Int.max] + Array(-2100...(-990)) + Array(-5...5))
      .map { (NSError(domain: "NSFileProviderErrorDomain", code: $0), true) }
    let others = ["", "nscocoaerrordomain", "NSFileProviderErrorDomain.x", "NSURLErrorDomain", NSOSStatusErrorDomain]
      .flatMap { domain in [4, 5, 512, 513, 640, 642, -1004].map { (NSError(domain: domain, code: $0), false) } }
    return rows + posixRows + provider + others
  }

  func testEveryCodeBare() {
    for row in table {
      XCTAssertEqual(isExternalStorageWriteError(row.error), row.isOne, "\(row.error.domain) \(row.error.code)")
    }
    XCTAssertEqual(table.filter(\.isOne).count, 5 + 5 + 1124)
  }

  func testEveryCodeNested() {
    for depth in [1, 2, 50] {
      for row in table where row.isOne || (0...700).contains(row.error.code) {
        XCTAssertEqual(
          isExternalStorageWriteError(nested(row.error, depth)), row.isOne,
          "\(row.error.domain) \(row.error.code) \(depth) deep")
      }
    }
  }

  func testAnErrorOfTheTableAboveOneThatIsNoneIsStillOne() {
    let full = NSError(domain: NSPOSIXErrorDomain, code: Int(ENOSPC))
    XCTAssertFalse(isExternalStorageWriteError(full))
    let wrapped = NSError(
      domain: NSCocoaErrorDomain, code: CocoaError.fileWriteOutOfSpace.rawValue,
      userInfo: [NSUnderlyingErrorKey: full])
    XCTAssertTrue(isExternalStorageWriteError(wrapped))
  }

  func testSwiftsOwnErrorTypes() {
    XCTAssertTrue(isExternalStorageWriteError(CocoaError(.fileWriteUnknown)))
    XCTAssertFalse(isExternalStorageWriteError(CocoaError(.fileReadUnknown)))
    XCTAssertTrue(isExternalStorageWriteError(POSIXError(.EIO)))
    XCTAssertFalse(isExternalStorageWriteError(POSIXError(.ENOSPC)))
    XCTAssertTrue(isExternalStorageWriteError(Errno.ESTALE))
    XCTAssertFalse(isExternalStorageWriteError(Errno.ETIMEDOUT))
    XCTAssertFalse(isExternalStorageWriteError(CancellationError()))
    let read = CocoaError(.fileReadUnknown, userInfo: [NSUnderlyingErrorKey: POSIXError(.ENXIO)])
    XCTAssertTrue(isExternalStorageWriteError(read))
  }

  func testErrorsInAnArrayAreNotLookedAt() {
    let error = NSError(
      domain: "Mine", code: 1, userInfo: ["NSMultipleUnderlyingErrorsKey": [POSIXError(.EIO), POSIXError(.ENODEV)]])
    XCTAssertFalse(isExternalStorageWriteError(error))
  }

  func testCirclesEnd() {
    let circle = Circle()
    XCTAssertFalse(isExternalStorageWriteError(circle))
    let a = Circle()
    let b = Circle()
    a.next = b
    b.next = a
    XCTAssertFalse(isExternalStorageWriteError(a))
    b.next = NSError(domain: NSPOSIXErrorDomain, code: Int(ESTALE), userInfo: [NSUnderlyingErrorKey: a])
    XCTAssertTrue(isExternalStorageWriteError(a))
  }

  func testAnErrorFromDarwinIsComparedByItsSymbol() {
    XCTAssertTrue(isExternalStorageWriteError(SerializedError(domain: NSPOSIXErrorDomain, code: 70, platform: .darwin)))
    XCTAssertFalse(isExternalStorageWriteError(SerializedError(domain: NSPOSIXErrorDomain, code: 70, platform: .linux)))
    XCTAssertFalse(
      isExternalStorageWriteError(SerializedError(domain: NSPOSIXErrorDomain, code: 116, platform: .darwin)))
  }

  func testItAgreesWithTheArticlesFunctionOnTenThousandTrees() {
    var errors = RandomErrors(SeededRandom.setting("DOCSFS_SEED", 1))
    var trues = 0
    for number in 0..<10_000 {
      let error = errors.tree(depth: number % 7)
      let expected = ArticleFunction.isExternalStorageWriteError(error)
      if expected { trues += 1 }
      XCTAssertEqual(isExternalStorageWriteError(error), expected, "tree \(number): \(error)")
    }
    XCTAssert((2000...8000).contains(trues), "\(trues) of 10,000 say little")
  }
}

/// `error`, with `depth` errors around it that say nothing.
func nested(_ error: any Error, _ depth: Int) -> any Error {
  (0..<depth).reduce(error) { inner, number in
    NSError(domain: "Wrapper", code: number, userInfo: [NSUnderlyingErrorKey: inner])
  }
}

/// An error below itself, which takes a class.
final class Circle: NSError, @unchecked Sendable {  // set up before it is looked at
  var next: (any Error)?
  init() { super.init(domain: "Circle", code: 1, userInfo: [:]) }
  required init?(coder: NSCoder) { nil }
  override var userInfo: [String: Any] { [NSUnderlyingErrorKey: next ?? self] }
}
