import StorageErrors

/// What a failed system call means for a migration, after what StorageErrors says of it.
struct Remedy: Hashable, Sendable {
  enum Action: Hashable, Sendable {
    /// Open everything anew, and once more.
    case reopen
    /// The storage has gone, or is busy: wait until it is back.
    case wait
    /// Nothing else will work there either.
    case stop
    /// Go on with the others.
    case skip
  }

  var action: Action
  var category: Classification.Category
  var advice: String

  init(_ errno: Errno) {
    let classification = classify(errno)
    category = classification.category
    switch classification.retry {
    case .reopenThenRetry: self.action = .reopen
    case .afterReconnect, .withBackoff: self.action = .wait
    case .afterFreeingSpace, .afterUserAction: self.action = .stop
    case .never: self.action = category == .readOnly ? .stop : .skip
    }
    advice = Self.advice(category, classification.retry)
  }

  private static func advice(_ category: Classification.Category, _ retry: Classification.Retry) -> String {
    let again = ", then run the same command again"
    switch (retry, category) {
    case (_, .outOfSpace): return "make room" + again
    case (_, .readOnly): return "make the storage writable" + again
    case (_, .noPermission): return "see to its permissions" + again
    case (_, .nameNotRepresentable): return "give it a shorter or plainer name" + again
    case (.afterReconnect, _): return "reconnect the storage" + again
    case (.afterUserAction, _): return "sign in, or switch the storage on" + again
    case (.reopenThenRetry, _): return "check the storage" + again
    case (.withBackoff, _): return "run the same command again later"
    case (.never, _), (.afterFreeingSpace, _): return "see to it" + again
    }
  }
}
