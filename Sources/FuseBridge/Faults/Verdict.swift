import Faults
import StorageErrors

/// What happens to one request.
struct Verdict {
  /// Answered instead of being carried out, or after `limit` bytes of a write have landed; nil: it is carried out.
  var errno: Errno?
  /// What fails it: a rule's id, or nil for the link.
  var rule: String?
  /// Whether the application sees the failure, once the kernel takes it.
  var isSeen = true
  /// First it waits so many ns.
  var delay: UInt64 = 0
  /// First it waits until a command, or its caller, ends that.
  var hangs = false
  /// It moves at most so many bytes.
  var limit: Int64?
  /// Flips bits of what was read.
  var corruption: FaultDecision?
  var losesUnsynced = false
  /// A signal for the caller.
  var kill: Int32?

  static let pass = Verdict()

  var isPass: Bool {
    errno == nil && delay == 0 && !hangs && limit == nil && corruption == nil && !losesUnsynced && kill == nil
  }

  /// What is left to do after the wait. The signal was sent before it: whoever has its thread's number then may be
  /// somebody else.
  var afterWait: Verdict {
    var rest = self
    rest.kill = nil
    rest.delay = 0
    rest.hangs = false
    return rest
  }

  var afterLoss: Verdict {
    var rest = self
    rest.losesUnsynced = false
    rest.kill = nil
    return rest
  }

  init() {}

  init(_ decision: FaultDecision, _ call: MountCall) {
    rule = decision.ruleID
    let effect = decision.effect
    errno = effect.failure
    delay = decision.delay
    hangs = effect.hang
    limit = decision.limit
    if effect.corrupt != nil { corruption = decision }
    losesUnsynced = effect.losesDirty
    kill = effect.kill
  }
}
