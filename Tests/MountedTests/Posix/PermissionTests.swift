import CLinux
import StorageErrors
import TestSupport
import XCTest

/// What another user may not do. Root runs these, and acts as users 4001 and 4002.
final class PermissionTests: PosixTestCase {
  private let alice: uid_t = 4001
  private let bob: uid_t = 4002

  override func setUpWithError() throws {
    try skipUnlessRoot()
    try super.setUpWithError()
    try Sys.setMode(folder, 0o755)
  }

  func testModesDecide() throws {
    try Sys.put(path("secret"), "s")
    try Sys.setMode(path("secret"), 0o600)
    try Sys.put(path("shown"), "p")
    try Sys.setMode(path("shown"), 0o644)
    try expect("cat shown", as: alice, "p")
    try refuse("cat secret", as: alice)
    try refuse("echo x >>shown", as: alice)
    try refuse("touch new", as: alice)
    try refuse("rm shown", as: alice)
    try refuse("chmod 777 secret", as: alice)
    try refuse("chown \(alice) shown", as: alice)
    try refuse("touch -d 2001-01-01 shown", as: alice)
  }

  func testOwnersMayWhatOthersMayNot() throws {
    try Sys.makeFolder(path("hers"))
    try Sys.setOwner(path("hers"), user: alice, group: gid_t(alice))
    try Sys.setMode(path("hers"), 0o700)
    try expect("cd hers && echo mine >f && chmod 600 f && cat f && stat -c %u f", as: alice, "mine\n\(alice)")
    try refuse("ls hers", as: bob)
    try refuse("cat hers/f", as: bob)
    try Sys.setMode(path("hers"), 0o711)
    try refuse("ls hers", as: bob)
    try refuse("cat hers/f", as: bob)
    try Sys.setMode(path("hers/f"), 0o604)
    try expect("cat hers/f", as: bob, "mine")
    try refuse("chgrp 0 hers/f", as: alice)
  }

  func testGroupsDecide() throws {
    try Sys.put(path("f"), "g")
    try Sys.setOwner(path("f"), user: 0, group: gid_t(alice))
    try Sys.setMode(path("f"), 0o660)
    try expect("cat f && echo more >>f", as: alice, "g")
    try refuse("cat f", as: bob)
    try Sys.setMode(path("f"), 0o606)
    try refuse("cat f", as: alice)
  }

  func testAccessAnswersAsOpenDoes() throws {
    try Sys.put(path("f"), "x")
    try Sys.setMode(path("f"), 0o641)
    try expect(
      "test -r f || echo no r; test -w f || echo no w; test -x f && echo x", as: bob, "no r\nno w\nx")
    XCTAssertTrue(Sys.mayAccess(path("f"), R_OK | W_OK))
    try Sys.setMode(path("f"), 0o600)
    XCTAssertFalse(Sys.mayAccess(path("f"), X_OK), "not even root runs what nobody may")
  }

  func testProgramsRunFromHere() throws {
    try Sys.put(path("hello"), Array("#!/bin/sh\necho hello\n".utf8), mode: 0o755)
    try expect("./hello", as: alice, "hello")
    try Sys.setMode(path("hello"), 0o644)
    try refuse("./hello", as: alice)
  }

  func testTheStickyBit() throws {
    try Sys.makeFolder(path("tmp"))
    try Sys.setMode(path("tmp"), 0o1777)
    try expect("echo a >tmp/a", as: alice, "")
    try expect("echo b >tmp/b", as: bob, "")
    try refuse("rm -f tmp/a", as: bob)
    try refuse("mv tmp/a tmp/c", as: bob)
    try refuse("mv -f tmp/b tmp/a", as: bob)
    try expect("mv tmp/b tmp/c && rm tmp/c && ls tmp", as: bob, "a")
    try Sys.setMode(path("tmp"), 0o777)
    try expect("rm -f tmp/a && ls tmp | wc -l", as: bob, "0")
  }

  func testRemovingNeedsTheFolderOnly() throws {
    try Sys.makeFolder(path("d"))
    try Sys.setOwner(path("d"), user: alice, group: gid_t(alice))
    try Sys.put(path("d/f"), "root's")
    try Sys.setMode(path("d/f"), 0o400)
    try expect("rm -f d/f && ls d | wc -l", as: alice, "0")
  }

  func testMovingAFolderNeedsToWriteIt() throws {
    try Sys.setMode(folder, 0o777)
    try Sys.makeFolders(path("d/to"))
    try Sys.setMode(path("d/to"), 0o777)
    try Sys.makeFolder(path("roots"))
    try refuse("mv roots d/to/x", as: alice)
    XCTAssertTrue(Sys.exists(path("roots")))
  }

  // MARK: setuid and setgid

  func testAWriteByAnotherClearsSetuid() throws {
    try Sys.put(path("f"), "x")
    try Sys.setMode(path("f"), 0o6777)
    try expect("echo more >>f && stat -c %a f", as: alice, "777")
  }

  func testRootsWriteKeepsSetuid() throws {
    try Sys.put(path("f"), "x")
    try Sys.setMode(path("f"), 0o6777)
    try OpenFile(path("f"), O_WRONLY | O_APPEND).write("more")
    XCTAssertEqual(try Sys.info(path("f")).permissions, 0o6777)
  }

  func testATruncateByAnotherClearsSetuid() throws {
    for command in [": >f", "truncate -s 1 f"] {
      try Sys.put(path("f"), "xyz")
      try Sys.setMode(path("f"), 0o6777)
      try expect("\(command) && stat -c %a f", as: alice, "777")
    }
  }

  func testANewOwnerClearsSetuid() throws {
    try Sys.put(path("f"), "x")
    try Sys.setMode(path("f"), 0o6755)
    try Sys.setOwner(path("f"), user: alice, group: nil)
    XCTAssertEqual(try Sys.info(path("f")).permissions, 0o755)
    try Sys.makeFolder(path("d"))
    try Sys.setMode(path("d"), 0o2755)
    try Sys.setOwner(path("d"), user: alice, group: nil)
    XCTAssertEqual(try Sys.info(path("d")).permissions, 0o2755, "a folder keeps it")
  }

  func testSetgidOfAnotherGroupIsDroppedByChmod() throws {
    try Sys.put(path("f"), "x")
    try Sys.setOwner(path("f"), user: alice, group: 0)
    try expect("chmod 2755 f && stat -c %a f", as: alice, "755")
  }

  func testASetgidFolderGivesItsGroup() throws {
    try Sys.makeFolder(path("d"))
    try Sys.setOwner(path("d"), user: alice, group: 4242)
    try Sys.setMode(path("d"), 0o2777)
    try expect("touch d/f && mkdir d/s && stat -c '%g' d/f d/s", as: alice, "4242\n4242")
    XCTAssertEqual(try Sys.info(path("d/s")).permissions & 0o2000, 0o2000, "and folders in it give it on")
  }

  private func expect(
    _ script: String, as user: uid_t, _ output: String, file: StaticString = #filePath, line: UInt = #line
  ) throws {
    let outcome = shell(script, as: user)
    XCTAssertEqual(outcome.text, output, outcome.description, file: file, line: line)
  }

  private func refuse(
    _ script: String, as user: uid_t, file: StaticString = #filePath, line: UInt = #line
  ) throws {
    let outcome = shell(script, as: user)
    XCTAssertNotEqual(outcome.status, 0, "\(script) succeeded", file: file, line: line)
    let reasons = ["Permission denied", "Operation not permitted"]
    XCTAssertTrue(
      reasons.contains { outcome.errors.contains($0) }, outcome.description, file: file, line: line)
  }
}
