import CLinux
import FuseBridge

/// `docsfs fault log`.
enum FaultLogCommand {
  static let spec = CommandSpec(
    name: "fault log", arguments: "MOUNTPOINT",
    summary: "Print the injected faults, a line of JSON each, since the mount began.",
    details: "The last 16 MiB are kept.", options: [OptionSpec("follow", "f", "Wait for more, until interrupted")],
    counts: 1...1, run: run)

  private static func run(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    let mount = try PathResolver.current().requireMount(FilePath(arguments.arguments[0]))
    let client = try ControlClient(mount)
    var place = 0
    while true {
      let (text, next) = try client.log(from: place)
      place = next
      if !text.isEmpty {
        // A reader that has gone needs no more.
        guard writeAll(Array(text.utf8), to: STDOUT_FILENO) else { return ExitCode.done }
      } else if arguments.has("follow") {
        usleep(200_000)
      } else {
        return ExitCode.done
      }
    }
  }
}

extension ControlClient {
  /// Whole lines from that byte of the log on, empty at its end, and where the next ones will be.
  func log(from place: Int) throws(Failure) -> (text: String, next: Int) {
    var answer = (text: "", next: place)
    try require(.log(from: place)) { reply in answer = (reply.text ?? "", reply.next ?? place) }
    return answer
  }

  /// What is armed, and what has become of it.
  func faults() throws(Failure) -> FaultStatus {
    var found: FaultStatus?
    try require(.status(path: nil)) { if let faults = $0.faults { found = faults } }
    if let found { return found }
    throw Failure("the daemon tells nothing of faults; it may be of another version of docsfs", ExitCode.unavailable)
  }
}
