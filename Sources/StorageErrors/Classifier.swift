import Foundation

extension Verdict {
  /// What the codes of a domain mean; nil for a domain that is not known.
  static func table(of domain: String) -> ((_ code: Int, _ platform: Platform) -> (Verdict, symbol: String?))? {
    switch domain {
    case NSPOSIXErrorDomain: posix
    case CocoaCode.domain: { code, _ in row(CocoaCode(rawValue: code)?.verdict, CocoaCode(rawValue: code)) }
    case FileProviderCode.domain:
      { code, _ in
        row(FileProviderCode(rawValue: code)?.verdict ?? FileProviderCode.anyVerdict, FileProviderCode(rawValue: code))
      }
    case URLCode.domain: { code, _ in row(URLCode(rawValue: code)?.verdict, URLCode(rawValue: code)) }
    case cancellationDomain: { _, _ in (.init(.cancelled, .never), "CancellationError") }
    default: nil
    }
  }

  /// As which domain Swift shows a `CancellationError`.
  private static let cancellationDomain = (CancellationError() as NSError).domain

  private static func posix(_ code: Int, _ platform: Platform) -> (Verdict, symbol: String?) {
    let symbol = Int32(exactly: code).flatMap { ErrnoSymbol($0, on: platform) }
    return (symbol?.verdict ?? .unknown, symbol?.rawValue)
  }

  private static func row(_ verdict: Verdict?, _ symbol: (any CaseIterable)?) -> (Verdict, symbol: String?) {
    (verdict ?? .unknown, symbol.map { "\($0)" })
  }
}

/// Looked at in one error with all that it holds. A circle through a type whose values have no identity ends there.
private let errorLimit = 1024

/// Says what `error` means, and what to do.
///
/// All errors below it are looked at, through `NSUnderlyingErrorKey`, `NSMultipleUnderlyingErrorsKey` and the
/// properties of Swift's own error types: at most 1,024, 256 deep, and nothing twice in a circle. The one that tells
/// most decides, so an "unknown" of Cocoa's never outweighs the errno below it; of equals the innermost, then the first.
/// An error in which nothing is known is `unknown`, with the outermost one as its cause.
///
/// `platform`: whose numbers an `NSError` of `NSPOSIXErrorDomain` is in. A `SerializedError` says so itself.
public func classify(_ error: any Error, platform: Platform = .current) -> Classification {
  var search = Search()
  var queue = [Step(error: error, platform: platform, path: [], file: nil)]
  var next = 0
  while next < queue.count, next < errorLimit {
    queue += search.look(at: queue[next])
    next += 1
  }
  return search.result
}

private struct Step {
  var error: any Error
  var platform: Platform
  var path: [String]
  /// Of the nearest error around it that names one.
  var file: String?
}

/// Breadth first, so that a budget that is spent was not spent in one branch.
private struct Search {
  private struct Code: Hashable {
    var domain: String
    var code: Int
    var platform: Platform
  }
  private var seen: Set<Code> = []
  private var best: (verdict: Verdict, cause: Classification.Cause)?

  /// The errors directly below.
  mutating func look(at step: Step) -> [Step] {
    let facts = ErrorFacts(step.error, platform: step.platform)
    let file = facts.file ?? step.file
    // The same again, as in a circle, tells nothing new.
    if seen.insert(Code(domain: facts.domain, code: facts.code, platform: facts.platform)).inserted {
      weigh(facts, step.path, file)
    }
    guard step.path.count < underlyingLimit else { return [] }
    return facts.underlying.map {
      Step(error: $0.error, platform: facts.platform, path: step.path + [$0.key], file: file)
    }
  }

  private mutating func weigh(_ facts: ErrorFacts, _ path: [String], _ file: String?) {
    let (verdict, symbol) = Verdict.table(of: facts.domain)?(facts.code, facts.platform) ?? (.unknown, nil)
    if let best {
      let isDeeper = verdict.weight == best.verdict.weight && path.count > best.cause.depth
      guard verdict.weight > best.verdict.weight || isDeeper && verdict.weight > .none else { return }
    }
    best = (
      verdict,
      Classification.Cause(
        domain: facts.domain, code: facts.code, symbol: symbol, platform: facts.platform, path: path, file: file)
    )
  }

  var result: Classification {
    let cause = best?.cause ?? .init(domain: "", code: 0, symbol: nil, platform: .current, path: [], file: nil)
    return Classification(
      category: best?.verdict.category ?? .unknown, retry: best?.verdict.retry ?? .never, cause: cause)
  }
}
