import StorageErrors
import XCTest

@testable import Faults

/// What commands are, and what is said about those that are none.
final class GrammarTests: FaultsTestCase {
  func testEveryCommandReadsBackWhatItWrites() throws {
    let lines = [
      "add id=a op=read,write path=/d/**/x.txt uid=1000 pid=7 exe=cp fh=old range=0-4K when=3..7+2 after=64K prob=1% errno=EIO "
        + "delay=200ms~50ms times=3 for=10s",
      "add hang", "add op=read short=1", "add torn=512", "add corrupt", "add op=read corrupt=9", "add lose=dirty",
      "add kill", "add kill=TERM", "add path=re:^/a{1,2}$ errno=EIO", #"add path="a b\xff" errno=ENOTSUP"#,
      "add errno=400",
      "add prob=0.0000001% errno=EIO", "add when=3.. errno=EIO", "add when=2+3 errno=EIO", "add when=3..7+23 errno=EIO",
      "add delay=1500us errno=EIO",
      "set r1 times=4 errno=", "set r1 hang", "set record=1", "set record=0", "del r1", "clear",
      "seed 18446744073709551615",
      "disconnect", "disconnect profile=nfs-soft for=10s", "reconnect", "cloud offline", "cloud online",
      "cloud latency=80ms rate=1MiB/s status=503 retry-after=2s truncate=64K corrupt quota=10MiB auth=expired "
        + "op=list,fetch,makefolder times=2 for=10s",
      "mark step 1 of x=y", #"mark "a # b""#, "wait idle", "wait idle timeout=30s", "wait id=w1 fired=1 timeout=5s",
      "wait id=w1 visible=2", "evict a/b", #"evict "a b" recursive=1"#, "materialize /a", "pin /a", "unpin /a",
      "refresh /",
      "pause", "resume", #"{"replace":[{"op":"read","errno":"EIO"},"add path=\"\\xff\" hang"],"seed":7}"#,
      #"{"replace":[]}"#,
    ]
    for line in lines {
      let command = try command(line)
      XCTAssertEqual(try self.command(command.text), command, "\(line) became \(command.text)")
      XCTAssertEqual(try self.command(command.text).text, command.text)
    }
  }

  func testJSONMeansTheSameAsText() throws {
    let table = [
      (
        #"{"add":{"op":["read","write"],"path":"a b","errno":"EIO","when":3}}"#,
        #"add op=read,write path="a b" errno=EIO when=3"#
      ),
      (#"{"add":{"hang":true,"times":2}}"#, "add hang times=2"),
      (#"{"add":{"errno":5,"hang":false}}"#, "add errno=EIO"),
      (#"{"add":{"kill":true}}"#, "add kill"), (#"{"add":{"corrupt":true,"prob":"1%"}}"#, "add corrupt prob=1%"),
      (#"{"set":{"id":"a","times":3}}"#, "set a times=3"), (#"{"set":{"record":true}}"#, "set record=1"),
      (#"{"del":"a"}"#, "del a"), (#"{"clear":true}"#, "clear"), (#"{"clear":{}}"#, "clear"),
      (#"{"seed":42}"#, "seed 42"),
      (#"{"disconnect":{"profile":"smb","for":"10s"}}"#, "disconnect profile=smb for=10s"),
      (#"{"disconnect":"smb"}"#, "disconnect profile=smb"), (#"{"reconnect":true}"#, "reconnect"),
      (#"{"cloud":"offline"}"#, "cloud offline"),
      (#"{"cloud":{"status":503,"op":["list"]}}"#, "cloud status=503 op=list"),
      (#"{"mark":"a b"}"#, "mark a b"), (#"{"wait":{"idle":true,"timeout":"5s"}}"#, "wait idle timeout=5s"),
      (#"{"wait":{"id":"w","fired":1}}"#, "wait id=w fired=1"), (#"{"evict":"a b"}"#, #"evict "a b""#),
      (#"{"evict":{"path":"a","recursive":true}}"#, "evict a recursive=1"),
      (#"{"pin":"\u00e9\ud83d\ude00"}"#, "pin é😀"),
      ("{ \"pause\" :\n\ttrue }", "pause"),
      (#"{"add":{"path":"a\\x\"\/b","errno":"EIO"}}"#, #"add path="a\\x\"/b" errno=EIO"#),
    ]
    for (json, text) in table { XCTAssertEqual(try command(json), try command(text), json) }
  }

  func testCommentsAndEmptyLinesAreNothing() throws {
    for text in ["", "   ", "# add", "\t# x\n", "\n"] { XCTAssertNil(try ControlStatement(text.utf8), text) }
  }

  func testMistakesSayWhatAndWhere() {
    let effects = FaultKey.all.filter { $0.kind == .effect }.map(\.form).joined(separator: ", ")
    let table: [(String, String)] = [
      ("ad errno=EIO", "1:1: unknown command ad; did you mean add?"),
      ("  frobnicate", "1:3: unknown command frobnicate"),
      ("errno=EIO", "1:1: a command begins with a verb, not with errno="),
      ("add ernno=EIO", "1:5: unknown key ernno=; did you mean errno?"),
      ("add errno", "1:5: errno is no key=value; write errno=EIO"),
      ("add errno=EOI", "1:5: unknown errno EOI; did you mean EIO?"),
      ("add errno=eio", "1:5: unknown errno eio; did you mean EIO?"),
      ("add errno=0", "1:5: errno=0: outside 1 to 511; beyond it the kernel drops the answer and the caller hangs"),
      ("add errno=512", "1:5: errno=512: outside 1 to 511; beyond it the kernel drops the answer and the caller hangs"),
      ("add errno=ENOSYS", "1:5: errno=ENOSYS would switch the call off for the life of the mount; take EOPNOTSUPP"),
      ("add errno=38", "1:5: errno=ENOSYS would switch the call off for the life of the mount; take EOPNOTSUPP"),
      ("add errno=", "1:5: errno= wants a value behind it"), ("add errno=EIO errno=EIO", "1:15: errno= is given twice"),
      ("add op=raed errno=EIO", "1:5: unknown operation raed; did you mean read?"),
      ("add op=read, errno=EIO", "1:5: an operation is missing beside a comma"),
      ("add op= errno=EIO", "1:5: op= wants a value behind it"),
      ("add op=release errno=EIO", "1:5: unknown operation release; write op=flush, which is close(2)"),
      ("add op=setattr errno=EIO", "1:5: unknown operation setattr; write op=chmod,chown,truncate,utimens"),
      ("add op=READ errno=EIO", "1:5: unknown operation READ; did you mean read?"),
      ("add op:read errno:EIO", "1:5: op:read is no key=value"),
      ("add read", "1:5: read is no key=value; write op=read"),
      ("add op=read EIO", "1:13: EIO is no key=value; write errno=EIO"),
      ("cloud latency 80ms", "1:7: latency wants a value: latency=…"),
      ("disconnect smb for 10s", "1:16: for wants a value: for=…"),
      ("wait id=a fired 1", ""), ("evict a recursive", "1:9: recursive wants a value: recursive=…"),
      ("add op=read", "1:1: the rule has no effect; there are \(effects)"),
      (
        "add op=lookup short=1", "1:15: short= happens to read, write, copy_file_range only, and op= names none of them"
      ),
      ("add op=read torn=1", "1:13: torn= happens to write only, and op= names none of them"),
      ("add op=write corrupt", "1:14: corrupt= happens to read only, and op= names none of them"),
      ("add op=statfs lose=dirty", ""), ("add short=1 errno=EIO", ""),
      ("add short=0", "1:5: short=0 is too small; it is 1 at least"),
      (
        "add op=lookup fh=old errno=EIO",
        "1:15: fh= matches calls with an open file or folder, and op= names none of them"
      ),
      ("add op=mkdir range=0-1 errno=EIO", ""), ("add op=read path=/ errno=EIO", ""),
      ("add range=4K-1K errno=EIO", "1:5: range=4K-1K is empty: the byte at its end is not part of it"),
      ("add range=5 errno=EIO", "1:5: range=5 is none; write 0-4K, or 64K- for all behind it"),
      ("add range=- errno=EIO", "1:5: range=- is none; write 0-4K, or 64K- for all behind it"),
      ("add when=7..3 errno=EIO", "1:5: when=7..3 ends before it begins, and matches nothing"),
      ("add when=0 errno=EIO", "1:5: when=0 is none; write 3, 3..7, 3.., 3..7+2 or 3+2, from 1"),
      ("add when=1+0 errno=EIO", "1:5: when=1+0 is none; write 3, 3..7, 3.., 3..7+2 or 3+2, from 1"),
      ("add when=2 times=3 errno=EIO", "1:12: times=3 is more than when= lets through"),
      ("add times=0 errno=EIO", "1:5: times=0 is no number from 1"),
      ("add for=0s errno=EIO", "1:5: for=0s is over before it begins"),
      ("add for=soon errno=EIO", "1:5: for=soon is no time; write 30s, 500ms, 2m"),
      ("add prob=0% errno=EIO", "1:5: prob=0% never happens"),
      ("add prob=1 errno=EIO", "1:5: prob=1 is no share; write 1% or 0.5%, up to 100%"),
      ("add after=0 errno=EIO", "1:5: after=0 is too small; it is 1 at least"),
      ("add delay=0 op=read", "1:5: delay=0 delays nothing"),
      ("add delay=2h", "1:5: delay=2h is more than an hour; take hang"),
      ("add fh=mid errno=EIO", "1:5: fh= is old or new, not mid"),
      ("add uid=-1 errno=EIO", "1:5: uid=-1 is no user's number"),
      ("add pid=0 errno=EIO", "1:5: pid=0 is no number 1 to 2147483647"),
      ("add kill=TREM", "1:5: unknown signal TREM; did you mean TERM?; write its name, as kill=TERM"),
      ("add kill=9", ""), ("add id=a/b hang", "1:5: an id is 1 to 64 of letters, digits, . _ -"),
      ("add path='' errno=EIO", "1:5: path=: an empty pattern matches nothing"),
      ("add path=d/ errno=EIO", "1:5: path=: no path ends with /; leave it out, or write /** for all that is below"),
      ("add path=a//b errno=EIO", "1:5: path=: no path holds //"), ("add path=../b errno=EIO", ""),
      ("add path=[a errno=EIO", "1:5: path=: a [ is never closed; write \\[ for the character"),
      ("add path=[ä] errno=EIO", "1:5: path=: […] takes ASCII only; a letter beyond it is several bytes"),
      ("add path=[z-a] errno=EIO", ""), ("add path=a\\ errno=EIO", "1:5: path=: nothing follows the last \\"),
      ("add path=re:( errno=EIO", "1:5: path=: a ( is never closed; write \\( for the character"),
      ("add path=re:*a errno=EIO", "1:5: path=: nothing stands before *; write \\* for the character"),
      ("add path=re:(?=a) errno=EIO", ""), ("add path=re:\\q errno=EIO", ""), ("add path=re: errno=EIO", ""),
      ("add path=re:a{3,1} errno=EIO", ""), ("add path=re:a) errno=EIO", ""), ("add exe=re:a errno=EIO", ""),
      ("set", "1:4: a rule's id is missing"), ("set a", "1:4: set wants keys to change, as in set a times=3"),
      ("set a id=b", ""), ("set a tmies=3", "1:7: unknown key tmies=; did you mean times?"),
      ("set record=2", "1:5: record= is 0 or 1, not 2"),
      ("del", "1:4: a rule's id is missing"), ("del a b", ""),
      ("clear all", "1:7: all is not wanted here; quote what holds blanks"),
      ("seed", "1:5: seed wants a number"), ("seed x", ""), ("seed -1", ""), ("seed +1", ""),
      ("mark", "1:5: mark wants a text"),
      ("disconnect profile=nfs-sotf", "1:12: unknown profile nfs-sotf; did you mean nfs-soft?"),
      ("disconnect profile=smb fro=10s", "1:24: fro= is not wanted here; did you mean for?"),
      ("disconnect for=0", "1:12: for=0 is over before it begins"), ("cloud", ""),
      ("cloud onlien", "1:7: unknown condition onlien; did you mean online?"),
      ("cloud online latency=1s", "1:7: cloud online stands alone: it ends all conditions"), ("cloud status=200", ""),
      ("cloud for=1s", ""), ("cloud status=503 op=lsit", "1:18: unknown request lsit; did you mean list?"),
      ("cloud auth=ok", ""),
      ("wait", ""), ("wait id=a", "1:5: what of the rule is waited for: fired=1, matched=1 or visible=1"),
      ("wait now", ""),
      ("evict", "1:6: a path is missing; quote one that holds ="),
      ("evict a b", "1:9: b is not wanted here; quote what holds blanks"),
      ("evict a recursvie=1", "1:9: recursvie= is not wanted here; did you mean recursive?"),
      (#"pin "abc"#, "1:5: this quote is never closed"), (#"pin "a\x00""#, "1:7: no path or value holds a NUL"),
      ("pin \"a\\\0\"", "1:8: no path or value holds a NUL"), ("pin a\0b", "1:6: no path or value holds a NUL"),
      ("replace x", #"1:1: replace is written as JSON: {"replace":[{"op":"read","errno":"EIO"}],"seed":42}"#),
    ]
    for (text, message) in table {
      let refusal = refusal(text)
      if message.isEmpty {
        XCTAssertNotEqual(refusal, "no error", text)
      } else {
        XCTAssertEqual(refusal, message, text)
      }
      XCTAssertFalse(refusal.contains("\n"), "one line")
    }
  }

  func testMistakesInJSONSayWhatAndWhere() {
    let table: [(String, String)] = [
      ("{", "1:2: a key in double quotes is missing"), ("{}", #"1:1: a command is missing, as in {"clear":true}"#),
      ("{\"add\":\n {\"errno\":\"EOI\"}}", "2:11: unknown errno EOI; did you mean EIO?"),
      ("{\"add\":{\"errno\":\"EIO\",\n\"pth\":\"a\"}}", "2:7: unknown key pth=; did you mean path?"),
      (#"{"ad":{}}"#, "1:1: unknown command ad; did you mean add?"),
      (#"{"add":{"a":1,"a":2}}"#, "1:15: a is given twice"),
      (#"{"clear":true,"pause":true}"#, #"1:23: pause: an object is one command, {"clear": {…}}"#),
      (#"{"add":{"errno":null}}"#, "1:17: a text, a number, true or false is wanted here"),
      (#"{"add":{"errno":EIO}}"#, "1:17: EIO is no value; texts stand in double quotes"),
      (#"{"add":{"errno":"EIO" "op":"read"}}"#, "1:23: } is missing or a comma"),
      (#"{"add" {}}"#, "1:8: : is missing behind the key add"),
      (#"{"clear":true} x"#, "1:16: something stands behind the command"),
      (#"{"pin":"\u0000"}"#, "1:9: no path or value holds a NUL"),
      (#"{"pin":"\ud800x"}"#, "1:9: half of a surrogate pair"),
      (#"{"pin":"\q"}"#, #"1:9: \q is no JSON; a backslash is written twice"#),
      (#"{"pin":"a"#, "1:8: this text is never closed"),
      (#"{"replace":{}}"#, "1:12: replace wants a list of rules in [ ]"), (#"{"replace":[{"op":"read"}]}"#, ""),
      (#"{"replace":[],"mark":"x"}"#, "1:22: beside replace there is only seed, not mark"),
      (#"{"replace":["add ernno=EIO"]}"#, "1:13: in this rule, 1:5: unknown key ernno=; did you mean errno?"),
      (#"{"replace":["clear"]}"#, #"1:13: this is no rule; write "add op=read errno=EIO""#),
      ("{\"pin\":" + String(repeating: "[", count: 100), "1:23: nested more than 16 deep"),
      ("{\"pin\":\"a\u{1}\"}", ""),
    ]
    for (text, message) in table {
      let refusal = refusal(text)
      if message.isEmpty {
        XCTAssertNotEqual(refusal, "no error", text)
      } else {
        XCTAssertEqual(refusal, message, text)
      }
    }
  }

  /// Paths are bytes: in quotes as they stand, outside only as UTF-8.
  func testBytesThatAreNoUTF8() throws {
    guard case .pin(let path, true)? = try ControlStatement(Array("pin \"a".utf8) + [0xff, 0x22])?.command else {
      return XCTFail("no pin")
    }
    XCTAssertEqual(path, [0x61, 0xff])
    guard case .pin(let other, true)? = try ControlStatement(Array("{\"pin\":\"a".utf8) + [0xff, 0x22, 0x7d])?.command
    else {
      return XCTFail("no pin")
    }
    XCTAssertEqual(other, [0x61, 0xff])
    XCTAssertThrowsError(try ControlStatement(Array("pin a".utf8) + [0xff])) {
      XCTAssertEqual("\($0)", #"1:6: this byte is no UTF-8; write \xNN inside double quotes"#)
    }
    XCTAssertNoThrow(try ControlStatement("pin ä".utf8))
  }

  func testCloudConditionsAddUp() throws {
    guard case .cloud(.conditions(var conditions, let duration)) = try command("cloud latency=80ms for=5s") else {
      return XCTFail("no conditions")
    }
    XCTAssertEqual(duration, 5_000_000_000)
    for line in ["cloud status=503 times=2 op=list", "cloud offline", "cloud latency=1s"] {
      guard case .cloud(.conditions(let more, _)) = try command(line) else { return XCTFail("no conditions") }
      conditions.add(more)
    }
    XCTAssertEqual(
      ControlText.line("cloud", conditions.attributes), "cloud offline latency=1s status=503 op=list times=2")
  }

  func testEveryOperationKeyAndGroupHasALineOfHelp() {
    for text in FaultOperation.allCases.map(\.help) + FaultOperationGroup.all.map(\.help) + FaultKey.all.map(\.help) {
      XCTAssertFalse(text.isEmpty || text.contains("\n"))
    }
    XCTAssertEqual(Set(FaultKey.names).count, FaultKey.names.count)
  }
}
