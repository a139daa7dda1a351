import StorageErrors

/// A classified error, as `docsfs classify` shows it.
struct Explanation: Encodable {
  struct Sentences: Encodable {
    var en: String
    var ja: String
  }

  /// As it was given or found.
  var error: String
  var category: Classification.Category
  var retry: Classification.Retry
  var cause: Classification.Cause
  var isExternalStorageWriteError: Bool
  var sentence: Sentences
  /// Where it was found, in what a command printed.
  var line: String?

  init(_ error: SerializedError, as text: String, line: String? = nil) {
    let result = classify(error)
    self.error = text
    self.line = line
    category = result.category
    retry = result.retry
    cause = result.cause
    isExternalStorageWriteError = StorageErrors.isExternalStorageWriteError(error)
    sentence = Sentences(en: result.sentence(.english), ja: result.sentence(.japanese))
  }

  init(_ finding: ErrnoFinder.Finding) {
    let number = Int(finding.symbol.number(on: .current) ?? 0)
    self.init(
      SerializedError(domain: "NSPOSIXErrorDomain", code: number), as: finding.symbol.rawValue, line: finding.line)
  }

  static func table(_ explanations: [Explanation]) -> Table {
    let isJapanese = ErrnoFinder.chosenLocale?.hasPrefix("ja") == true
    var table = Table(heading: ["ERROR", "CATEGORY", "DECIDED BY", "RETRY", "EXTERNAL WRITE", "MEANING"])
    table.rows = explanations.map { explanation in
      [
        explanation.error, explanation.category.rawValue, explanation.decidedBy, explanation.retry.rawValue,
        explanation.isExternalStorageWriteError ? "yes" : "no",
        isJapanese ? explanation.sentence.ja : explanation.sentence.en,
      ].map(oneLine)
    }
    return table
  }

  private var decidedBy: String {
    let name = cause.symbol ?? "\(cause.domain):\(cause.code)"
    return cause.depth == 0 ? name : "\(name), \(cause.depth) deep"
  }
}
