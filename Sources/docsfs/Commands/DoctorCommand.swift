import Containers
import DocsEngine

enum DoctorCommand {
  static let spec = CommandSpec(
    name: "doctor", arguments: "[MOUNTPOINT]",
    summary: "Check catalog, content and container of an unmounted volume against each other.",
    details:
      "Without MOUNTPOINT or --state: the default container's. Exit code 1 when something is wrong and not repaired.",
    options: [
      OptionSpec("state", nil, argument: "DIR", "The state directory to check"),
      OptionSpec("container", nil, argument: "URL", "Its container, if the directory does not tell"),
      OptionSpec("repair", "r", "Repair what is found; edits are never dropped"),
      OptionSpec("accept-deletes", nil, "Carry out deletes that are held, on the mount"),
      OptionSpec("json", "j", "Print JSON, a line for each finding"),
    ], counts: 0...1, run: run)

  static func run(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    if arguments.has("accept-deletes") { return try acceptDeletes(arguments) }
    let state = try findState(arguments)
    guard state.lockFile.exists || state.aboutFile.exists else {
      throw Failure(
        "\(state.path) is no state directory of docsfs; nothing was mounted with it", ExitCode.unavailable)
    }
    if let holder = state.holder() {
      throw Failure(
        "\(state.path) is \(holder.description); unmount it first, then run docsfs doctor --state \(state.path)",
        ExitCode.tryAgain)
    }
    let address = try findContainer(arguments, state)
    let lock = try StateLock.acquire(state, mountpoint: FilePath("docsfs doctor"))
    defer { lock.release() }
    return try check(state, address, arguments)
  }

  private static func acceptDeletes(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    guard let path = arguments.arguments.first else {
      throw .usage("doctor: --accept-deletes wants the MOUNTPOINT; the mount carries them out")
    }
    let mount = try PathResolver.current().requirePlace(FilePath(path)).mount
    try ControlClient(mount).require(.acceptDeletes)
    return ExitCode.done
  }

  /// `--state`, else what is mounted at MOUNTPOINT or was last, else the default container's.
  private static func findState(_ arguments: ParsedArguments) throws(Failure) -> StateDirectory {
    let resolver = try PathResolver.current()
    if let path = arguments.value("state") {
      return StateDirectory(path: resolver.resolve(FilePath(path), followingLast: true))
    }
    guard let path = arguments.arguments.first else {
      let address =
        if let url = arguments.value("container") { try ContainerAddress(url) } else {
          try ContainerAddress.standard()
        }
      return StateDirectory(path: try UserDirectories.state().appending(stateName(of: address.identity)))
    }
    if let place = resolver.place(FilePath(path)) { return StateDirectory(path: place.mount.stateDirectory) }
    let mountpoint = resolver.resolve(FilePath(path), followingLast: true)
    let folder = try UserDirectories.state()
    for name in (try? folder.entries()) ?? [] {
      let state = StateDirectory(path: folder.appending(name))
      if state.about()?.mountpoint == mountpoint.text { return state }
    }
    throw Failure(
      "no container is known to have been mounted at \(mountpoint); name its state directory with --state",
      ExitCode.unavailable)
  }

  private static func findContainer(
    _ arguments: ParsedArguments, _ state: StateDirectory
  ) throws(Failure) -> ContainerAddress {
    if let url = arguments.value("container") { return try ContainerAddress(url) }
    if let about = state.about() { return try ContainerAddress(Array(about.container.utf8)) }
    throw Failure(
      "\(state.path) does not say which container it belongs to; name it with --container", ExitCode.usage)
  }

  private static func check(
    _ state: StateDirectory, _ address: ContainerAddress, _ arguments: ParsedArguments
  ) throws(Failure) -> Int32 {
    let container = RetryingContainer(try address.open())
    let isJSON = arguments.has("json")
    var found = 0, left = 0
    do {
      try Doctor.run(
        stateDirectory: state.path.text, container: container, repair: arguments.has("repair")
      ) { finding in
        found += 1
        if !finding.repaired { left += 1 }
        Console.print(isJSON ? JSONText.of(FindingReport(finding)) : line(finding))
      }
    } catch { throw Failure(error.message, error.exitCode) }
    if !isJSON { Console.print(summary(found, left)) }
    return left == 0 ? ExitCode.done : ExitCode.failed
  }

  private static func line(_ finding: Doctor.Finding) -> String {
    oneLine("\(finding.path): \(finding.what)" + (finding.repaired ? " (repaired)" : ""))
  }

  private static func summary(_ found: Int, _ left: Int) -> String {
    if found == 0 { return "nothing is wrong" }
    if left == 0 { return "\(found) found, all repaired" }
    return "\(found) found, \(found - left) repaired"
      + (found == left ? "; --repair repairs what can be" : "")
  }

  private struct FindingReport: Encodable {
    var path: String
    var what: String
    var repaired: Bool
    init(_ finding: Doctor.Finding) {
      path = finding.path
      what = finding.what
      repaired = finding.repaired
    }
  }
}
