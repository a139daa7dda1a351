import Faults
import StorageErrors

/// What is known of a request before it is judged; gathered without the injector's lock.
struct CallFacts {
  var call: MountCall
  var fault: FaultCall
  var thread: Int32
  /// The epoch of its open file or folder; nil: it has none.
  var epoch: UInt64?
  /// A read through the page cache, whose first failure the kernel hides.
  var isBuffered = false
  /// The kernel tries it again on ESTALE.
  var isByPath: Bool
  /// A link profile asks: whether the bytes it wants are local.
  var isLocal = true
  /// Every line of the log names them.
  var process: (pid: Int32, executable: [UInt8])
}

/// Everything that commands change and requests are judged by. No method does I/O.
struct FaultState {
  var faults = FaultSet()
  var link = LinkSchedule()
  var log = FaultLog()
  var retries = KernelRetries()
  var marks = ReadMarks()
  /// Failures by the link that applications saw.
  var linkFailures: UInt64 = 0
  /// Since the link is down, a sync has failed: from then on it is "later".
  var hasFailedSync = false
  /// Open files and folders by epoch.
  var openByEpoch: [UInt64: Int] = [:]

  mutating func judge(_ facts: CallFacts, now: UInt64) -> Verdict {
    let again = retries.take(facts.call, from: facts.thread)
    if again.isRetry { return secondTry(again.rule) }
    if facts.isBuffered, let verdict = judgeMarked(facts, now: now) { return verdict }
    var verdict = judgeByRules(facts, now: now)
    if verdict.errno == nil, let failed = judgeByLink(facts, now: now) {
      verdict = merged(verdict, failed)
    }
    if facts.isBuffered, verdict.errno == nil { marks.remove(facts.call.node, facts.call.offset ?? 0, facts.call.length) }
    return verdict
  }

  private func secondTry(_ rule: String?) -> Verdict {
    var verdict = Verdict()
    verdict.errno = .ESTALE
    verdict.rule = rule
    return verdict
  }

  /// A rule's delay holds for a link's failure, too.
  private func merged(_ byRule: Verdict, _ byLink: Verdict) -> Verdict {
    var verdict = byLink
    verdict.delay += byRule.delay
    verdict.hangs = verdict.hangs || byRule.hangs
    verdict.kill = byRule.kill
    return verdict
  }

  // MARK: Rules

  private mutating func judgeByRules(_ facts: CallFacts, now: UInt64) -> Verdict {
    if facts.isBuffered, let hidden = hiddenFailure(facts, now: now) { return hidden }
    guard let decision = faults.decide(facts.fault, now: now) else { return .pass }
    var verdict = Verdict(decision, facts.call)
    if decision.isFault { note(facts, decision, verdict.errno) }
    if verdict.errno == .ESTALE, facts.isByPath, verdict.limit == nil {
      retries.expect(facts.call, from: facts.thread, rule: decision.ruleID)
      verdict.isSeen = false
    } else if verdict.errno == nil, decision.isFault {
      faults.saw(decision.ruleID)
    }
    return verdict
  }

  /// The readahead of a buffered read that a rule fails: it counts for nothing, and its pages are marked.
  private mutating func hiddenFailure(_ facts: CallFacts, now: UInt64) -> Verdict? {
    guard let decision = faults.preview(facts.fault, now: now), let errno = decision.effect.errno else { return nil }
    marks.add(facts.call.node, facts.call.offset ?? 0, facts.call.length, rule: decision.ruleID)
    var verdict = Verdict()
    verdict.errno = errno
    verdict.rule = decision.ruleID
    verdict.isSeen = false
    return verdict
  }

  /// An application's own read of a page whose readahead failed; nil when that is no longer to fail.
  private mutating func judgeMarked(_ facts: CallFacts, now: UInt64) -> Verdict? {
    let offset = facts.call.offset ?? 0
    let found = marks.find(facts.call.node, offset, facts.call.length)
    guard found.isMarked else { return nil }
    guard let rule = found.rule else {
      // Marked by the link: it fails if the link is still down.
      if let verdict = judgeByLink(facts, now: now), verdict.errno != nil { return verdict }
      marks.remove(facts.call.node, offset, facts.call.length)
      return nil
    }
    guard let decision = faults.fire(rule, facts.fault, now: now) else {
      marks.remove(facts.call.node, offset, facts.call.length)
      return nil
    }
    let verdict = Verdict(decision, facts.call)
    note(facts, decision, verdict.errno)
    return verdict
  }

  // MARK: The link

  private mutating func judgeByLink(_ facts: CallFacts, now: UInt64) -> Verdict? {
    if let epoch = facts.epoch, let errno = link.answer(forHandleOfEpoch: epoch) { return fail(facts, errno) }
    switch link.answer(facts.linkQuestion(isLater: hasFailedSync), now: now) {
    case .ok, .engine: return nil
    case .hang:
      var verdict = Verdict()
      verdict.hangs = true
      return verdict
    case .fail(let errno):
      var verdict = fail(facts, errno)
      if facts.call.operation == .fsync {
        hasFailedSync = true
        verdict.losesUnsynced = link.dropsUnsynced
      }
      return verdict
    }
  }

  private mutating func fail(_ facts: CallFacts, _ errno: Errno) -> Verdict {
    var verdict = Verdict()
    verdict.errno = errno
    if errno == .ESTALE, facts.isByPath {
      retries.expect(facts.call, from: facts.thread, rule: nil)
      verdict.isSeen = false
    } else if facts.isBuffered {
      let offset = facts.call.offset ?? 0
      verdict.isSeen = marks.find(facts.call.node, offset, facts.call.length).isMarked
      marks.add(facts.call.node, offset, facts.call.length, rule: nil)
    }
    if verdict.isSeen || facts.isByPath { noteLink(facts, errno) }
    return verdict
  }

  // MARK: The log

  private mutating func note(_ facts: CallFacts, _ decision: FaultDecision, _ errno: Errno?) {
    log.append { FaultLogLine(facts, rule: decision.ruleID, decision, errno, sequence: $0) }
  }

  private mutating func noteLink(_ facts: CallFacts, _ errno: Errno) {
    log.append { FaultLogLine(facts, link: link.profileName, errno, sequence: $0) }
  }
}
