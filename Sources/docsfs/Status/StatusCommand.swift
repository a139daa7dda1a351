enum StatusCommand {
  static let spec = CommandSpec(
    name: "status", arguments: "[PATH...]", summary: "Show all mounts, or the state of items.",
    details: """
      --watch shows what is on its way, how fast, and what stands in the way, anew each second; with --json it prints \
      one line of JSON each second. An interrupt ends it with exit code 0. When a mount that was named goes away it \
      ends with 69.
      """,
    options: [
      OptionSpec("json", "j", "Print JSON"),
      OptionSpec("watch", "w", "Show it anew each second"),
    ], counts: 0...Int.max, run: run)

  static func run(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    let paths = arguments.arguments.map { FilePath($0) }
    if arguments.has("watch") {
      var watch = StatusWatch(paths, isJSON: arguments.has("json"))
      return try watch.run()
    }
    var outcome = Outcome()
    let report = try StatusReport(paths, &outcome)
    if arguments.has("json") { Console.print(JSONText.of(report)) } else { report.lines.forEach(Console.print) }
    return outcome.exitCode
  }
}
