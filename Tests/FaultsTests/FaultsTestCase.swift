import XCTest

@testable import Faults

/// What the tests of this module have in common.
class FaultsTestCase: XCTestCase {
  func command(_ text: String) throws -> ControlCommand {
    try XCTUnwrap(ControlStatement(text.utf8)?.command, text)
  }

  func rule(_ keys: String) throws -> FaultRule {
    guard case .add(let rule) = try command("add " + keys) else { throw XCTSkip("not a rule") }
    return rule
  }

  /// A set with one rule for each of `lines`, made at 0.
  func set(_ lines: String..., seed: UInt64 = 0) throws -> FaultSet {
    var set = FaultSet()
    try set.apply(.seed(seed), now: 0)
    for line in lines { try set.apply(try command("add " + line), now: 0) }
    return set
  }

  /// What is said when `text` is refused.
  func refusal(_ text: String) -> String {
    do {
      _ = try ControlStatement(text.utf8)
      return "no error"
    } catch { return error.description }
  }

  func call(
    _ operation: FaultOperation, _ path: String = "/a", to newPath: String? = nil, uid: UInt32 = 0, pid: Int32 = 0,
    exe: String = "", handle: HandleAge? = nil, at offset: Int64? = nil, length: Int64 = 0
  ) -> FaultCall {
    FaultCall(
      operation, path: Array(path.utf8), newPath: newPath.map { Array($0.utf8) }, uid: uid, pid: pid,
      executable: Array(exe.utf8), handle: handle, offset: offset, length: length)
  }
}

extension FaultSet {
  /// Whether each of `calls`, in their order, gets a fault.
  mutating func fires(_ calls: [FaultCall], now: UInt64 = 0) -> [Bool] {
    calls.map { decide($0, now: now)?.isFault ?? false }
  }
}
