import TestSupport
import XCTest

@testable import Containers

/// What S3 is told and tells, without a store.
final class S3FormatTests: XCTestCase {
  /// The example of Amazon's documentation, "Signature Calculations for the Authorization Header: GET Object".
  func testTheSignatureIsAmazons() {
    let signer = S3Signer(
      credentials: S3Credentials(
        accessKey: "AKIAIOSFODNN7EXAMPLE", secretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
      region: "us-east-1", time: 1_369_353_600)
    let headers = signer.sign(
      method: "GET", host: "examplebucket.s3.amazonaws.com", path: "/test.txt", query: "",
      headers: [("range", "bytes=0-9")], payload: S3Signer.emptyPayload)
    let authorization = headers.first { $0.name == "Authorization" }?.value
    XCTAssertEqual(
      authorization?.components(separatedBy: "Signature=").last,
      "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")
    XCTAssertEqual(headers.first { $0.name == "x-amz-date" }?.value, "20130524T000000Z")
  }

  /// "GET Bucket (List Objects)" of the same page: a query is signed in order.
  func testTheSignatureOfAQueryIsAmazons() {
    let signer = S3Signer(
      credentials: S3Credentials(
        accessKey: "AKIAIOSFODNN7EXAMPLE", secretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
      region: "us-east-1", time: 1_369_353_600)
    let headers = signer.sign(
      method: "GET", host: "examplebucket.s3.amazonaws.com", path: "/", query: "max-keys=2&prefix=J", headers: [],
      payload: S3Signer.emptyPayload)
    XCTAssert(
      headers.contains {
        $0.value.hasSuffix("Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")
      })
  }

  func testTimesAreWrittenAsRcloneWritesThem() {
    for (nanoseconds, text) in [
      (0, "0"), (1, "0.000000001"), (10_000_000_000, "10"), (1_234_567_890_500_000_000, "1234567890.5"),
      (-5, "-0.000000005"),
    ] as [(Int64, String)] {
      XCTAssertEqual(S3Metadata.text(Timestamp(nanoseconds: nanoseconds)), text)
      XCTAssertEqual(S3Metadata.mtime(text)?.nanoseconds, nanoseconds)
    }
    XCTAssertEqual(S3Metadata.mtime("1.12345678999")?.nanoseconds, 1_123_456_789)
    for text in ["", "-", ".", "x", "1.x", "1.2.3", "99999999999", "1e9", "+1"] {
      XCTAssertNil(S3Metadata.mtime(text), text)
    }
  }

  func testDates() {
    XCTAssertEqual(seconds(ofHTTPDate: "Thu, 01 Jan 1970 00:00:01 GMT"), 1)
    XCTAssertEqual(seconds(ofISODate: "2013-05-24T00:00:00.000Z"), 1_369_353_600)
    for text in ["", "now", "Thu, 01 Foo 1970 00:00:01 GMT", "2013-05"] {
      XCTAssertNil(seconds(ofHTTPDate: text))
      XCTAssertNil(seconds(ofISODate: text))
    }
  }

  private func page(_ inner: String) throws -> S3Page {
    try S3Page(Array("<?xml version=\"1.0\"?><ListBucketResult>\(inner)</ListBucketResult>".utf8), "list")
  }

  func testAPageOfAListing() throws {
    let page = try page(
      """
      <Prefix>a/</Prefix><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>
      <NextContinuationToken>more</NextContinuationToken>
      <Contents><Key>a/b+c%2Bd%FF</Key><Size>5</Size><ETag>&quot;e&quot;</ETag>
      <LastModified>2013-05-24T00:00:00.123Z</LastModified><Owner><ID>Key</ID></Owner></Contents>
      <CommonPrefixes><Prefix>a/d/</Prefix></CommonPrefixes>
      """)
    XCTAssertEqual(
      page.objects,
      [S3Page.Object(key: Array("a/b c+d".utf8) + [0xff], size: 5, etag: "e", changed: 1_369_353_600)])
    XCTAssertEqual(page.prefixes, [Array("a/d/".utf8)])
    XCTAssertEqual(page.next, "more")
  }

  func testWhatIsNoWholeListingIsAnError() {
    let whole = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
    XCTAssertNoThrow(try S3Page(Array(whole.utf8), "list"))
    for end in 1..<whole.utf8.count {
      assertCode(.inconsistent) { _ = try S3Page(Array(whole.utf8.prefix(end)), "list") }
    }
    for text in [
      "<html></html>", "", "<ListBucketResult></ListBucketResult>",
      "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
      "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated><Contents><Key>%x</Key></Contents></ListBucketResult>",
    ] {
      assertCode(.inconsistent) { _ = try S3Page(Array(text.utf8), "list") }
    }
  }

  func testXMLThatWouldHurtIsRefused() {
    let laughs =
      "<!DOCTYPE l [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]><l>&b;</l>"
    let outside = "<!DOCTYPE l SYSTEM \"file:///etc/passwd\"><l/>"
    let deep = String(repeating: "<a>", count: 100) + String(repeating: "</a>", count: 100)
    let long = "<a>" + String(repeating: "x", count: 100_000) + "</a>"
    for text in [laughs, outside, deep, long, "<a>&undefined;</a>", "<a></b>", "<a/><b/>"] {
      assertCode(.inconsistent) { _ = try XMLReader.read(Array(text.utf8), "read") }
    }
    assertCode(.inconsistent) { _ = try XMLReader.read([0x3c, 0x61, 0x3e, 0xff, 0xfe], "read") }
  }

  func testXMLComesInAnyPieces() throws {
    let text = Array("<a xmlns=\"DAV:\"><b>one&amp;two</b>three<c/></a>".utf8)
    let whole = try XMLReader.read(text, "read")
    XCTAssertEqual(
      whole,
      [
        .start("DAV:|a"), .start("DAV:|b"), .end("DAV:|b", text: "one&two"), .start("DAV:|c"), .end("DAV:|c", text: ""),
        .end("DAV:|a", text: "three"),
      ])
    let reader = try XMLReader("read")
    var events: [XMLEvent] = []
    for byte in text { events += try withUnsafeBytes(of: byte) { try reader.feed($0) } }
    XCTAssertEqual(events + (try reader.finish()), whole)
  }

  func testCredentialsAreWhereAWSKeepsThem() throws {
    let folder = try TemporaryFolder()
    try folder.write(
      "credentials",
      """
      # a comment
      [default]
      aws_access_key_id = one
      aws_secret_access_key=two
      [work]
      aws_access_key_id=three
      aws_secret_access_key = fo=ur
      aws_session_token = five
      """)
    try folder.write(
      "config",
      "[default]\nregion = eu-1\n[profile work]\nregion=eu-2\nendpoint_url = http://work\ns3 =\n  region = no\n")
    var values = [
      "AWS_SHARED_CREDENTIALS_FILE": folder.path + "/credentials", "AWS_CONFIG_FILE": folder.path + "/config",
    ]
    func settings(_ profile: String? = nil) -> AWSSettings {
      let values = values
      return AWSSettings(profile: profile) { values[$0] }
    }
    XCTAssertEqual(
      settings().credentials,
      S3Credentials(accessKey: "one", secretKey: "two", origin: "the profile default in ~/.aws/credentials"))
    XCTAssertEqual(settings().region, "eu-1")
    let work = S3Credentials(
      accessKey: "three", secretKey: "fo=ur", token: "five", origin: "the profile work in ~/.aws/credentials")
    XCTAssertEqual(settings("work").credentials, work)
    XCTAssertEqual(settings("work").region, "eu-2")
    XCTAssertEqual(settings("work").endpoint, "http://work")
    values["AWS_PROFILE"] = "work"
    XCTAssertEqual(settings().credentials, work)
    values["AWS_ACCESS_KEY_ID"] = "six"
    values["AWS_SECRET_ACCESS_KEY"] = "seven"
    XCTAssertEqual(settings().credentials?.accessKey, "six")
    XCTAssertEqual(settings().credentials?.secretKey, "seven")
    XCTAssertEqual(settings().credentials?.origin, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    XCTAssertEqual(settings("work").credentials, work, "a profile that is named in the URL comes first")
    XCTAssertNil(settings("none").credentials)
  }

  func testPartsCoverTheFile() {
    for size in [1, 8 << 20, 8 << 20 + 1, 16 << 20 + 1, 10 << 30, 5 << 40] as [Int64] {
      let plan = PartPlan(size: size, least: 8 << 20, most: 9_000)
      XCTAssertLessThanOrEqual(plan.count, 9_000)
      var end: Int64 = 0
      for index in 0..<plan.count {
        XCTAssertEqual(plan.range(index).lowerBound, end)
        end = plan.range(index).upperBound
      }
      XCTAssertEqual(end, size)
    }
  }
}
