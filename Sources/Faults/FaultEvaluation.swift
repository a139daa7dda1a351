import StorageErrors

// What the rules say to a call.
extension FaultSet {
  /// What is to happen to the call, counted and used up; nil: nothing.
  package mutating func decide(_ call: FaultCall, now: UInt64) -> FaultDecision? {
    guard !entries.isEmpty else { return nil }
    let evaluation = evaluate(call, now)
    for index in evaluation.matched { entries[index].matched += 1 }
    for index in evaluation.fired { entries[index].fired += 1 }
    firings += UInt64(evaluation.fired.count)
    for key in evaluation.drawn { draws.add(1, to: key) }
    return evaluation.decision
  }

  /// What `decide` would say; nothing is counted.
  package func preview(_ call: FaultCall, now: UInt64) -> FaultDecision? { evaluate(call, now).decision }

  /// Uses up one of that rule, without asking whether the call matches: for a failure that the kernel hid at first.
  /// nil: the rule is gone, or used up.
  package mutating func fire(_ ruleID: String, _ call: FaultCall, now: UInt64) -> FaultDecision? {
    guard let index = index(ruleID), entries[index].isArmed(now) else { return nil }
    var evaluation = Evaluation()
    entries[index].matched += 1
    entries[index].fired += 1
    firings += 1
    let draw = draw(entries[index].rule, call, &evaluation)
    evaluation.decide(entries[index], draw, ordinal: entries[index].matched)
    for key in evaluation.drawn { draws.add(1, to: key) }
    return evaluation.decision
  }

  private func evaluate(_ call: FaultCall, _ now: UInt64) -> Evaluation {
    var evaluation = Evaluation()
    let operation = FaultOperations(call.operation)
    for index in entries.indices where entries[index].isArmed(now) {
      guard !entries[index].rule.match.operations.isDisjoint(with: operation), entries[index].rule.match.covers(call)
      else { continue }
      if evaluate(index, operation, call, &evaluation) { break }
    }
    evaluation.close(entries)
    return evaluation
  }

  /// Whether the search ends with this rule.
  private func evaluate(
    _ index: Int, _ operation: FaultOperations, _ call: FaultCall, _ evaluation: inout Evaluation
  ) -> Bool {
    let entry = entries[index]
    if let after = entry.rule.match.after {
      let left = after - entry.moved[FaultEntry.pathKey(call.path)]
      if left > 0 {
        if entry.counted.contains(call.operation), call.length > left { evaluation.limit(to: left, index) }
        return false
      }
    }
    guard !entry.rule.operations.isDisjoint(with: operation) else { return false }
    evaluation.matched.append(index)
    let ordinal = entry.matched + 1
    guard entry.rule.match.when?.contains(ordinal) ?? true else { return false }
    let draw = draw(entry.rule, call, &evaluation)
    if let probability = entry.rule.match.probability, draw.chance >= probability { return false }
    evaluation.fired.append(index)
    if entry.rule.effect.isOnlyDelay {
      evaluation.delay(entry, draw, ordinal)
      return false
    }
    evaluation.decide(entry, draw, ordinal: ordinal)
    return true
  }

  /// What chance gives the rule for this call; remembered in `evaluation` if the rule draws at all.
  private func draw(_ rule: FaultRule, _ call: FaultCall, _ evaluation: inout Evaluation) -> Draw {
    guard rule.match.probability != nil || rule.effect.delay?.jitter ?? 0 > 0 || rule.effect.corrupt != nil else {
      return Draw(seed: 0)
    }
    var key = FaultHash(0)
    key.add(Array(rule.id.utf8))
    key.add(FaultOperations(call.operation).rawValue)
    key.add(call.path)
    key.add(UInt64(bitPattern: call.offset ?? -1))
    evaluation.drawn.append(key.value)
    var hash = FaultHash(seed)
    hash.add(key.value)
    hash.add(UInt64(draws[key.value]))
    return Draw(seed: hash.value)
  }
}

/// The numbers of one rule for one call, each from a stream of its own.
private struct Draw {
  let seed: UInt64
  /// Of 1,000,000,000.
  let chance: UInt64

  init(seed: UInt64) {
    self.seed = seed
    var random = FaultRandom(seed)
    chance = random.below(1_000_000_000)
  }

  /// Between base - jitter and base + jitter, never below 0.
  func delay(_ delay: FaultDelay?) -> UInt64 {
    guard let delay else { return 0 }
    guard delay.jitter > 0 else { return delay.base }
    var random = FaultRandom(seed ^ 0x6a09_e667_f3bc_c908)
    let drawn = delay.base + random.below(2 * delay.jitter + 1)
    return drawn > delay.jitter ? drawn - delay.jitter : 0
  }

  var corruption: UInt64 { FaultHash.mix(seed ^ 0xbb67_ae85_84ca_a73b) }
}

/// What looking through the rules has come to, and what is to be counted if it is acted on.
private struct Evaluation {
  var decision: FaultDecision?
  var matched: [Int] = []
  var fired: [Int] = []
  var drawn: [UInt64] = []
  private var delay: UInt64 = 0
  private var delayedBy: [String] = []
  private var lastDelay: (effect: FaultEffect, ordinal: Int)?
  private var allowed: Int64?
  private var allowedBy = 0

  mutating func limit(to bytes: Int64, _ index: Int) {
    guard bytes < allowed ?? .max else { return }
    (allowed, allowedBy) = (bytes, index)
  }

  mutating func delay(_ entry: FaultEntry, _ draw: Draw, _ ordinal: Int) {
    delay += draw.delay(entry.rule.effect.delay)
    delayedBy.append(entry.rule.id)
    lastDelay = (entry.rule.effect, ordinal)
  }

  mutating func decide(_ entry: FaultEntry, _ draw: Draw, ordinal: Int) {
    decision = FaultDecision(
      ruleID: entry.rule.id, effect: entry.rule.effect, delay: delay + draw.delay(entry.rule.effect.delay),
      ordinal: ordinal, allowed: allowed, delayedBy: delayedBy, corruptionSeed: draw.corruption)
  }

  /// Without a rule that ends the search, the last delay is the decision, or the limit that must be kept.
  mutating func close(_ entries: [FaultEntry]) {
    guard decision == nil else { return }
    if let lastDelay, let id = delayedBy.popLast() {
      decision = FaultDecision(
        ruleID: id, effect: lastDelay.effect, delay: delay, ordinal: lastDelay.ordinal, allowed: allowed,
        delayedBy: delayedBy)
    } else if let allowed {
      let entry = entries[allowedBy]
      decision = FaultDecision(
        ruleID: entry.rule.id, effect: FaultEffect(), delay: 0, ordinal: entry.matched, allowed: allowed)
    }
  }
}
