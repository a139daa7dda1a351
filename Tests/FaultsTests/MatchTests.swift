import XCTest

@testable import Faults

/// Each key of a rule that says which calls it means.
final class MatchTests: FaultsTestCase {
  /// A rule's keys, and calls that it does and does not match.
  private func check(
    _ keys: String, matches: [FaultCall], not others: [FaultCall], file: StaticString = #filePath, line: UInt = #line
  ) throws {
    for (calls, expected) in [(matches, true), (others, false)] {
      for call in calls {
        var set = try set(keys + " errno=EIO")
        XCTAssertEqual(
          set.decide(call, now: 0) != nil, expected,
          "\(keys): \(call.operation) \(String(decoding: call.path, as: UTF8.self))", file: file, line: line)
      }
    }
  }

  func testOperations() throws {
    try check("op=read,write", matches: [call(.read), call(.write)], not: [call(.open), call(.lookup)])
    try check("op=stat", matches: [call(.lookup), call(.getattr)], not: [call(.read)])
    try check("op=namespace", matches: [call(.create), call(.rename), call(.rmdir)], not: [call(.open), call(.chmod)])
    try check("op=*", matches: FaultOperation.allCases.map { call($0) }, not: [])
    try check("", matches: FaultOperation.allCases.map { call($0) }, not: [])
  }

  func testEveryOperationIsDataOrMetadata() throws {
    let data = try XCTUnwrap(FaultOperationGroup.all.first { $0.name == "data" }).operations
    let metadata = try XCTUnwrap(FaultOperationGroup.all.first { $0.name == "metadata" }).operations
    XCTAssertEqual(data.union(metadata), .all)
    XCTAssertTrue(data.isDisjoint(with: metadata))
    XCTAssertEqual(FaultOperations.all.list, FaultOperation.allCases)
  }

  func testPathsWithoutASlashAreLastNames() throws {
    try check(
      "path=a.txt", matches: [call(.read, "/a.txt"), call(.read, "/d/e/a.txt")], not: [call(.read, "/a.txt/b")])
    try check("path=*.txt", matches: [call(.read, "/d/.txt")], not: [call(.read, "/a.txt/b"), call(.read, "/a.txt2")])
  }

  func testPathsWithASlashAreWhole() throws {
    for path in ["/d/*.txt", "d/*.txt"] {
      try check(
        "path=\(path)", matches: [call(.read, "/d/a.txt")], not: [call(.read, "/c/d/a.txt"), call(.read, "/d/e/a.txt")])
    }
    try check(
      "path=/d/**", matches: [call(.read, "/d/a"), call(.read, "/d/a/b/c")],
      not: [call(.read, "/d"), call(.read, "/da")])
    try check(
      "path=/d/**/x", matches: [call(.read, "/d/x"), call(.read, "/d/a/x"), call(.read, "/d/a/b/x")],
      not: [call(.read, "/d/ax"), call(.read, "/dx"), call(.read, "/d/x/y")])
    try check("path=**/x", matches: [call(.read, "/x"), call(.read, "/a/b/x")], not: [call(.read, "/xx")])
  }

  func testWildcards() throws {
    let table: [(String, [String], [String])] = [
      ("a?c", ["abc", "a-c"], ["ac", "abbc"]), ("[a-c]x", ["ax", "cx"], ["dx", "x"]),
      ("[!a-c]x", ["dx", "-x"], ["ax"]),
      ("[^a]x", ["bx"], ["ax"]), ("[]]x", ["]x"], ["x"]), ("[a-]x", ["-x", "ax"], ["bx"]), ("a\\*", ["a*"], ["ab"]),
      ("*a*b*c*", ["abc", "xaxbxcx", "aabbcc"], ["acb", "ab"]), ("*", ["x", ".hidden"], []), ("**", ["x"], []),
      ("a*a", ["aa", "aba"], ["a"]), ("a**b", ["ab", "axxb"], ["a"]), ("[\\]a]x", ["]x", "ax"], ["bx"]),
      ("日*", ["日本"], ["本"]),
    ]
    for (pattern, yes, no) in table {
      let pattern = try PathPattern(Array(pattern.utf8))
      for name in yes { XCTAssertTrue(pattern.matches(Array("/d/\(name)".utf8)), name) }
      for name in no { XCTAssertFalse(pattern.matches(Array("/d/\(name)".utf8)), name) }
    }
  }

  func testExpressions() throws {
    let table: [(String, [String], [String])] = [
      ("abc", ["/abc", "/xabcx"], ["/ab"]), ("^/d/", ["/d/x"], ["/a/d/x"]),
      ("\\.txt$", ["/a.txt"], ["/a.txt2", "/atxt"]),
      ("a|b", ["/a", "/b"], ["/c"]), ("(ab|cd)+x", ["/ababx", "/cdx"], ["/acx"]), ("x{3}", ["/xxx"], ["/xx"]),
      ("^/x{2,3}$", ["/xx", "/xxx"], ["/x", "/xxxx"]), ("^/x{2,}$", ["/xx", "/xxxxx"], ["/x"]),
      ("^/\\d+$", ["/123"], ["/12a"]), ("\\w\\W\\w", ["/a-b"], ["/ab"]), ("^/[^/]*$", ["/ab"], ["/a/b"]),
      ("^/a?b*c+$", ["/c", "/abbcc"], ["/ab"]), ("^/(?:a|b)c$", ["/ac"], ["/ab"]), ("\\x41", ["/A"], ["/a"]),
      ("^/.$", ["/a"], ["/ab"]), ("()x", ["/x"], ["/y"]), ("(a*)*b", ["/aaab", "/b"], ["/aaa"]),
      ("^/ä+$", ["/ää"], ["/ä¤"]),
      ("a^", [], ["/a"]), ("(^|/)\\.git/", ["/.git/x", "/a/.git/x"], ["/a.git/x"]),
    ]
    for (source, yes, no) in table {
      let pattern = try PathPattern(Array("re:\(source)".utf8))
      for path in yes { XCTAssertTrue(pattern.matches(Array(path.utf8)), "\(source) on \(path)") }
      for path in no { XCTAssertFalse(pattern.matches(Array(path.utf8)), "\(source) on \(path)") }
    }
  }

  /// The steps of the automaton are bounded, so a pattern that would take others years takes milliseconds; the test
  /// would not end otherwise.
  func testNoPatternHoldsUpTheMount() throws {
    let path = Array("/".utf8) + Array(repeating: UInt8(ascii: "a"), count: 4000)
    for source in [
      "re:(a*)*(a*)*(a*)*b", "re:(a|aa)+$b", "re:(a?){200}a{200}b", "**a*a*a*a*a*a*a*a*a*a*a*b", "**/a*/**/a*b",
    ] {
      XCTAssertFalse(try PathPattern(Array(source.utf8)).matches(path), source)
    }
    XCTAssertThrowsError(try PathPattern(Array("re:((((a{255}){255}){255}){255})".utf8)))
  }

  func testARenameMatchesByEitherName() throws {
    try check(
      "op=rename path=b", matches: [call(.rename, "/a", to: "/d/b"), call(.rename, "/b", to: "/c")],
      not: [call(.rename, "/a", to: "/c")])
  }

  /// Or every path is locked out, the control file's too.
  func testTheRootsAttributesAreMeantByNameOnly() throws {
    try check("op=getattr", matches: [call(.getattr, "/a")], not: [call(.getattr, "/")])
    try check("path=**", matches: [call(.opendir, "/"), call(.statfs, "/")], not: [call(.getattr, "/")])
    try check("path=re:.", matches: [call(.readdir, "/")], not: [call(.getattr, "/")])
    try check("path=/", matches: [call(.getattr, "/"), call(.opendir, "/")], not: [call(.getattr, "/a")])
  }

  func testTheCaller() throws {
    try check("uid=1000", matches: [call(.read, uid: 1000)], not: [call(.read, uid: 0)])
    try check("pid=7", matches: [call(.read, pid: 7)], not: [call(.read, pid: 0)])
    try check(
      "exe=cp", matches: [call(.read, exe: "/usr/bin/cp"), call(.read, exe: "/bin/cp")],
      not: [call(.read, exe: "/usr/bin/scp"), call(.read)])
    try check("exe=/usr/bin/*", matches: [call(.read, exe: "/usr/bin/mv")], not: [call(.read, exe: "/bin/mv")])
  }

  func testHandles() throws {
    try check("fh=old", matches: [call(.read, handle: .old)], not: [call(.read, handle: .new), call(.read)])
    try check("fh=new", matches: [call(.write, handle: .new)], not: [call(.write, handle: .old)])
  }

  func testRanges() throws {
    try check(
      "range=4K-8K",
      matches: [
        call(.read, at: 4096, length: 1), call(.read, at: 0, length: 4097), call(.read, at: 8191, length: 100),
      ],
      not: [call(.read, at: 0, length: 4096), call(.read, at: 8192, length: 1), call(.read, length: 5000)])
    try check("range=64K-", matches: [call(.write, at: 1 << 40, length: 1)], not: [call(.write, at: 0, length: 65_536)])
    try check("range=-4K", matches: [call(.write, at: 0, length: 1)], not: [call(.write, at: 4096, length: 1)])
    try check("range=1-2", matches: [call(.lseek, at: 1)], not: [call(.lseek, at: 2)])
    try check("range=5-", matches: [call(.read, at: .max - 1, length: .max)], not: [])
  }

  func testWhen() throws {
    let table: [(String, [Int])] = [
      ("3", [3]), ("3..5", [3, 4, 5]), ("3..7+2", [3, 5, 7]), ("8..", [8, 9, 10]), ("4+3", [4, 7, 10]),
      ("7..+2", [7, 9]), ("3..8+2", [3, 5, 7]),
    ]
    for (text, expected) in table {
      var set = try set("op=read when=\(text) errno=EIO")
      var fired: [Int] = []
      for number in 1...10 {
        _ = set.decide(call(.write), now: 0)
        if let decision = set.decide(call(.read), now: 0) {
          fired.append(number)
          XCTAssertEqual(decision.ordinal, number)
        }
      }
      XCTAssertEqual(fired, expected, text)
    }
  }

  func testProb() throws {
    for (text, expected) in [("1%", 100), ("25%", 2500), ("100%", 10_000)] {
      var set = try set("op=read prob=\(text) errno=EIO", seed: 7)
      let calls = (0..<10_000).map { call(.read, at: Int64($0) * 4096) }
      let fired = set.fires(calls).filter { $0 }.count
      XCTAssertEqual(Double(fired), Double(expected), accuracy: 4 * Double(max(1, expected)).squareRoot(), text)
    }
  }
}
