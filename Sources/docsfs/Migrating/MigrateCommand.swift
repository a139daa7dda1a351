import CLinux
import Containers
import DocumentMigration
import Faults

/// `docsfs migrate`: a line of arguments for the library, and its answers for people and programs.
enum MigrateCommand {
  static let spec = CommandSpec(
    name: "migrate", arguments: "to-cloud SRC DST | to-local SRC DST | relocate | audit",
    summary: "Move an app's documents to the cloud, back, or out of Documents.",
    details: """
      to-cloud, to-local: all of SRC goes into DST, document by document, each proven before its source is touched. \
      --move or --keep says what becomes of SRC. Killed or stopped, the same command goes on.

      relocate --home APPHOME --rule 'GLOB=Library/Caches': what matches in APPHOME/Documents goes there, databases with \
      their -wal, -shm and -journal; for each launch of the app. audit --home APPHOME: what looks as if it should.

      Exit codes: 0 all is done; 2 done in part, the lines say what is left; 75 stopped, or storage went away: run it \
      again; 1 nothing was done. docs/MIGRATION.md tells each case's outcome.
      """,
    options: [
      OptionSpec("move", nil, "Remove what is proven at DST from SRC"),
      OptionSpec("keep", nil, "Leave SRC as it is: nothing is written or uploaded there"),
      OptionSpec("dry-run", "n", "Only tell what would be done"),
      OptionSpec("on-conflict", nil, argument: "POLICY", "fail (default), skip, keep-both, replace or newer"),
      OptionSpec("jobs", nil, argument: "N", "Documents under way at a time (24)"),
      OptionSpec("buffer", nil, argument: "SIZE", "What materializes at a time (1GiB)"),
      OptionSpec("patience", nil, argument: "TIME", "How long to wait for storage that went away (60s)"),
      OptionSpec("journal", nil, argument: "DIR", "Where the journal lives ($XDG_STATE_HOME/docsfs/migrations)"),
      OptionSpec("home", nil, argument: "APPHOME", "relocate, audit: the app's folder, with Documents in it"),
      OptionSpec("rule", nil, argument: "GLOB=FOLDER", "relocate: what goes where, from APPHOME; several can be given"),
      OptionSpec("exclude-from-backup", nil, "relocate: mark what matches instead of moving it; GLOB alone is a rule"),
      OptionSpec("json", "j", "Print the plan or the report as JSON"),
      OptionSpec("events", nil, "Print what happens as it happens, a line of JSON each"),
    ], counts: 1...3, run: run)

  static func run(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    let verb = FilePath(arguments.arguments[0]).description
    let rest = arguments.arguments.dropFirst().map { DocumentPath($0) }
    switch verb {
    case "to-cloud", "to-local":
      guard rest.count == 2 else { throw .usage("migrate \(verb): give SRC and DST") }
      return try MigrateTrees.run(verb, rest[0], rest[1], arguments)
    case "relocate", "audit":
      guard rest.isEmpty else { throw .usage("migrate \(verb): the folder is given by --home") }
      return verb == "relocate" ? try MigrateHome.relocate(arguments) : try MigrateHome.audit(arguments)
    default:
      let verbs = ["to-cloud", "to-local", "relocate", "audit"]
      throw .usage("migrate: unknown verb \(verb)" + suggestion(for: verb, among: verbs))
    }
  }
}

extension Failure {
  init(_ error: MigrationError) {
    let code =
      switch error.kind {
      case .missing: ExitCode.unavailable
      case .unfit: ExitCode.usage
      case .busy: ExitCode.tryAgain
      case .journal, .noRoom, .storage: ExitCode.failed
      }
    self.init(error.message, code)
  }
}

extension ParsedArguments {
  func path(_ name: String) -> DocumentPath? { value(name).map { DocumentPath($0) } }

  /// A value among few.
  func choice<Choice: RawRepresentable & CaseIterable>(
    _ name: String, _ standard: Choice
  ) throws(Failure) -> Choice where Choice.RawValue == String {
    guard let text = text(name) else { return standard }
    if let choice = Choice(rawValue: text) { return choice }
    let all = Choice.allCases.map(\.rawValue)
    throw .usage("--\(name)=\(text) is none of \(all.joined(separator: ", "))" + suggestion(for: text, among: all))
  }

  func count(_ name: String, _ standard: Int) throws(Failure) -> Int {
    guard let text = text(name) else { return standard }
    guard let number = Int(text), (1...1000).contains(number) else {
      throw .usage("--\(name)=\(text) is no number from 1 to 1000")
    }
    return number
  }

  func size(_ name: String, _ standard: Int64) throws(Failure) -> Int64 {
    guard let text = text(name) else { return standard }
    guard let size = Quantity.bytes(text), size > 0 else {
      throw .usage("--\(name)=\(text) is no size; write 500MiB or 2G")
    }
    return size
  }
}
