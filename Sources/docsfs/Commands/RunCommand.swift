import CLinux
import StorageErrors

enum RunCommand {
  static let spec = CommandSpec(
    name: "run", arguments: "-- CMD [ARG...]",
    summary: "Run a command on a fresh mount, and end with its exit code.",
    details: """
      {mount} in CMD and its arguments stands for the mount's path, which is in $DOCSFS_MOUNT too. Without \
      --container, the container and all else is temporary. With it, docsfs waits after CMD until its edits are uploaded.

      Exit codes of docsfs itself, before CMD runs: as ever; 127 CMD is not found, 126 it cannot be run.
      """,
    options: [
      OptionSpec("container", nil, argument: "URL", "Show that instead of a temporary one"),
      OptionSpec("with", nil, argument: "DIR", "Fill the temporary container with a copy of DIR"),
      OptionSpec("options", "o", argument: "OPT[,OPT...]", "Mount options, as of docsfs mount"),
    ], counts: 1...Int.max, stopsAtFirstArgument: true, run: run)

  static func run(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    if arguments.has("with"), arguments.has("container") {
      throw .usage("run: --with fills a temporary container; leave --container out")
    }
    EndSignals.block()
    let child = RunningChild()
    child.forwardSignals()
    let folder = try TemporaryFolder()
    do {
      let status = try run(arguments, in: folder, child)
      try folder.remove()
      return status
    } catch {
      // What could not be uploaded or unmounted is still in there.
      if error.exitCode != ExitCode.tryAgain { try? folder.remove() }
      throw error
    }
  }

  private static func run(
    _ arguments: ParsedArguments, in folder: TemporaryFolder, _ child: RunningChild
  ) throws(Failure) -> Int32 {
    let mount = try FreshMount(
      in: folder.path, container: arguments.value("container"),
      filledFrom: arguments.value("with").map { FilePath($0) },
      options: arguments.values("options"))
    let result = Result { () throws(Failure) in try runCommand(arguments.arguments, mount, child) }
    // A container of somebody's keeps what CMD did; a temporary one goes with it.
    let uploaded = Result { () throws(Failure) in
      if arguments.has("container"), case .success = result { try upload(mount) }
    }
    try mount.end()
    if case .failure(let failure) = uploaded { throw failure }
    return try result.get()
  }

  private static func runCommand(
    _ words: [[UInt8]], _ mount: FreshMount, _ child: RunningChild
  ) throws(Failure) -> Int32 {
    let command = mount.words(words)
    let name = FilePath(command[0])
    do {
      return child.wait(
        try Spawn.start(program: name.text, searchingPath: true, command, environment: mount.environment))
    } catch {
      throw Failure("cannot run \(name): \(error.message.lowercasedFirst)", error == .ENOENT ? 127 : 126)
    }
  }

  private static func upload(_ mount: FreshMount) throws(Failure) {
    guard let entry = try mount.entry() else { return }
    do { try SyncCommand.wait(entry, nil) } catch {
      throw Failure(
        "\(error.message); the edits are kept in \(mount.state): docsfs mount with --state brings them on",
        ExitCode.tryAgain)
    }
  }
}
