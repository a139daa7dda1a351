import StorageErrors
import XCTest

@testable import Faults

/// The budget of rules, the order among them, and what they count.
final class FaultSetTests: FaultsTestCase {
  func testTimes() throws {
    var set = try set("id=x op=read errno=EIO times=2")
    XCTAssertEqual(set.fires(Array(repeating: call(.read), count: 4)), [true, true, false, false])
    XCTAssertEqual(set.counters("x"), FaultCounters(matched: 2, fired: 2, visible: 0, remaining: 0))
    XCTAssertFalse(set.isArmed(0))
    XCTAssertTrue(set.operations(0).isEmpty)
    XCTAssertFalse(set.isEmpty, "it can still be read and changed")
  }

  func testFor() throws {
    var set = FaultSet()
    try set.apply(try command("add op=read errno=EIO for=10s"), now: 5_000_000_000)
    XCTAssertEqual(set.nextExpiry(after: 5_000_000_000), 15_000_000_000)
    XCTAssertNotNil(set.decide(call(.read), now: 14_999_999_999))
    XCTAssertNil(set.decide(call(.read), now: 15_000_000_000))
    XCTAssertNil(set.nextExpiry(after: 15_000_000_000))
    XCTAssertFalse(set.isArmed(15_000_000_000))
  }

  /// A call that hangs by it goes on only when its time is over.
  func testOneThatIsUsedUpLastsUntilItsTimeIsOver() throws {
    var set = FaultSet()
    try set.apply(try command("add id=x op=open hang times=1 for=10s"), now: 0)
    XCTAssertNotNil(set.decide(call(.open), now: 1))
    XCTAssertFalse(set.isArmed(2))
    XCTAssertEqual(set.lastingIDs(2), ["x"])
    XCTAssertEqual(set.nextExpiry(after: 2), 10_000_000_000)
    XCTAssertFalse(set.lasts("x", 10_000_000_000))
    XCTAssertFalse(set.lasts("y", 2))
  }

  func testTheFirstThatFiresDecides() throws {
    var set = try set("id=a op=read errno=EIO when=2", "id=b op=read errno=ESTALE")
    XCTAssertEqual((1...3).map { _ in set.decide(call(.read), now: 0)?.ruleID }, ["b", "a", "b"])
    XCTAssertEqual(set.counters("a")?.matched, 2, "it is used up then")
    XCTAssertEqual(set.counters("b")?.matched, 2, "who comes later does not see what is decided")
  }

  func testDelaysAddUpAndTheSearchGoesOn() throws {
    var set = try set("id=a delay=10ms", "id=b delay=5ms op=read", "id=c errno=EIO op=read delay=1ms", "id=d delay=1s")
    let read = try XCTUnwrap(set.decide(call(.read), now: 0))
    XCTAssertEqual(read.ruleID, "c")
    XCTAssertEqual(read.delay, 16_000_000)
    XCTAssertEqual(read.delayedBy, ["a", "b"])
    XCTAssertEqual(read.effect.errno, .EIO)
    let write = try XCTUnwrap(set.decide(call(.write), now: 0))
    XCTAssertEqual(write.ruleID, "d")
    XCTAssertEqual(write.delay, 1_010_000_000)
    XCTAssertEqual(write.delayedBy, ["a"])
    XCTAssertTrue(write.effect.isOnlyDelay)
    XCTAssertEqual(set.counters("d")?.fired, 1)
  }

  func testPreviewCountsNothing() throws {
    var set = try set("id=x op=read errno=EIO times=1 prob=50%", seed: 3)
    for offset in 0..<20 {
      let read = call(.read, at: Int64(offset))
      let before = set.counters("x")
      let preview = set.preview(read, now: 0)
      XCTAssertEqual(preview, set.preview(read, now: 0))
      XCTAssertEqual(set.counters("x"), before)
      XCTAssertEqual(set.decide(read, now: 0), preview)
    }
    XCTAssertEqual(set.counters("x")?.fired, 1)
  }

  func testFireUsesUpWithoutMatching() throws {
    var set = try set("id=x op=read path=/a errno=EIO times=2")
    let read = call(.read, "/elsewhere")
    XCTAssertEqual(set.fire("x", read, now: 0)?.ordinal, 1)
    XCTAssertEqual(set.fire("x", read, now: 0)?.ordinal, 2)
    XCTAssertNil(set.fire("x", read, now: 0), "no budget is left")
    XCTAssertNil(set.fire("y", read, now: 0), "there is none such")
    XCTAssertEqual(set.counters("x"), FaultCounters(matched: 2, fired: 2, visible: 0, remaining: 0))
  }

  func testVisible() throws {
    var set = try set("id=x errno=EIO")
    set.saw("x")
    set.saw("gone")
    XCTAssertEqual(set.counters("x")?.visible, 1)
  }

  /// As a disk that fills: the write that crosses the limit is shortened, the next one fails.
  func testAfterFillsExactly() throws {
    var set = try set("id=x op=write after=64K errno=ENOSPC")
    func write(_ length: Int64, to path: String = "/a") -> FaultDecision? {
      let call = call(.write, path, at: 0, length: length)
      let decision = set.decide(call, now: 0)
      if !(decision?.isFault ?? false) { set.moved(call, bytes: min(length, decision?.allowed ?? length)) }
      return decision
    }
    XCTAssertNil(write(40_000))
    XCTAssertNil(write(60_000, to: "/b"), "each path has its own count")
    let crossing = write(40_000)
    XCTAssertEqual(crossing?.allowed, 65_536 - 40_000)
    XCTAssertEqual(crossing?.isFault, false)
    XCTAssertEqual(set.counters("x"), FaultCounters(matched: 0, fired: 0, visible: 0, remaining: nil))
    XCTAssertEqual(write(1)?.effect.errno, .ENOSPC)
    XCTAssertEqual(set.counters("x")?.fired, 1)
    XCTAssertNil(write(5536, to: "/b"), "up to the limit itself it is whole")
    XCTAssertEqual(write(1, to: "/b")?.effect.errno, .ENOSPC)
  }

  func testAfterCountsReadsAndWritesForOtherOperations() throws {
    var set = try set("op=fsync after=10 errno=EIO")
    XCTAssertEqual(set.operations(0), FaultOperations.moving.union(FaultOperations(.fsync)), "they must be told of")
    XCTAssertNil(set.decide(call(.fsync), now: 0))
    set.moved(call(.write), bytes: 9)
    XCTAssertNil(set.decide(call(.fsync), now: 0))
    set.moved(call(.write), bytes: 1)
    XCTAssertNotNil(set.decide(call(.fsync), now: 0))
  }

  func testALimitHoldsTogetherWithAnotherRulesFault() throws {
    var set = try set("id=full op=write after=10 errno=ENOSPC", "id=slow op=write delay=1ms")
    let decision = try XCTUnwrap(set.decide(call(.write, at: 0, length: 100), now: 0))
    XCTAssertEqual(decision.ruleID, "slow")
    XCTAssertEqual(decision.allowed, 10)
  }

  func testWhatShortensACallAddsUp() throws {
    var set = try set("op=write after=100 errno=ENOSPC", "op=write path=s short=50", "op=write path=t torn=200")
    func limit(_ path: String) -> Int64? { set.decide(call(.write, path, at: 0, length: 1000), now: 0)?.limit }
    XCTAssertEqual(limit("/s"), 50)
    XCTAssertEqual(limit("/t"), 100)
    XCTAssertEqual(limit("/u"), 100)
    XCTAssertEqual(set.decide(call(.write, "/t", at: 0, length: 1000), now: 0)?.effect.failure, .EIO)
  }

  func testSetChangesARuleAndKeepsWhatItCounted() throws {
    var set = try set("id=x op=read errno=EIO times=1")
    XCTAssertNotNil(set.decide(call(.read), now: 0))
    try set.apply(try command("set x times=2 errno=ESTALE"), now: 0)
    XCTAssertEqual(set.counters("x"), FaultCounters(matched: 1, fired: 1, visible: 0, remaining: 2))
    XCTAssertEqual(set.decide(call(.read), now: 0)?.effect.errno, .ESTALE)
    try set.apply(try command("set x times= delay=1s errno="), now: 0)
    XCTAssertNil(set.counters("x")?.remaining)
    XCTAssertEqual(set.decide(call(.read), now: 0)?.effect.isOnlyDelay, true)
  }

  func testWhatIsRefusedChangesNothing() throws {
    var set = try set("id=x op=read errno=EIO", "id=y op=write errno=EIO", seed: 4)
    let before = set.text(now: 0)
    let refused: [(String, Errno)] = [
      ("add id=x errno=EIO", .EEXIST), ("set z times=1", .ENOENT), ("del z", .ENOENT),
      ("set x op=lookup torn=1", .EINVAL),
      ("set x errno=", .EINVAL),
      (#"{"replace":[{"id":"a","errno":"EIO"},{"id":"a","errno":"EIO"}],"seed":9}"#, .EEXIST),
    ]
    for (text, errno) in refused {
      let statement = try XCTUnwrap(ControlStatement(text.utf8, at: ControlPlace(line: 3, column: 1)), text)
      XCTAssertThrowsError(try set.apply(statement, now: 0), text) { error in
        XCTAssertEqual((error as? ControlError)?.errno, errno, text)
        XCTAssertEqual((error as? ControlError)?.line, 3, text)
      }
      XCTAssertEqual(set.text(now: 0), before, text)
    }
  }

  func testIDsAreGivenAndHintsToo() throws {
    var set = try set("errno=EIO", "id=r2 errno=EIO", "errno=EIO")
    XCTAssertEqual(set.rules.map(\.id), ["r1", "r2", "r3"])
    XCTAssertThrowsError(try set.apply(try command("del r33"), now: 0)) {
      XCTAssertEqual(($0 as? ControlError)?.message, "there is no rule r33; did you mean r3?")
    }
    try set.apply(.clear, now: 0)
    XCTAssertTrue(set.isEmpty)
    try set.apply(try command("add errno=EIO"), now: 0)
    XCTAssertEqual(set.rules.map(\.id), ["r1"], "so that the same commands have the same ids")
  }

  func testReplaceSwapsAllAtOnce() throws {
    var set = try set("id=x errno=EIO", seed: 1)
    try set.apply(
      try command(#"{"replace":[{"op":["read","write"],"errno":"ESTALE","times":2},{"hang":true}],"seed":42}"#), now: 0)
    XCTAssertEqual(set.rules.map(\.text), ["add id=r1 op=read,write errno=ESTALE times=2", "add id=r2 hang"])
    XCTAssertEqual(set.seed, 42)
    try set.apply(try command(#"{"replace":[]}"#), now: 0)
    XCTAssertTrue(set.isEmpty)
    XCTAssertEqual(set.seed, 42, "it stays")
  }

  func testThereIsAnEndToRules() throws {
    var set = FaultSet()
    for _ in 0..<FaultSet.limit { try set.apply(try command("add errno=EIO"), now: 0) }
    XCTAssertThrowsError(try set.apply(try command("add errno=EIO"), now: 0)) {
      XCTAssertEqual(($0 as? ControlError)?.errno, .EFBIG)
    }
  }

  /// A rule whose effect is only had by some operations does not count the others.
  func testAnEffectNarrowsTheOperations() throws {
    var set = try set("id=x short=1 times=1")
    XCTAssertNil(set.decide(call(.lookup), now: 0))
    XCTAssertEqual(set.operations(0), .moving)
    XCTAssertEqual(set.decide(call(.read, length: 10), now: 0)?.effect.short, 1)
    XCTAssertEqual(try self.set("torn=1").operations(0), FaultOperations(.write))
    XCTAssertEqual(try self.set("corrupt").operations(0), FaultOperations(.read))
  }

  func testTextTellsWhatHolds() throws {
    var set = try set("id=x op=read path='/a b' errno=EIO times=3", "id=y hang for=10s", seed: 5)
    _ = set.decide(call(.read, "/a b"), now: 0)
    set.saw("x")
    try set.apply(.record(true), now: 0)
    XCTAssertEqual(
      set.text(link: ["disconnect profile=unplugged"], now: 1_500_000_000),
      """
      disconnect profile=unplugged
      seed 5
      set record=1
      add id=x op=read path="/a b" errno=EIO times=3  # matched=1 fired=1 visible=1 remaining=2
      add id=y hang for=10s  # matched=0 fired=0 visible=0 remaining=unlimited left=8500ms

      """)
  }
}
