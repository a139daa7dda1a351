import CLinux
import StorageErrors

enum MountCommand {
  static let spec = CommandSpec(
    name: "mount", arguments: "MOUNTPOINT",
    summary: "Show a container as a folder.",
    details: """
      URL is a folder, as a path or dir:PATH[?latency=80ms&rate=20MiB], or a cloud's: \
      s3://BUCKET[/PREFIX][?endpoint=URL&region=NAME&path_style=0|1&profile=NAME], with the credentials that AWS's own \
      tools use, or webdav+https://HOST/PATH, with those of ~/.netrc. Without --container it is your default container, which is made on first use. Local state, edits that are not uploaded yet among it, is kept in \
      ~/.local/state/docsfs.

      Mount options (-o): ro, allow_other, nonempty, materialize=open|range, faults=on|off, io=auto|passthrough|cached, \
      fsync=local|cloud, cache_size=SIZE, min_free=SIZE|PERCENT, poll=TIME, timeo=TIME, \
      no_materialize=PROGRAM[:PROGRAM...], placeholder_style=plain|stub, offline_writes=queue|erofs, \
      metrics=ADDRESS:PORT, and those of fstab.
      """,
    options: options + [
      OptionSpec("foreground", "f", "Stay in the foreground"),
      OptionSpec("ready-fd", nil, argument: "N", hidden: true, "Started by another docsfs"),
    ], counts: 1...1, run: run)

  static let options = [
    OptionSpec("container", nil, argument: "URL", "What to show"),
    OptionSpec("state", nil, argument: "DIR", "Keep the local state there"),
    OptionSpec("options", "o", argument: "OPT[,OPT...]", "Mount options, see below"),
    OptionSpec("log-level", nil, argument: "LEVEL", "Log error, warning, info (as without it) or debug"),
  ]

  static func run(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    let plan = try MountPlan(arguments)
    if arguments.has("ready-fd") { return serve(plan, ReadyPipe(descriptor: 3)) }
    _ = try plan.check()
    try makeFolders(plan)
    if plan.inForeground { return try Daemon(plan: plan, ready: ReadyPipe()).run() }
    try startInBackground(plan, arguments)
    return ExitCode.done
  }

  private static func makeFolders(_ plan: MountPlan) throws(Failure) {
    if plan.address.isDefault, let folder = plan.address.folder { try docsfs.makeFolders(folder) }
    try plan.state.make()
  }

  private static func serve(_ plan: MountPlan, _ ready: ReadyPipe) -> Int32 {
    do { return try Daemon(plan: plan, ready: ready).run() } catch {
      ready.failed(error)
      Console.error(error.message)
      return error.exitCode
    }
  }

  /// Returns when the mount answers; the daemon's process id.
  @discardableResult
  static func startInBackground(_ plan: MountPlan, _ arguments: ParsedArguments) throws(Failure) -> pid_t {
    var ends: [Int32] = [-1, -1]
    guard lx_pipe(&ends) == 0 else {
      throw Failure("cannot make a pipe: \(Errno.current.message.lowercasedFirst)")
    }
    defer { close(ends[0]) }
    let pid: pid_t
    do {
      pid = try Spawn.start(
        program: "/proc/self/exe", searchingPath: false, daemonArguments(plan, arguments),
        Spawn.Files(
          input: FilePath("/dev/null"), output: FilePath("/dev/null"), error: plan.state.logFile,
          third: ends[1]),
        inNewSession: true)
    } catch {
      close(ends[1])
      throw Failure("cannot start the daemon: \(error.message.lowercasedFirst)")
    }
    close(ends[1])
    try waitUntilReady(LineReader(ends[0]), pid, plan)
    return pid
  }

  private static func daemonArguments(_ plan: MountPlan, _ arguments: ParsedArguments) -> [[UInt8]] {
    var words = ["docsfs", "mount", "--ready-fd=3"].map { Array($0.utf8) }
    words.append(Array("--container=\(plan.address.text)".utf8))
    words.append(Array("--state=".utf8) + plan.state.path.bytes)
    words.append(Array("--log-level=\(plan.logLevel.name)".utf8))
    for list in arguments.values("options") { words += [Array("-o".utf8), list] }
    return words + [Array("--".utf8), plan.mountpoint.bytes]
  }

  private static func waitUntilReady(_ lines: LineReader, _ pid: pid_t, _ plan: MountPlan) throws(Failure) {
    while case .text(let line) = lines.next() {
      switch ReadyPipe.Message(line) {
      case .ready: return
      case .note(let text): Console.error(text)
      case .failed(let failure):
        _ = Spawn.wait(pid)
        throw failure
      case nil: continue
      }
    }
    let status = Spawn.wait(pid)
    throw Failure(
      "the daemon ended (status \(status)) before \(plan.mountpoint) answered; \(plan.state.logFile) may say why"
    )
  }
}
