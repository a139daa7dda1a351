import Foundation
import StorageErrors
import TestSupport
import XCTest

final class SerializedErrorTests: XCTestCase {
  private func again(_ error: SerializedError) throws -> SerializedError {
    try JSONDecoder().decode(SerializedError.self, from: JSONEncoder().encode(error))
  }
  private func read(_ json: String) throws -> SerializedError {
    try JSONDecoder().decode(SerializedError.self, from: Data(json.utf8))
  }

  func testRandomTreesGoThroughJSON() throws {
    var errors = RandomErrors(SeededRandom.setting("DOCSFS_SEED", 2))
    for number in 0..<1000 {
      let error = errors.tree(depth: number % 7)
      let written = SerializedError(error)
      XCTAssertEqual(try again(written), written, "tree \(number)")
      XCTAssertEqual(classify(written).category, classify(error).category, "tree \(number): \(error)")
      XCTAssertEqual(classify(written).cause.symbol, classify(error).cause.symbol, "tree \(number)")
      XCTAssertEqual(classify(written.nsError).category, classify(error).category, "tree \(number)")
    }
  }

  func testNumbersOfAnotherSystemMeanWhatTheyMeanThere() throws {
    let numbers: [(darwin: Int, linux: Int, symbol: String)] = [
      (70, 116, "ESTALE"), (11, 35, "EDEADLK"), (35, 11, "EAGAIN"), (60, 110, "ETIMEDOUT"), (57, 107, "ENOTCONN"),
      (64, 112, "EHOSTDOWN"), (69, 122, "EDQUOT"), (66, 39, "ENOTEMPTY"), (63, 36, "ENAMETOOLONG"), (5, 5, "EIO"),
    ]
    for (darwin, linux, symbol) in numbers {
      for (platform, code) in [(Platform.darwin, darwin), (.linux, linux)] {
        let error = SerializedError(domain: NSPOSIXErrorDomain, code: code, platform: platform)
        XCTAssertEqual(classify(error).cause.symbol, symbol)
        XCTAssertEqual(classify(error).cause.code, code)
        XCTAssertEqual(error.nsError.code, Int(Errno(name: symbol)?.rawValue ?? 0))
        let bare = NSError(domain: NSPOSIXErrorDomain, code: code)
        XCTAssertEqual(classify(bare, platform: platform).cause.symbol, symbol)
      }
    }
    let onlyThere = SerializedError(domain: NSPOSIXErrorDomain, code: 72, platform: .darwin)
    XCTAssertEqual(classify(onlyThere).cause.symbol, "EBADRPC")
    if Platform.current == .linux {
      XCTAssertEqual(onlyThere.nsError.domain, "NSPOSIXErrorDomain.darwin", "72 is another errno here")
    }
  }

  func testAChainThatAnAppOnAPhoneWroteDown() throws {
    let error = try read(
      """
      {"domain": "NSCocoaErrorDomain", "code": 512, "platform": "darwin",
       "userInfo": {"NSFilePath": "/private/var/a.txt", "NSUserStringVariant": ["Copy"], "count": 3},
       "underlying": [{"domain": "NSPOSIXErrorDomain", "code": 70}]}
      """)
    XCTAssertEqual(error.underlying.first?.platform, .darwin, "as that above it")
    XCTAssertEqual(error.userInfo, ["NSFilePath": "/private/var/a.txt"])
    let result = classify(error)
    XCTAssertEqual(result.category, .staleHandle)
    XCTAssertEqual(result.cause.path, [NSUnderlyingErrorKey])
    XCTAssertEqual(result.cause.file, "/private/var/a.txt")
    XCTAssertTrue(isExternalStorageWriteError(error))
  }

  func testWhatIsWrittenDownNeedsItsPlatform() {
    XCTAssertThrowsError(try read(#"{"domain": "NSPOSIXErrorDomain", "code": 70}"#)) { error in
      guard case DecodingError.keyNotFound(let key, _) = error else { return XCTFail("\(error)") }
      XCTAssertEqual(key.stringValue, "platform")
    }
    for json in [
      "", "[]", "{}", #"{"domain": 1, "code": 1, "platform": "linux"}"#,
      #"{"domain": "x", "code": "5", "platform": "linux"}"#, #"{"domain": "x", "code": 5, "platform": "windows"}"#,
      #"{"domain": "x", "code": 99999999999999999999, "platform": "linux"}"#,
    ] {
      XCTAssertThrowsError(try read(json), json)
    }
  }
}
