import Foundation
import StorageErrors
import XCTest

@testable import docsfs

final class ErrorTextTests: XCTestCase {
  private func parse(_ text: String, _ platform: Platform = .linux) throws -> SerializedError {
    try ErrorText.parse(text, platform)
  }
  private func message(_ text: String, _ platform: Platform = .linux) -> String {
    do {
      return "\(try ErrorText.parse(text, platform))"
    } catch {
      XCTAssertEqual(error.exitCode, ExitCode.usage, text)
      return error.message
    }
  }

  func testSymbolsAndNumbersOfEachDomain() throws {
    let stale = SerializedError(domain: NSPOSIXErrorDomain, code: 116, platform: .linux)
    for text in ["ESTALE", "POSIX:ESTALE", "posix:116", "NSPOSIXErrorDomain:116", "NSPOSIXErrorDomain:ESTALE"] {
      XCTAssertEqual(try parse(text), stale, text)
    }
    XCTAssertEqual(try parse("ESTALE", .darwin).code, 70)
    XCTAssertEqual(try parse("Cocoa:fileWriteUnknown").code, 512)
    XCTAssertEqual(try parse("FileProvider:-1004"), try parse("NSFileProviderErrorDomain:serverUnreachable"))
    XCTAssertEqual(try parse("my.domain:a:-7"), SerializedError(domain: "my.domain:a", code: -7, platform: .linux))
  }

  func testWhatFollowsACommaLiesBelow() throws {
    let error = try parse("Cocoa:512,X:1,ENXIO")
    XCTAssertEqual(error.code, 512)
    XCTAssertEqual(error.underlying.first?.domain, "X")
    XCTAssertEqual(error.underlying.first?.underlying.first?.code, 6)
    XCTAssertEqual(classify(error).cause.depth, 2)
  }

  func testMistakesSayWhatToDo() {
    XCTAssertEqual(message("EIOO"), "classify: EIOO is no errno; did you mean EIO?")
    XCTAssertEqual(message("estale"), "classify: estale is no errno; did you mean ESTALE?")
    XCTAssertEqual(message("EBADRPC"), "classify: linux has no EBADRPC; see --platform")
    XCTAssert(message("5").contains("POSIX:5"), message("5"))
    XCTAssert(message("Cocoa:fileWriteUnknwon").contains("fileWriteUnknown?"))
    for text in ["", ",", "EIO,", ",EIO", ":5", "EIO,,EIO"] { XCTAssert(message(text).contains("missing"), text) }
  }

  func testArgumentsBeforeAndBehindTheDashes() throws {
    let spec = try Program.find("classify")
    func quoted(_ words: String...) throws -> Int? {
      guard case .run(let parsed) = try ArgumentParser.parse(spec, words.map { Array($0.utf8) }) else { return nil }
      XCTAssertFalse(parsed.has("help"))
      return parsed.quotedFrom
    }
    XCTAssertNil(try quoted("EIO", "--json"))
    XCTAssertEqual(try quoted("--json", "--", "ls", "-l"), 0)
    XCTAssertEqual(try quoted("EIO", "--", "ls", "--help"), 1)
  }
}

final class ErrnoFinderTests: XCTestCase {
  private func symbols(_ text: String, _ finder: ErrnoFinder = ErrnoFinder(locales: [])) -> [String] {
    finder.find(in: text).map(\.symbol.rawValue)
  }

  func testEverySentenceOfTheSystem() {
    for number in Int32(1)...133 {
      guard let symbol = Errno(rawValue: number).symbol else { continue }
      let line = "cp: error writing 'a b': \(Errno(rawValue: number).message)"
      XCTAssertEqual(symbols(line), [symbol.rawValue], line)
      XCTAssertEqual(symbols(line.lowercased()), [symbol.rawValue], line)
    }
  }

  func testTheFormsOfLanguages() {
    XCTAssertEqual(symbols("OSError: [Errno 28] No space left on device: 'x'"), ["ENOSPC"])
    XCTAssertEqual(symbols("PermissionError: [Errno 13]"), ["EACCES"])
    XCTAssertEqual(symbols("Error: Os { code: 5 } (os error 5)"), ["EIO"])
    XCTAssertEqual(symbols("ESTALE: something, read"), ["ESTALE"])
    XCTAssertEqual(symbols("write failed, errno=122"), ["EDQUOT"])
    XCTAssertEqual(symbols("a: No such device or address"), ["ENXIO"])
  }

  func testWhatIsNoErrorIsNone() {
    for line in ["", "copied 5 files", "ERROR: EVERYTHING is lost", "EIOX", "errno 4711", "SEIO"] {
      XCTAssertEqual(symbols(line), [], line)
    }
  }

  func testSeveralInTheirOrderEachOnce() {
    let text = "b: Read-only file system\na: Stale file handle, then Input/output error\nc: Read-only file system\n"
    let found = ErrnoFinder(locales: []).find(in: text)
    XCTAssertEqual(found.map(\.symbol), [.EROFS, .ESTALE, .EIO])
    XCTAssertEqual(found.map(\.line)[1], "a: Stale file handle, then Input/output error")
  }

  /// With the system's own translations, made usable for this test.
  func testJapaneseSentences() throws {
    let folder = NSTemporaryDirectory() + "docsfs-locale-\(getpid())"
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/localedef")
    process.arguments = ["--no-archive", "-i", "ja_JP", "-f", "UTF-8", folder + "/ja_JP.UTF-8"]
    process.standardError = FileHandle.nullDevice
    guard (try? process.run()) != nil else { throw XCTSkip("needs localedef") }
    process.waitUntilExit()
    setenv("LOCPATH", folder, 1)
    defer { unsetenv("LOCPATH") }
    guard let locale = newlocale((1 << LC_MESSAGES) | (1 << LC_CTYPE), "ja_JP.UTF-8", nil) else {
      throw XCTSkip("needs the sources of ja_JP")
    }
    defer { freelocale(locale) }
    let text = try XCTUnwrap(strerror_l(ENOSPC, locale).map { String(cString: $0) })
    try XCTSkipIf(text.allSatisfy(\.isASCII), "needs the C library's translations")
    let finder = ErrnoFinder(locales: ["ja_JP.UTF-8"])
    for number in [ENOSPC, EIO, ESTALE, ENOENT, EROFS, ENXIO, ENODEV, EACCES, EDQUOT, ETIMEDOUT] {
      let line = try "cp: '報告' の書き込みエラー: " + String(cString: XCTUnwrap(strerror_l(number, locale)))
      XCTAssertEqual(symbols(line, finder), [Errno(rawValue: number).name], line)
    }
  }
}
