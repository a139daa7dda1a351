import Faults

/// `docsfs disconnect` and `docsfs reconnect`: the same commands as `docsfs fault` has, by their own names.
enum LinkCommands {
  static let disconnect = CommandSpec(
    name: "disconnect", arguments: "MOUNTPOINT [profile=NAME] [for=TIME]",
    summary: "Cut the link between a mount and its container, as when a drive is pulled.",
    details: """
      Profiles say how what is gone behaves; cloud is the default, and leaves local files usable: \
      \(LinkProfile.all.map(\.name).joined(separator: ", ")). With for=10s the link mends by itself.
      """,
    counts: 1...3, run: { arguments throws(Failure) in try run("disconnect", arguments) })

  static let reconnect = CommandSpec(
    name: "reconnect", arguments: "MOUNTPOINT",
    summary: "Mend the link again. What was open may be stale, as its profile has it.", counts: 1...1,
    run: { arguments throws(Failure) in try run("reconnect", arguments) })

  private static func run(_ verb: String, _ arguments: ParsedArguments) throws(Failure) -> Int32 {
    let mount = try PathResolver.current().requireMount(FilePath(arguments.arguments[0]))
    let words = [Array(verb.utf8)] + arguments.arguments.dropFirst()
    return try FaultCommand.run(words[...], try ControlClient(mount))
  }
}
