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
