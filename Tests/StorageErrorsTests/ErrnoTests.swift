import Foundation
import StorageErrors
import XCTest

final class ErrnoTests: XCTestCase {
  func testSymbolsAndNumbersAreThoseOfThisSystem() {
    XCTAssertEqual(Errno.ENOSPC.rawValue, ENOSPC)
    XCTAssertEqual(Errno.ESTALE.rawValue, ESTALE)
    XCTAssertEqual(Errno(name: "EDEADLK"), .EDEADLK)
    XCTAssertEqual(Errno(name: "EHOSTDOWN")?.rawValue, EHOSTDOWN)
  }

  func testNamesAreReadBackAsTheSameNumber() {
    for number in Int32(1)...133 {
      let errno = Errno(rawValue: number)
      guard let again = Errno(name: errno.name) else {
        XCTAssertEqual(errno.name, "errno \(number)")
        continue
      }
      XCTAssertEqual(again, errno)
    }
  }

  func testWhatIsNoSymbolIsNone() {
    for name in ["", "enospc", "ENOSPC ", "EWHATEVER", "28"] { XCTAssertNil(Errno(name: name), name) }
  }

  func testSentences() {
    XCTAssertEqual(Errno.ENOSPC.message, "No space left on device")
    XCTAssertEqual("\(Errno.ENOSPC)", "No space left on device (ENOSPC)")
    XCTAssertEqual(Errno(rawValue: 4711).name, "errno 4711")
    XCTAssertFalse(Errno(rawValue: 4711).message.isEmpty)
    XCTAssertFalse(Errno(rawValue: -1).message.isEmpty)
  }

  func testCurrentIsTheCallingThreadsErrno() {
    XCTAssertEqual(open("/nowhere/at/all", O_RDONLY), -1)
    XCTAssertEqual(Errno.current, .ENOENT)
  }

  func testEveryErrnoThatIsAnsweredHasItsName() {
    let answered: [Errno] = [
      .EPERM, .ENOENT, .EINTR, .EIO, .ENXIO, .EBADF, .EAGAIN, .EACCES, .EBUSY, .EEXIST, .EXDEV, .ENODEV,
      .ENOTDIR,
      .EISDIR, .EINVAL, .EFBIG, .ENOSPC, .EROFS, .ERANGE, .EDEADLK, .ENAMETOOLONG, .ENOTEMPTY, .ENODATA,
      .EOPNOTSUPP,
      .ETIMEDOUT, .ESTALE, .ELOOP, .ENOMEM, .E2BIG, .ECANCELED, .EDQUOT, .ENOTCONN,
    ]
    for errno in answered {
      XCTAssert(errno.name.hasPrefix("E"), errno.name)
      // The kernel drops a reply with a larger one, and its caller hangs.
      XCTAssert((1...511).contains(errno.rawValue))
    }
    XCTAssertEqual(Set(answered).count, answered.count)
  }
}

final class ErrnoSymbolTests: XCTestCase {
  /// The compiler's own headers are what the table has to agree with.
  func testTheTableIsThatOfThisSystemsHeaders() throws {
    let folder = "/usr/include/asm-generic/"
    let files = ["errno-base.h", "errno.h"]
    try XCTSkipUnless(files.allSatisfy { FileManager.default.fileExists(atPath: folder + $0) }, "no Linux headers")
    var found = 0
    for file in files {
      for line in try String(contentsOfFile: folder + file, encoding: .utf8).split(separator: "\n") {
        let words = line.split(whereSeparator: \.isWhitespace)
        guard words.count > 2, words[0] == "#define", words[1].hasPrefix("E") else { continue }
        let symbol = try XCTUnwrap(ErrnoSymbol(name: String(words[1])), String(line))
        if let number = Int32(words[2]) {
          XCTAssertEqual(symbol.number(on: .linux), number, String(line))
          XCTAssertEqual(ErrnoSymbol(number, on: .linux), symbol)
        } else {
          XCTAssertEqual(symbol, ErrnoSymbol(name: String(words[2])), "a second name: \(line)")
        }
        found += 1
      }
    }
    XCTAssertEqual(found, ErrnoSymbol.allCases.filter { $0.number(on: .linux) != nil }.count - 1 + 2, "all but ENOTSUP")
  }

  /// What POSIX and both systems' Foundation agree on, as Foundation of this system has it.
  func testTheTableIsThatOfFoundation() {
    for number in Int32(1)...133 where number != 41 && number != 58 {
      guard POSIXErrorCode(rawValue: number) != nil else { continue }
      XCTAssertNotNil(ErrnoSymbol(number, on: .current), "\(number)")
    }
    let some: [(ErrnoSymbol, POSIXErrorCode)] = [
      (.EPERM, .EPERM), (.EDEADLK, .EDEADLK), (.EAGAIN, .EAGAIN), (.ESTALE, .ESTALE), (.ETIMEDOUT, .ETIMEDOUT),
      (.EDQUOT, .EDQUOT), (.ENOTEMPTY, .ENOTEMPTY), (.ENAMETOOLONG, .ENAMETOOLONG), (.ELOOP, .ELOOP),
      (.EOPNOTSUPP, .EOPNOTSUPP), (.ENOTCONN, .ENOTCONN), (.EHOSTDOWN, .EHOSTDOWN), (.ECANCELED, .ECANCELED),
    ]
    for (symbol, code) in some { XCTAssertEqual(symbol.number(on: .current), code.rawValue) }
  }

  func testNoNumberStandsTwice() {
    for platform in Platform.allCases {
      let symbols = ErrnoSymbol.allCases.filter { $0.number(on: platform) != nil && $0 != .ENOTSUP }
      XCTAssertEqual(Set(symbols.map { $0.number(on: platform) }).count, symbols.count)
      for symbol in symbols {
        XCTAssertEqual(symbol.number(on: platform).flatMap { ErrnoSymbol($0, on: platform) }, symbol)
      }
    }
    XCTAssertEqual(ErrnoSymbol(45, on: .darwin), .ENOTSUP)
    XCTAssertEqual(ErrnoSymbol.ENOTSUP.number(on: .linux), 95)
    XCTAssertEqual(Errno(name: "EWOULDBLOCK"), .EAGAIN)
  }
}
