import Foundation
import XCTest

@testable import StorageErrors

final class ClassificationTests: XCTestCase {
  private func posix(_ symbol: ErrnoSymbol, _ info: [String: Any] = [:]) -> NSError {
    NSError(domain: NSPOSIXErrorDomain, code: Int(symbol.number(on: .current) ?? 0), userInfo: info)
  }
  private func cocoa(_ code: CocoaCode, _ info: [String: Any] = [:]) -> NSError {
    NSError(domain: NSCocoaErrorDomain, code: code.rawValue, userInfo: info)
  }
  private func provider(_ code: FileProviderCode) -> NSError {
    NSError(domain: FileProviderCode.domain, code: code.rawValue)
  }

  // MARK: What decides

  func testAWrapperNeverBeatsTheErrnoBelowIt() {
    for symbol in [ErrnoSymbol.ESTALE, .ENXIO, .ENODEV, .EIO, .ETIMEDOUT, .ENOTCONN, .EHOSTDOWN, .EBUSY, .EFBIG] {
      for wrapper in [CocoaCode.fileWriteUnknown, .fileReadUnknown] {
        for depth in [1, 2, 50] {
          let inner = cocoa(wrapper, [NSUnderlyingErrorKey: posix(symbol)])
          let result = classify(nested(inner, depth - 1))
          XCTAssertEqual(result.cause.symbol, symbol.rawValue)
          XCTAssertEqual(result.cause.depth, depth)
          XCTAssertEqual(result, withPlace(classify(posix(symbol)), of: result), "\(symbol) in \(wrapper)")
        }
      }
    }
  }

  func testWhatAMoreExactLayerSaysIsKept() {
    XCTAssertEqual(
      classify(cocoa(.fileWriteVolumeReadOnly, [NSUnderlyingErrorKey: posix(.EPERM)])).category, .readOnly)
    XCTAssertEqual(classify(cocoa(.fileWriteOutOfSpace, [NSUnderlyingErrorKey: posix(.EIO)])).category, .outOfSpace)
    let lost = cocoa(.fileReadNoSuchFile, [NSUnderlyingErrorKey: provider(.serverUnreachable)])
    XCTAssertEqual(classify(lost).category, .disconnected)
    let missing = classify(cocoa(.fileReadNoSuchFile, [NSUnderlyingErrorKey: posix(.ENOENT)]))
    XCTAssertEqual(missing.category, .notFound)
    XCTAssertEqual(missing.cause.symbol, "ENOENT", "of equals the innermost")
  }

  func testOfSeveralUnderlyingErrorsTheOneThatTellsMostDecides() {
    for array in [[posix(.ENOENT), posix(.ENODEV)], [posix(.ENODEV), posix(.ENOENT)]] {
      let result = classify(cocoa(.fileWriteUnknown, ["NSMultipleUnderlyingErrorsKey": array]))
      XCTAssertEqual(result.category, .disconnected)
      XCTAssertEqual(result.cause.symbol, "ENODEV")
    }
    let children = NSError(
      domain: FileProviderCode.domain, code: FileProviderCode.nonEvictableChildren.rawValue,
      userInfo: ["NSMultipleUnderlyingErrorsKey": [provider(.nonEvictable), provider(.unsyncedEdits)]])
    let result = classify(children)
    XCTAssertEqual(result.cause.symbol, "nonEvictable", "of equals the first")
    XCTAssertEqual(result.cause.path, ["NSMultipleUnderlyingErrorsKey[0]"])
  }

  /// What the predicate passes over: each row of its table, in an array.
  func testEveryErrorOfTheArticleIsFoundInAnArray() {
    let codes: [any Error] =
      [CocoaCode.fileNoSuchFile, .fileWriteNoPermission, .fileWriteOutOfSpace, .fileWriteVolumeReadOnly].map {
        cocoa($0)
      }
      + [ErrnoSymbol.ENODEV, .EIO, .ENOENT, .ENXIO, .ESTALE].map { posix($0) }
      + FileProviderCode.allCases.map { provider($0) }
    for error in codes {
      let plain = classify(error)
      let several = NSError(
        domain: "Mine", code: 7,
        userInfo: ["NSMultipleUnderlyingErrorsKey": [NSError(domain: "Other", code: 1), error]])
      XCTAssertNotEqual(plain.category, .unknown, "\(error)")
      XCTAssertEqual(classify(several).category, plain.category, "\(error)")
      XCTAssertEqual(classify(several).cause.path, ["NSMultipleUnderlyingErrorsKey[1]"])
    }
  }

  func testNothingKnownIsUnknownAndSaysWhatWasThere() {
    let result = classify(NSError(domain: "Mine", code: 42, userInfo: [NSFilePathErrorKey: "/a/b"]))
    XCTAssertEqual(result.category, .unknown)
    XCTAssertEqual(result.retry, .never)
    XCTAssertEqual(
      result.cause, .init(domain: "Mine", code: 42, symbol: nil, platform: .current, path: [], file: "/a/b"))
    XCTAssertEqual(classify(NSError(domain: NSPOSIXErrorDomain, code: 4711)).category, .unknown)
    XCTAssertEqual(classify(NSError(domain: NSPOSIXErrorDomain, code: Int.max)).category, .unknown)
    XCTAssertEqual(classify(NSError(domain: NSPOSIXErrorDomain, code: 0)).category, .unknown)
    XCTAssertEqual(classify(NSError(domain: FileProviderCode.domain, code: 1)).category, .providerUnavailable)
  }

  func testTheNearestFileIsNamed() {
    let inner = posix(.ESTALE)
    let outer = cocoa(
      .fileWriteUnknown, [NSUnderlyingErrorKey: inner, NSURLErrorKey: URL(fileURLWithPath: "/Volumes/USB/a b.txt")])
    XCTAssertEqual(classify(outer).cause.file, "/Volumes/USB/a b.txt")
    let own = posix(.ESTALE, [NSFilePathErrorKey: "/mnt/x"])
    XCTAssertEqual(
      classify(cocoa(.fileWriteUnknown, [NSUnderlyingErrorKey: own, NSFilePathErrorKey: "/y"])).cause.file, "/mnt/x")
    XCTAssertEqual(
      classify(
        NSError(
          domain: "NSURLErrorDomain", code: -1009,
          userInfo: [
            "NSErrorFailingURLKey": URL(string: "https://example.org/a") as Any
          ])
      ).cause.file, "https://example.org/a")
  }

  // MARK: Bounds

  func testCirclesEnd() {
    let a = Circle()
    let b = Circle()
    a.next = cocoa(.fileWriteUnknown, [NSUnderlyingErrorKey: b])
    b.next = posix(.ESTALE, [NSUnderlyingErrorKey: a])
    XCTAssertEqual(classify(a).category, .staleHandle)
    XCTAssertEqual(classify(a).cause.depth, 3, "its first place, not one of a later round")
    XCTAssertEqual(classify(Circle()).category, .unknown)
    XCTAssertFalse(SerializedError(a).underlying.isEmpty)
  }

  /// Two branches at every step would be 2^256 errors.
  func testManyBranchesEnd() {
    let result = classify(Branching())
    XCTAssertEqual(result.category, .unknown)
    XCTAssertFalse(SerializedError(Branching()).underlying.isEmpty)
  }

  // MARK: Types

  func testErrnoTypesOfOthers() {
    struct Errno: Error, RawRepresentable { var rawValue: CInt }
    struct IOError: Error { var errnoCode: Int32; var reason = "read" }
    enum Wrapped: Error { case failed(path: String, any Error), plain(any Error), empty }
    struct HTTPStatus: Error, RawRepresentable { var rawValue: Int32 }
    XCTAssertEqual(classify(Errno(rawValue: EHOSTDOWN)).cause.symbol, "EHOSTDOWN")
    XCTAssertEqual(classify(IOError(errnoCode: ENOTCONN)).cause.symbol, "ENOTCONN")
    XCTAssertEqual(classify(StorageErrors.Errno.EDQUOT).category, .outOfSpace)
    XCTAssertEqual(classify(Wrapped.plain(POSIXError(.ENODEV))).cause.path, ["plain"])
    let deep = Wrapped.failed(
      path: "/x", Wrapped.plain(CocoaError(.fileWriteUnknown, userInfo: [NSUnderlyingErrorKey: POSIXError(.EROFS)])))
    XCTAssertEqual(classify(deep).category, .readOnly)
    XCTAssertEqual(classify(deep).cause.depth, 3)
    XCTAssertEqual(classify(Wrapped.empty).category, .unknown)
    XCTAssertEqual(classify(HTTPStatus(rawValue: 5)).category, .unknown, "a number that is no errno is none")
    XCTAssertEqual(classify(CancellationError()).category, .cancelled)
  }

  func testErrorsThatHoldSeveral() {
    let result = classify(Several(failures: [CancellationError(), CocoaError(.fileNoSuchFile), POSIXError(.ESTALE)]))
    XCTAssertEqual(result.cause.symbol, "CancellationError", "of equals the first")
    XCTAssertEqual(
      classify(Several(failures: [CocoaError(.fileNoSuchFile), POSIXError(.ESTALE)])).cause.path, ["failures[1]"])
    XCTAssertEqual(classify(Several(failures: [])).category, .unknown)
    let ring = Ring()
    ring.next = Several(failures: [ring, ring, POSIXError(.ENODEV)])
    XCTAssertEqual(classify(ring).category, .disconnected)
    XCTAssertEqual(classify(ring).cause.path, ["next", "failures[2]"])
    ring.next = nil
  }

  func testFoundationsTypes() {
    XCTAssertEqual(classify(CocoaError(.fileWriteOutOfSpace)).category, .outOfSpace)
    XCTAssertEqual(classify(POSIXError(.EDEADLK)).category, .notMaterialized)
    XCTAssertEqual(classify(CocoaError(.userCancelled)).category, .cancelled)
    do {
      try FileManager.default.copyItem(atPath: "/nowhere/at/all", toPath: "/nowhere/else")
      XCTFail("there is no such file")
    } catch {
      XCTAssertEqual(classify(error).category, .notFound)
      XCTAssertEqual(classify(error).cause.file, "/nowhere/at/all")
    }
  }

  // MARK: The table

  func testEveryCodeHasSentencesAndAdvice() {
    let every: [any Error] =
      CocoaCode.allCases.map { cocoa($0) } + FileProviderCode.allCases.map { provider($0) }
      + URLCode.allCases.map { NSError(domain: URLCode.domain, code: $0.rawValue) }
      + Platform.allCases.flatMap { platform in
        ErrnoSymbol.allCases.compactMap { symbol in
          symbol.number(on: platform).map {
            SerializedError(domain: NSPOSIXErrorDomain, code: Int($0), platform: platform)
          }
        }
      }
    for error in every {
      let result = classify(error)
      XCTAssertNotNil(result.cause.symbol, "\(error)")
      XCTAssert(result.sentence(.english).hasSuffix("."), "\(error): \(result.sentence(.english))")
      XCTAssert(result.sentence(.japanese).hasSuffix("。"), "\(error): \(result.sentence(.japanese))")
    }
    for category in Classification.Category.allCases {
      XCTAssert(every.contains { classify($0).category == category }, "nothing is ever \(category)")
    }
    for retry in Classification.Retry.allCases {
      XCTAssert(every.contains { classify($0).retry == retry }, "nothing ever says \(retry)")
    }
  }

  func testTheAdviceThatTheSourcesGive() {
    func advice(_ symbol: ErrnoSymbol) -> Classification.Retry { classify(posix(symbol)).retry }
    XCTAssertEqual(advice(.ESTALE), .reopenThenRetry)
    XCTAssertEqual(advice(.ENODEV), .afterReconnect)
    XCTAssertEqual(advice(.ENXIO), .afterReconnect)
    XCTAssertEqual(advice(.EIO), .reopenThenRetry, "an fsync that is called again would report a loss as success")
    XCTAssertEqual(advice(.ENOSPC), .afterFreeingSpace)
    XCTAssertEqual(advice(.EBUSY), .withBackoff)
    XCTAssertEqual(advice(.EROFS), .never)
    XCTAssertEqual(classify(provider(.insufficientQuota)).retry, .afterFreeingSpace)
    XCTAssertEqual(classify(provider(.notAuthenticated)).retry, .afterUserAction)
  }

  func testSentencesNameTheFile() {
    let error = cocoa(.fileWriteUnknown, [NSUnderlyingErrorKey: posix(.ESTALE), NSFilePathErrorKey: "/mnt/報告.pdf"])
    XCTAssertEqual(
      classify(error).sentence(.english),
      "“報告.pdf”: The file has been replaced, or the storage was reconnected. "
        + "Open it again and repeat from the beginning.")
    XCTAssertEqual(
      classify(error).sentence(.japanese), "「報告.pdf」: ファイルが置き換えられたか、保存先が再接続されました。開き直して、最初からやり直してください。")
  }

  private func withPlace(_ result: Classification, of other: Classification) -> Classification {
    var result = result
    result.cause.path = other.cause.path
    return result
  }
}

/// Twice itself below it.
private final class Branching: NSError, @unchecked Sendable {  // it holds nothing
  init() { super.init(domain: "Branching", code: 1, userInfo: [:]) }
  required init?(coder: NSCoder) { nil }
  override var userInfo: [String: Any] { ["NSMultipleUnderlyingErrorsKey": [self, self], NSUnderlyingErrorKey: self] }
}

private struct Several: Error { var failures: [any Error] }

/// A type of Swift's own that may lie below itself.
private final class Ring: Error, @unchecked Sendable {  // set up before it is looked at
  var next: (any Error)?
}
