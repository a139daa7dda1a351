import FuseBridge

/// `docsfs fault check`: a test whose fault never came has tested nothing.
enum FaultCheckCommand {
  static let spec = CommandSpec(
    name: "fault check", arguments: "MOUNTPOINT",
    summary: "Fail if a rule never fired, or fired and no program saw it.",
    details: "Exit code 1 when there is such a rule; each is named.",
    options: [OptionSpec("json", "j", "Print all rules as JSON, with what is wrong")], counts: 1...1, run: run)

  struct Finding: Codable, Equatable {
    var id: String
    var rule: String
    var matched: Int
    var fired: Int
    var visible: Int
    /// nil: it did what it was armed for.
    var problem: String?
  }

  private static func run(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    let mount = try PathResolver.current().requireMount(FilePath(arguments.arguments[0]))
    let findings = try ControlClient(mount).faults().rules.map(finding)
    let problems = findings.filter { $0.problem != nil }
    if arguments.has("json") {
      Console.print(JSONText.of(Report(rules: findings)))
    } else {
      for finding in problems { Console.print("\(finding.id): \(finding.problem ?? ""); \(finding.rule)") }
      if problems.isEmpty { Console.print(summary(findings.count)) }
    }
    return problems.isEmpty ? ExitCode.done : ExitCode.failed
  }

  private static func summary(_ count: Int) -> String {
    switch count {
    case 0: "no rule is armed"
    case 1: "the rule fired, and was seen"
    default: "all \(count) rules fired, and were seen"
    }
  }

  private static func finding(_ rule: FaultStatus.Rule) -> Finding {
    Finding(
      id: rule.id, rule: rule.rule, matched: rule.matched, fired: rule.fired, visible: rule.visible,
      problem: problem(matched: rule.matched, fired: rule.fired, visible: rule.visible))
  }

  /// What is wrong with a rule that has counted so; nil: nothing.
  static func problem(matched: Int, fired: Int, visible: Int) -> String? {
    if matched == 0 { return "never fired, as no call has matched it" }
    if fired == 0 { return "never fired, though \(matched == 1 ? "1 call" : "\(matched) calls") matched it" }
    if visible == 0 { return "fired \(fired == 1 ? "once" : "\(fired) times"), and no program saw it" }
    return nil
  }

  private struct Report: Encodable { var rules: [Finding] }
}
