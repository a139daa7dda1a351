import Foundation
import TestSupport
import XCTest

@testable import Containers

/// What servers say that a file's bytes add up to.
final class DAVChecksumTests: XCTestCase {
  private let bytes = Array("hello".utf8)
  private let sha256 = "LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="
  private let md5 = "XUFAKrxLKna5cZ2REBfFkg=="

  private func told(_ status: Int, _ headers: [String: String]) -> ContentDigest? {
    var response = HTTPResponse()
    (response.status, response.headers) = (status, headers)
    return ContentDigest(of: response)
  }

  func testTheBestOfWhatIsSaidIsTaken() {
    let best = ContentDigest(.sha256, Digest.of(bytes))
    XCTAssertEqual(told(206, ["repr-digest": "md5=:\(md5):, sha-256=:\(sha256):"]), best)
    XCTAssertEqual(told(206, ["digest": "MD5=\(md5),SHA-256=\(sha256)"]), best)
    XCTAssertEqual(told(200, ["content-digest": "sha-256=:\(sha256):", "content-md5": md5]), best)
    let weaker = ContentDigest(.md5, Digest.of(bytes, .md5))
    XCTAssertEqual(told(200, ["content-md5": md5]), weaker)
    XCTAssertEqual(told(206, ["digest": "md5=\(md5), unixsum=30637"]), weaker)
    let sha1 = ContentDigest(.sha1, Digest.of(bytes, .sha1))
    let text = "SHA1:" + hex(sha1.bytes)
    XCTAssertEqual(told(206, ["oc-checksum": text]), sha1)
    XCTAssertEqual(ContentDigest(ownCloud: "MD5:\(hex(weaker.bytes)) ADLER32:062c0215 \(text)"), sha1)
    XCTAssertEqual(told(200, ["repr-digest": "sha-512=:\(base64(Digest.of(bytes, .sha512))):"])?.algorithm, .sha512)
  }

  private func base64(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

  /// A digest of a part is none of the whole; what is damaged is none at all.
  func testWhatIsNoDigestOfTheWholeFileIsNotTakenForOne() {
    XCTAssertNil(told(206, ["content-digest": "sha-256=:\(sha256):", "content-md5": md5]))
    for text in ["", "sha-256", "sha-256=", "sha-256=:\(md5):", "sha-256=:****:", "crc32c=:AAAAAA==:", "=,=,:"] {
      XCTAssertNil(told(200, ["repr-digest": text]), text)
    }
    for text in ["", "MD5", "MD5:", "MD5:xyz", "MD5:5d41402abc4b2a76b9719d911017c59", "NONE:00", ":"] {
      XCTAssertNil(ContentDigest(ownCloud: text), text)
    }
  }

  /// Two files of one ETag, as servers have them whose ETag is time and size.
  func testAServerThatSaysTwoThingsOfOneVersionIsNotBelieved() throws {
    let dav = WebDAVContainer(DAVAddress(server: "http://127.0.0.1:1", names: []), credentials: nil)
    let version = Version(Array("etag".utf8))
    let (one, two) = (ContentDigest(.md5, Digest.of([1], .md5)), ContentDigest(.md5, Digest.of([2], .md5)))
    dav.learn(one, of: version)
    XCTAssertEqual(dav.checksum(of: version), one)
    dav.learn(one, of: version)
    XCTAssertEqual(dav.checksum(of: version), one)
    dav.learn(two, of: version)
    XCTAssertNil(dav.checksum(of: version))
    dav.learn(two, of: version)
    XCTAssertNil(dav.checksum(of: version))
  }

  func testAServerWithoutChecksumsIsSaidToHaveNone() throws {
    let container = try DAVPlace(.webdav).open()
    let item = try container.put(path("a"), "hello")
    XCTAssertNil(container.traits.weakness, "nothing is known yet")
    XCTAssertEqual(try container.contents(path("a"), item), bytes)
    XCTAssertEqual(container.traits.weakness, WebDAVContainer.noChecksums)
  }
}
