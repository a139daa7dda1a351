/// The sum of what was asked for several paths. Each failure is one line on standard error at once.
struct Outcome {
  private var done = 0
  private var failures: [Int32] = []
  private(set) var first: Failure?
  /// Failures are for the caller to tell.
  private let isQuiet: Bool

  init(isQuiet: Bool = false) { self.isQuiet = isQuiet }

  mutating func succeeded() { done += 1 }

  /// A failure without a message was told already.
  mutating func failed(_ failure: Failure) {
    first = first ?? failure
    if !failure.message.isEmpty, !isQuiet { Console.error(failure.message) }
    failures.append(failure.exitCode)
  }

  /// 0 when nothing failed, 2 when something was done, else what the failures agree on, or 1.
  var exitCode: Int32 {
    guard let code = failures.first else { return ExitCode.done }
    if done > 0 || failures.contains(ExitCode.partly) { return ExitCode.partly }
    return failures.allSatisfy { $0 == code } ? code : ExitCode.failed
  }
}
