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
    let mount = try mountArguments(arguments, folder)
    let plan = try MountPlan(mount)
    _ = try plan.check()
    try plan.state.make()
    let daemon = try MountCommand.startInBackground(plan, mount)
    let result = Result { () throws(Failure) in try runCommand(arguments.arguments, plan.mountpoint, child) }
    // A container of somebody's keeps what CMD did; a temporary one goes with it.
    let uploaded = Result { () throws(Failure) in
      if arguments.has("container"), case .success = result { try upload(plan) }
    }
    try end(daemon, plan)
    if case .failure(let failure) = uploaded { throw failure }
    return try result.get()
  }

  private static func mountArguments(
    _ arguments: ParsedArguments, _ folder: TemporaryFolder
  ) throws(Failure) -> ParsedArguments {
    var mount = ParsedArguments()
    let container: [UInt8]
    if let url = arguments.value("container") {
      container = url
    } else {
      let path = try folder.make("container")
      if let source = arguments.value("with") { try copy(FilePath(source), into: path) }
      container = path.bytes
    }
    mount.options = [
      .init(name: "container", value: container), .init(name: "state", value: try folder.make("state").bytes),
    ]
    mount.options += arguments.values("options").map { .init(name: "options", value: $0) }
    mount.arguments = [try folder.make("mount").bytes]
    return mount
  }

  private static func copy(_ source: FilePath, into folder: FilePath) throws(Failure) {
    guard let status = try? source.status(), lx_is_dir(status.st_mode) != 0 else {
      throw Failure("--with \(source): there is no such folder")
    }
    let words = [
      Array("cp".utf8), Array("-a".utf8), Array("--".utf8), source.appending(".").bytes, folder.bytes,
    ]
    let (code, text) = try Spawn.capturingErrors(words)
    if code != 0 { throw Failure("cannot copy \(source): \(oneLine(text))") }
  }

  private static func runCommand(
    _ words: [[UInt8]], _ mountpoint: FilePath, _ child: RunningChild
  ) throws(Failure) -> Int32 {
    let command = words.map { replacing(Array("{mount}".utf8), in: $0, with: mountpoint.bytes) }
    let variable = Array("DOCSFS_MOUNT=".utf8)
    let environment =
      Spawn.environment().filter { !$0.starts(with: variable) } + [variable + mountpoint.bytes]
    let name = FilePath(command[0])
    do {
      let pid = try Spawn.start(program: name.text, searchingPath: true, command, environment: environment)
      return child.wait(pid)
    } catch {
      throw Failure("cannot run \(name): \(error.message.lowercasedFirst)", error == .ENOENT ? 127 : 126)
    }
  }

  private static func upload(_ plan: MountPlan) throws(Failure) {
    guard let mount = try MountTable.current().mount(at: plan.mountpoint) else { return }
    do { try SyncCommand.wait(mount, nil) } catch {
      throw Failure(
        "\(error.message); the edits are kept in \(plan.state.path): docsfs mount with --state brings them on",
        ExitCode.tryAgain)
    }
  }

  private static func end(_ daemon: pid_t, _ plan: MountPlan) throws(Failure) {
    // The second signal forces.
    for _ in 0..<2 {
      kill(daemon, SIGTERM)
      for _ in 0..<1500 {
        if waitpid(daemon, nil, WNOHANG) != 0 { return }
        usleep(10_000)
      }
    }
    throw Failure("the daemon (process \(daemon)) of \(plan.mountpoint) does not end", ExitCode.tryAgain)
  }

  static func replacing(_ word: [UInt8], in bytes: [UInt8], with other: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      if rest.starts(with: word) {
        result += other
        rest = rest.dropFirst(word.count)
      } else {
        result.append(rest.removeFirst())
      }
    }
    return result
  }
}
