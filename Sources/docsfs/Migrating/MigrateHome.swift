import Containers
import DocumentMigration
import Faults

/// `relocate` and `audit`: what of an app's Documents belongs elsewhere.
enum MigrateHome {
  static func relocate(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    var options = Relocation.Options()
    options.onConflict = try arguments.choice("on-conflict", .fail)
    options.excludesFromBackup = arguments.has("exclude-from-backup")
    options.journal = arguments.path("journal")
    options.crashPoint = CrashPoint.fromEnvironment()
    let relocation = Relocation(home: try home(arguments), rules: try rules(arguments), options: options)
    let report: RelocationReport
    do {
      report = arguments.has("dry-run") ? try relocation.plan() : try relocation.run()
    } catch { throw Failure(error) }
    if arguments.has("json") {
      Console.print(JSONText.of(report))
    } else {
      show(report, isDry: arguments.has("dry-run"))
    }
    if report.isComplete { return ExitCode.done }
    return report.count(.failed) == report.units.count ? ExitCode.failed : ExitCode.partly
  }

  static func audit(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    let audit = Audit(home: try home(arguments))
    let report: Audit.Report
    do { report = try audit.run() } catch { throw Failure(error) }
    for line in report.unreadable { Console.error(line) }
    if arguments.has("json") { Console.print(JSONText.of(report)) } else { show(report) }
    return report.unreadable.isEmpty ? ExitCode.done : ExitCode.partly
  }

  private static func home(_ arguments: ParsedArguments) throws(Failure) -> DocumentPath {
    guard let home = arguments.path("home") else {
      throw .usage("migrate: --home names the app's folder, the one with Documents in it")
    }
    return home
  }

  private static func rules(_ arguments: ParsedArguments) throws(Failure) -> [RelocationRule] {
    let texts = arguments.values("rule")
    guard !texts.isEmpty else { throw .usage("migrate relocate: give at least one --rule 'GLOB=Library/Caches'") }
    var rules: [RelocationRule] = []
    for text in texts {
      // What stays needs no folder.
      let bare = arguments.has("exclude-from-backup") && !text.contains(0x3d)
      guard let rule = RelocationRule(bare ? text + Array("=Library/Caches".utf8) : text) else {
        throw .usage(
          "--rule=\(FilePath(text)) is no rule; write 'GLOB=FOLDER' with a folder of APPHOME outside Documents, "
            + "such as '*.sqlite=Library/Caches'")
      }
      rules.append(rule)
    }
    return rules
  }

  private static func show(_ report: RelocationReport, isDry: Bool) {
    for unit in report.units {
      switch unit.outcome {
      case .relocated:
        Console.print(oneLine("\(unit.path): \(isDry ? "would go" : "moved") to \(unit.target ?? unit.path)"))
      case .alreadyThere: Console.print(oneLine("\(unit.path): is at \(unit.target ?? unit.path) already"))
      case .excludedFromBackup:
        Console.print(oneLine("\(unit.path): \(isDry ? "would be" : "is") left out of backups"))
      case .toBeDownloadedAgain: Console.error("\(unit.path): is in neither place; it has to be downloaded again")
      case .skipped: Console.print(oneLine("\(unit.path): stays: \(unit.reason ?? "")"))
      case .failed:
        Console.error("\(unit.path): \(unit.reason ?? "")" + (unit.advice.map { "; \($0)" } ?? ""))
      }
    }
    for glob in report.rulesWithoutMatch { Console.print(oneLine("\(glob): matches nothing in Documents")) }
  }

  private static func show(_ report: Audit.Report) {
    var table = Table(heading: ["SIZE", "KIND", "BACKUP", "PATH"], numbers: [0])
    table.rows = report.findings.map { finding in
      [
        Quantity.show(bytes: finding.bytes), finding.kind.rawValue, finding.isExcludedFromBackup ? "no" : "yes",
        oneLine(finding.path.description) + (finding.files > 1 ? " (\(finding.files) files)" : ""),
      ]
    }
    if !table.rows.isEmpty { table.print() }
    Console.print(
      "\(report.findings.count) of \(report.totalFiles) files look as if they could be downloaded again; "
        + "\(Quantity.show(bytes: report.bytesInBackup)) of \(Quantity.show(bytes: report.totalBytes)) are in backups for it"
    )
  }
}
