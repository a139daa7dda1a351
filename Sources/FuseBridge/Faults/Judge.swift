import DocsEngine
import Faults
import StorageErrors

/// What is known of a request before it is judged; gathered without the injector's lock.
struct CallFacts {
  var call: MountCall
  var fault: FaultCall
  var thread: Int32
  /// When its open file or folder was opened; nil: it has none.
  var opened: LinkMoment?
  /// A read through the page cache, whose first failure the kernel hides.
  var isBuffered = false
  /// The kernel tries it again on ESTALE.
  var isByPath: Bool
  /// Another call asks for attributes in passing, and hides what becomes of that.
  var asksInPassing: Bool
  // What link profiles ask. Gathered only while one fails calls.
  var contentIsLocal: Bool?
  var isPlaceholder = false
  var isBarred = false
  var hasUnsynced = false
}

/// A point in the link's history.
struct LinkMoment: Equatable {
  var epoch: Int
  var disconnects: Int
}

/// Everything that commands change and requests are judged by. No method does I/O.
struct FaultState {
  var faults = FaultSet()
  var link = LinkSchedule()
  var log = FaultLog()
  var retries = KernelRetries()
  var marks = ReadMarks()
  /// Failures by the link that applications saw.
  var linkFailures = 0
  /// CLOCK_MONOTONIC ns: from then on it is "later" for the link's profile. A sync that fails brings it about at once.
  var laterFrom: UInt64 = 0
  /// No command arms anything any more.
  var isEnding = false
  /// When what is open now was opened.
  var open: [NodeID: [LinkMoment]] = [:]

  mutating func judge(_ facts: CallFacts, now: UInt64) -> Verdict {
    if facts.asksInPassing { return .pass }
    var facts = facts
    let mark = facts.isBuffered ? marks.find(facts.call.node, facts.call.offset ?? 0, facts.call.length) : nil
    if mark?.isSeen == true { facts.isBuffered = false }
    let again = retries.take(facts.call, from: facts.thread)
    if again.isRetry { return secondTry(again.rule) }
    if facts.isBuffered, let mark, let verdict = judgeMarked(facts, mark, now: now) { return verdict }
    var verdict = judgeByRules(facts, now: now)
    if verdict.errno == nil, let failed = judgeByLink(facts, now: now) {
      verdict = merged(verdict, failed)
    }
    if facts.call.operation == .read, verdict.errno == nil {
      marks.remove(facts.call.node, facts.call.offset ?? 0, facts.call.length)
    }
    if faults.record { record(facts, verdict) }
    if verdict.errno == nil || verdict.limit != nil {
      faults.moved(facts.fault, bytes: min(facts.fault.length, verdict.limit ?? .max))
    }
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
    } else if verdict.errno == nil || verdict.limit != nil, decision.isFault {
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
  private mutating func judgeMarked(_ facts: CallFacts, _ mark: ReadMarks.Mark, now: UInt64) -> Verdict? {
    let offset = facts.call.offset ?? 0
    guard let rule = mark.rule else {
      // Marked by the link: it fails if the link is still down.
      if let verdict = judgeByLink(facts, now: now), verdict.errno != nil { return verdict }
      marks.remove(facts.call.node, offset, facts.call.length)
      return nil
    }
    guard let decision = faults.fire(rule, facts.fault, now: now) else {
      marks.remove(facts.call.node, offset, facts.call.length)
      return nil
    }
    marks.see(facts.call.node, offset)
    let verdict = Verdict(decision, facts.call)
    note(facts, decision, verdict.errno)
    return verdict
  }

  // MARK: The link

  private mutating func judgeByLink(_ facts: CallFacts, now: UInt64) -> Verdict? {
    let opened = moment(of: facts)
    if let opened, let errno = link.answer(forHandleOfEpoch: opened.epoch) { return fail(facts, errno) }
    guard let profile = link.profile, !facts.fault.isRootAttributes else { return nil }
    let answer = profile.answer(
      facts.call.operation, opensForWriting: facts.call.opensForWriting, contentIsLocal: facts.contentIsLocal,
      isLater: now >= laterFrom, isPlaceholder: facts.isPlaceholder, isBarred: facts.isBarred,
      handleIsOld: opened.map { $0.disconnects != link.disconnects } ?? false, hasUnsynced: facts.hasUnsynced)
    switch answer {
    case .ok, .engine: return nil
    case .hang:
      var verdict = Verdict()
      verdict.hangs = true
      return verdict
    case .fail(let errno):
      var verdict = fail(facts, errno)
      if facts.call.operation == .fsync {
        laterFrom = 0
        verdict.losesUnsynced = profile.dropsUnsynced
      }
      return verdict
    }
  }

  /// A call on an open file that does not name it, fstat(2) say, is taken for one on the oldest that is open.
  private func moment(of facts: CallFacts) -> LinkMoment? {
    if let opened = facts.opened { return opened }
    return facts.isByPath ? nil : open[facts.call.node]?.min { $0.disconnects < $1.disconnects }
  }

  private mutating func fail(_ facts: CallFacts, _ errno: Errno) -> Verdict {
    var verdict = Verdict()
    verdict.errno = errno
    if errno == .ESTALE, facts.isByPath {
      retries.expect(facts.call, from: facts.thread, rule: nil)
      verdict.isSeen = false
    } else if facts.isBuffered {
      let offset = facts.call.offset ?? 0
      verdict.isSeen = marks.find(facts.call.node, offset, facts.call.length) != nil
      marks.add(facts.call.node, offset, facts.call.length, rule: nil)
    }
    if verdict.isSeen || facts.isByPath { noteLink(facts, errno) }
    return verdict
  }

  // MARK: The log

  private mutating func note(_ facts: CallFacts, _ decision: FaultDecision, _ errno: Errno?) {
    log.append(.call(facts.fault, rule: decision.ruleID, effect: decision.effect.text, errno: errno, visible: nil))
  }

  private mutating func noteLink(_ facts: CallFacts, _ errno: Errno) {
    let name = link.profile?.name ?? "reconnected"
    log.append(.call(facts.fault, rule: nil, effect: "link=\(name)", errno: errno, visible: nil))
  }

  /// Only what an application can be told of: not what the kernel hides.
  private mutating func record(_ facts: CallFacts, _ verdict: Verdict) {
    if verdict.errno == nil { log.append(.call(facts.fault, rule: nil, effect: nil, errno: nil, visible: nil)) }
  }
}
