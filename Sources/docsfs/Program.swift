import CLinux
import Faults

/// Also in CHANGELOG.md.
let docsfsVersion = "0.1.0"

/// The commands, and the choice among them.
enum Program {
  static let commands: [CommandSpec] = [
    MountCommand.spec, UnmountCommand.spec, StatusCommand.spec, ItemCommands.materialize, ItemCommands.evict,
    ItemCommands.pin, ItemCommands.unpin, SyncCommand.spec, RunCommand.spec, MigrateCommand.spec, FaultCommand.spec,
    LinkCommands.disconnect, LinkCommands.reconnect, SweepCommand.spec, ClassifyCommand.spec, DoctorCommand.spec,
  ]

  /// As bytes: a path need not be text. The program's own name is left out. The kernel tells them: Swift looks for them
  /// beside the environment, and finds none when a preloaded library has changed a variable before.
  static var arguments: [[UInt8]] {
    let line = (try? FilePath("/proc/self/cmdline").contents()) ?? []
    return line.split(separator: 0, omittingEmptySubsequences: false).dropFirst().dropLast().map { Array($0) }
  }

  /// The exit code. Errors are said here, in one line.
  static func run(_ arguments: [[UInt8]]) -> Int32 {
    do { return try dispatch(arguments) } catch {
      Console.error(error.message)
      return error.exitCode
    }
  }

  private static func dispatch(_ arguments: [[UInt8]]) throws(Failure) -> Int32 {
    guard let first = arguments.first.map({ String(decoding: $0, as: UTF8.self) }) else {
      throw .usage("a command is missing: \(names.joined(separator: ", ")); see docsfs --help")
    }
    switch first {
    case "--help", "-h", "-?", "help": return try help(arguments.dropFirst().first)
    case "--version", "-V": Console.print("docsfs \(docsfsVersion)")
    default: return try run(try find(first), Array(arguments.dropFirst()))
    }
    return ExitCode.done
  }

  private static func run(_ command: CommandSpec, _ arguments: [[UInt8]]) throws(Failure) -> Int32 {
    switch try ArgumentParser.parse(command, arguments) {
    case .help:
      ArgumentParser.printHelp(command)
      return ExitCode.done
    case .run(let parsed): return try command.run(parsed)
    }
  }

  private static var names: [String] { commands.map(\.name) }

  static func find(_ name: String) throws(Failure) -> CommandSpec {
    if let command = commands.first(where: { $0.name == name || $0.aliases.contains(name) }) {
      return command
    }
    let isOption = name.hasPrefix("-")
    let all = isOption ? ["--help", "--version"] : commands.flatMap { [$0.name] + $0.aliases }
    let hint = suggestion(for: name, among: all)
    let kind = isOption ? "option" : "command"
    throw .usage("unknown \(kind) \(name)" + (hint.isEmpty ? "; see docsfs --help" : hint))
  }

  private static func help(_ name: [UInt8]?) throws(Failure) -> Int32 {
    if let name {
      ArgumentParser.printHelp(try find(String(decoding: name, as: UTF8.self)))
      return ExitCode.done
    }
    Console.print("Usage: docsfs COMMAND ...\nShows a cloud container as a folder.\n")
    let width = commands.map { $0.name.count }.max() ?? 0
    for command in commands {
      Console.print(
        "  " + command.name + String(repeating: " ", count: width - command.name.count + 2) + command.summary)
    }
    Console.print(
      "\ndocsfs COMMAND --help tells more. Exit codes: 0 done, 1 failed, 2 done in part, 64 usage,")
    Console.print("69 no such mount or container, 75 try again.")
    return ExitCode.done
  }
}
