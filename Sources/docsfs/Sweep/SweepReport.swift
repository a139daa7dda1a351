import Faults

/// All runs of a sweep, as people and programs read them.
struct SweepReport {
  var command: [[UInt8]]
  var outcomes: [SweepOutcome]
  /// nil: it was the invariant's command that judged.
  var files: Int?

  var broken: [SweepOutcome] { outcomes.filter(\.isBroken) }
  var hung: [SweepOutcome] { outcomes.filter { $0.status == nil } }
  /// Ended well although a call of theirs had failed, and they were told.
  var unnoticed: [SweepOutcome] { outcomes.filter { $0.status == 0 && $0.visible > 0 } }

  var commandText: String { command.map { FilePath($0).description }.joined(separator: " ") }

  // MARK: Text

  func printTable() {
    let rows = outcomes.map { outcome in
      [
        outcome.fault?.operation.rawValue ?? "", "\(outcome.fault?.ordinal ?? 0)", outcome.fault?.errno.name ?? "",
        outcome.status.map(String.init) ?? "hung", outcome.isBroken ? "BROKEN" : files == 0 ? "-" : "held",
        oneLine(outcome.path),
        outcome.errors.last ?? "",
      ]
    }
    Table(heading: ["OPERATION", "CALL", "ERRNO", "EXIT", "INVARIANT", "PATH", "SAID"], rows: rows, numbers: [1, 3])
      .print()
    for outcome in broken { Console.print("broken by \(outcome.name): \(oneLine(outcome.loss))") }
    for outcome in hung { Console.print("hung: \(outcome.name)") }
    if files == 0 {
      Console.print("nothing could be lost: CMD names no file outside of the mount, and --with gives none")
    }
    Console.print(summary)
  }

  var summary: String {
    let held = outcomes.count - broken.count
    var text = "\(outcomes.count) \(outcomes.count == 1 ? "run" : "runs"): \(held) held, \(broken.count) broken"
    if !hung.isEmpty { text += ", \(hung.count) hung" }
    if !unnoticed.isEmpty { text += "; \(unnoticed.count) ended with 0 although a call had failed" }
    return text
  }

  // MARK: JSON

  var json: String { JSONText.of(Document(self)) }

  private struct Document: Encodable {
    var command: [String]
    var files: Int?
    var runs: [Run]
    var held: Int
    var broken: Int
    var hung: Int
    var unnoticed: Int

    init(_ report: SweepReport) {
      command = report.command.map { FilePath($0).text }
      files = report.files
      runs = report.outcomes.map(Run.init)
      (broken, hung, unnoticed) = (report.broken.count, report.hung.count, report.unnoticed.count)
      held = runs.count - broken
    }
  }

  private struct Run: Encodable {
    var operation: String
    var call: Int
    var errno: String
    var path: String
    /// nil: it hung.
    var status: Int32?
    var hung: Bool
    /// Failures that the command saw.
    var visible: Int
    var errors: [String]
    var invariant: String
    var lost: [String]
    var seconds: Double

    init(_ outcome: SweepOutcome) {
      operation = outcome.fault?.operation.rawValue ?? ""
      call = outcome.fault?.ordinal ?? 0
      errno = outcome.fault?.errno.name ?? ""
      path = outcome.path
      status = outcome.status
      hung = outcome.status == nil
      visible = outcome.visible
      errors = outcome.errors
      invariant = outcome.isBroken ? "broken" : "held"
      if case .broken(let lost) = outcome.invariant { self.lost = lost } else { lost = [] }
      seconds = outcome.seconds
    }
  }

  // MARK: JUnit

  /// The form that CI systems read: a case for each run.
  var junit: String {
    let seconds = outcomes.reduce(0) { $0 + $1.seconds }
    var lines = [
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
      "<testsuite name=\"\(xml("docsfs sweep: \(commandText)"))\" tests=\"\(outcomes.count)\" "
        + "failures=\"\(broken.count)\" errors=\"\(hung.filter { !$0.isBroken }.count)\" time=\"\(rounded(seconds))\">",
    ]
    for outcome in outcomes { lines += testCase(outcome) }
    return (lines + ["</testsuite>"]).joined(separator: "\n") + "\n"
  }

  private func testCase(_ outcome: SweepOutcome) -> [String] {
    let head =
      "  <testcase classname=\"sweep.\(outcome.fault?.operation.rawValue ?? "")\" name=\"\(xml(outcome.name))\" "
      + "time=\"\(rounded(outcome.seconds))\""
    let errors = xml(outcome.errors.joined(separator: "\n"))
    if outcome.isBroken {
      return [head + ">", "    <failure message=\"\(xml(outcome.loss))\">\(errors)</failure>", "  </testcase>"]
    }
    if outcome.status == nil { return [head + ">", "    <error message=\"hung\">\(errors)</error>", "  </testcase>"] }
    return [head + "/>"]
  }
}

extension SweepOutcome {
  /// `write 2 (EIO) of /a/b`.
  var name: String {
    let what = "\(fault?.operation.rawValue ?? "") \(fault?.ordinal ?? 0) (\(fault?.errno.name ?? ""))"
    return path.isEmpty ? what : "\(what) of \(oneLine(path))"
  }

  /// What is lost, a few of it by name.
  var loss: String {
    guard case .broken(let lost) = invariant else { return "" }
    let more = lost.count > 5 ? " and \(lost.count - 5) more" : ""
    return lost.prefix(5).joined(separator: ", ") + more
  }
}

/// To milliseconds, so that no exponent is written.
private func rounded(_ seconds: Double) -> Double { (seconds * 1000).rounded() / 1000 }

/// As an attribute or text of XML 1.0, which has no control characters.
func xml(_ text: String) -> String {
  text.unicodeScalars.reduce(into: "") { result, scalar in
    switch scalar {
    case "&": result += "&amp;"
    case "<": result += "&lt;"
    case ">": result += "&gt;"
    case "\"": result += "&quot;"
    case "\n": result += "&#10;"
    case "\t": result += " "
    default:
      let isAllowed = scalar.value >= 0x20 && scalar.value != 0xfffe && scalar.value != 0xffff
      result.unicodeScalars.append(isAllowed ? scalar : "\u{fffd}")
    }
  }
}
