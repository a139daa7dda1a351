import Foundation
import StorageErrors
import Ubiquity
import XCTest

/// `NSFileProviderError` as code for Apple's systems uses it.
final class FileProviderErrorTests: XCTestCase {
  private func attempt(_ error: any Error) -> String {
    do { throw error } catch NSFileProviderError.serverUnreachable {
      return "unreachable"
    } catch let error as NSFileProviderError where error.code == .noSuchItem {
      return "no such item"
    } catch { return "another" }
  }

  func testCatching() {
    XCTAssertEqual(attempt(NSFileProviderError(.serverUnreachable)), "unreachable")
    XCTAssertEqual(attempt(NSError(domain: NSFileProviderErrorDomain, code: -1004)), "unreachable")
    XCTAssertEqual(attempt(NSFileProviderError(.noSuchItem)), "no such item")
    XCTAssertEqual(attempt(NSError(domain: NSCocoaErrorDomain, code: -1004)), "another")
    XCTAssertEqual(attempt(NSFileProviderError(.notAuthenticated)), "another")
  }

  func testItIsTheNSErrorOfItsDomain() {
    let error = NSFileProviderError(.insufficientQuota, userInfo: [NSUnderlyingErrorKey: POSIXError(.EDQUOT)])
    let bridged = error as NSError
    XCTAssertEqual(bridged.domain, "NSFileProviderErrorDomain")
    XCTAssertEqual(bridged.code, -1003)
    XCTAssertEqual((bridged.userInfo[NSUnderlyingErrorKey] as? POSIXError)?.code, .EDQUOT)
    XCTAssertTrue(isExternalStorageWriteError(error))
    XCTAssertEqual(classify(error).category, .outOfSpace)
    XCTAssertEqual(NSFileProviderError.Code.pageExpired, .syncAnchorExpired)
  }
}
