import StorageErrors

/// The rules of a mount, and what they have seen. A value: the caller guards it; no call of it waits or does I/O.
///
/// What a rule draws (chance, jitter, bits to flip) follows from the seed, its id, and of the call: operation, path,
/// offset, and how often the rule has drawn for those before. So threads that overtake each other change nothing, as
/// long as no two of them do the same to the same place. How often is kept for 65,536 keys; what comes later shares
/// 4,096 numbers by its hash, and then only calls that share one can change each other's draws.
package struct FaultSet: Sendable {
  /// More are refused.
  package static let limit = 1000

  package private(set) var seed: UInt64 = 0
  /// Whether every operation of the mount is to be logged.
  package private(set) var record = false
  var entries: [FaultEntry] = []
  var draws = BoundedTable<UInt32>()
  private var lastNumber = 0
  /// How often any rule has fired, those that are gone among them.
  package internal(set) var firings: UInt64 = 0

  package init() {}

  package var isEmpty: Bool { entries.isEmpty }
  package var rules: [FaultRule] { entries.map(\.rule) }

  /// Whether any rule can still fire.
  package func isArmed(_ now: UInt64) -> Bool { entries.contains { $0.isArmed(now) } }

  /// What armed rules can match, and what has to be counted for their `after`.
  package func operations(_ now: UInt64) -> FaultOperations {
    entries.reduce(into: []) { operations, entry in
      guard entry.isArmed(now) else { return }
      operations.formUnion(entry.rule.operations)
      if entry.rule.match.after != nil { operations.formUnion(entry.counted) }
    }
  }

  /// The rules whose time is not over. One that has fired its last is among them: who hangs by it hangs on.
  package func lastingIDs(_ now: UInt64) -> Set<String> { Set(entries.lazy.filter { $0.lasts(now) }.map(\.rule.id)) }

  /// As `lastingIDs`, of one.
  package func lasts(_ ruleID: String, _ now: UInt64) -> Bool { index(ruleID).map { entries[$0].lasts(now) } ?? false }

  /// Whether an armed rule loses what was not synced.
  package func mayLose(_ now: UInt64) -> Bool { entries.contains { $0.rule.effect.losesDirty && $0.isArmed(now) } }

  /// When the first rule after `moment` ends by its time; nil: none will. Also one that is used up: who hangs by it
  /// goes on then.
  package func nextExpiry(after moment: UInt64) -> UInt64? {
    entries.compactMap(\.deadline).filter { $0 > moment }.min()
  }

  package func counters(_ ruleID: String) -> FaultCounters? { index(ruleID).map { entries[$0].counters } }

  /// Of all rules, in their order.
  package var counters: [(rule: FaultRule, counters: FaultCounters)] { entries.map { ($0.rule, $0.counters) } }

  func index(_ ruleID: String) -> Int? { entries.firstIndex { $0.rule.id == ruleID } }
}

/// What a rule has counted. `matched` counts while it is armed.
package struct FaultCounters: Equatable, Sendable {
  package var matched = 0
  package var fired = 0
  /// Failures that the application saw.
  package var visible = 0
  /// How often it may still fire; nil: without end.
  package var remaining: Int?

  package subscript(_ counter: FaultCounter) -> Int {
    switch counter {
    case .matched: matched
    case .fired: fired
    case .visible: visible
    }
  }
}

/// A rule at work.
struct FaultEntry: Sendable {
  var rule: FaultRule
  /// nil: no end by time.
  var deadline: UInt64?
  var matched = 0
  var fired = 0
  var visible = 0
  /// `fired` when `times` was set, so that `set ID times=3` means three more.
  var firedBefore = 0
  /// Of each path, by its hash: what reads and writes have moved since the rule was added; for `after`.
  var moved = BoundedTable<Int64>()

  init(_ rule: FaultRule, now: UInt64) {
    self.rule = rule
    deadline = rule.limit.duration.map { now &+ $0 }
  }

  var counters: FaultCounters {
    FaultCounters(matched: matched, fired: fired, visible: visible, remaining: remaining)
  }
  var remaining: Int? { rule.limit.times.map { max(0, $0 - (fired - firedBefore)) } }

  /// Whether it is not used up: by `times`, or because `when` lies behind.
  var canFire: Bool { remaining != 0 && matched < rule.match.when?.last ?? .max }
  func lasts(_ now: UInt64) -> Bool { deadline.map { now < $0 } ?? true }
  func isArmed(_ now: UInt64) -> Bool { canFire && lasts(now) }

  /// Those whose bytes count for `after`: the rule's own reads and writes, or, where it matches none, all.
  var counted: FaultOperations {
    let own = rule.match.operations.intersection(.moving)
    return own.isEmpty ? .moving : own
  }
}

// What changes the set.
extension FaultSet {
  /// As `apply` of a command; what is refused is placed at the statement.
  @discardableResult
  package mutating func apply(_ statement: ControlStatement, now: UInt64) throws(ControlError) -> Bool {
    do { return try apply(statement.command, now: now) } catch {
      guard error.line == 0 else { throw error }
      throw statement.place.error(error.message, error.errno)
    }
  }

  /// Whether it was a command of the rules; others change nothing here. `now`: nanoseconds of a clock that only goes on.
  /// EEXIST: the id is taken; ENOENT: there is none such; EFBIG: too many rules. Refused, it changes nothing.
  @discardableResult
  package mutating func apply(_ command: ControlCommand, now: UInt64) throws(ControlError) -> Bool {
    switch command {
    case .add(let rule): try add(rule, now)
    case .change(let change): try self.change(change, now)
    case .record(let on): record = on
    case .replace(let rules, let seed):
      var other = FaultSet()
      other.seed = seed ?? self.seed
      other.record = record
      other.firings = firings
      for rule in rules { try other.add(rule, now) }
      self = other
    case .del(let id): entries.remove(at: try place(id))
    case .clear:
      entries = []
      draws = BoundedTable()
      lastNumber = 0
    case .seed(let seed):
      self.seed = seed
      draws = BoundedTable()
    default: return false
    }
    return true
  }

  private mutating func add(_ rule: FaultRule, _ now: UInt64) throws(ControlError) {
    guard entries.count < Self.limit else {
      throw Self.refusal(.EFBIG, "there are \(Self.limit) rules already; del some")
    }
    var rule = rule
    if rule.id.isEmpty {
      repeat { lastNumber += 1 } while index("r\(lastNumber)") != nil
      rule.id = "r\(lastNumber)"
    }
    guard index(rule.id) == nil else {
      throw Self.refusal(
        .EEXIST, "there is a rule \(rule.id) already; set \(rule.id) changes it, del \(rule.id) removes it")
    }
    entries.append(FaultEntry(rule, now: now))
  }

  private mutating func change(_ change: FaultChange, _ now: UInt64) throws(ControlError) {
    let index = try place(change.id)
    var entry = entries[index]
    for attribute in change.attributes { try entry.rule.change(attribute) }
    try entry.rule.check(change.attributes, at: ControlPlace(line: 0, column: 0))
    let keys = Set(change.attributes.map(\.key))
    if keys.contains("for") { entry.deadline = entry.rule.limit.duration.map { now &+ $0 } }
    if keys.contains("times") { entry.firedBefore = entry.fired }
    entries[index] = entry
  }

  private func place(_ id: String) throws(ControlError) -> Int {
    if let index = index(id) { return index }
    throw Self.refusal(.ENOENT, "there is no rule \(id)\(suggestion(for: id, among: entries.map(\.rule.id)))")
  }

  /// The place is the statement's, which is not known here.
  private static func refusal(_ errno: Errno, _ message: String) -> ControlError {
    ControlPlace(line: 0, column: 0).error(message, errno)
  }

  /// The application saw so many failures of this rule, or did not see what was counted before it could be known.
  package mutating func saw(_ ruleID: String, _ times: Int = 1) {
    if let index = index(ruleID) { entries[index].visible = max(0, entries[index].visible + times) }
  }

  /// A read or write has moved so many bytes.
  package mutating func moved(_ call: FaultCall, bytes: Int64) {
    guard bytes > 0 else { return }
    for index in entries.indices where entries[index].countsBytes(of: call) {
      entries[index].moved.add(bytes, to: FaultEntry.pathKey(call.path))
    }
  }
}

extension FaultEntry {
  static func pathKey(_ path: [UInt8]) -> UInt64 {
    var hash = FaultHash(0)
    hash.add(path)
    return hash.value
  }

  func countsBytes(of call: FaultCall) -> Bool {
    rule.match.after != nil && counted.contains(call.operation) && rule.match.covers(call)
  }
}

// As text.
extension FaultSet {
  /// Everything that holds, as lines that could be written back: `link` (of the mount's link and cloud) first, then the
  /// rules, each with its counters as a comment.
  package func text(link: [String] = [], now: UInt64) -> String {
    var lines = link + ["seed \(seed)"]
    if record { lines.append("set record=1") }
    lines += entries.map { "\($0.rule.text)  # \($0.comment(now))" }
    return lines.joined(separator: "\n") + "\n"
  }
}

extension FaultEntry {
  fileprivate func comment(_ now: UInt64) -> String {
    let left = remaining.map(String.init) ?? "unlimited"
    var text = "matched=\(matched) fired=\(fired) visible=\(visible) remaining=\(left)"
    if let deadline {
      let rest = deadline > now ? (deadline - now).roundedToMilliseconds : 0
      text += " left=\(Quantity.text(nanoseconds: rest))"
    }
    return text
  }
}

extension UInt64 {
  fileprivate var roundedToMilliseconds: UInt64 { self - self % 1_000_000 }
}
