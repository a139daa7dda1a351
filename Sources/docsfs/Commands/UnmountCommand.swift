import CLinux
import DocsEngine

enum UnmountCommand {
  static let spec = CommandSpec(
    name: "unmount", aliases: ["umount"], arguments: "MOUNTPOINT",
    summary: "End a mount. Edits that are not uploaded yet are kept, and go on at the next mount.",
    options: [
      OptionSpec("wait", "w", argument: "SECONDS", optional: true, "First wait until all is uploaded"),
      OptionSpec("force", "f", "Even when it is in use: what is open there fails from then on"),
    ], counts: 1...1, run: run)

  static func run(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    let mount = try PathResolver.current().requireMount(FilePath(arguments.arguments[0]))
    if mount.daemonIsDead {
      try Unmounting.clearStale(mount)
      Console.error("cleared the dead mount at \(mount.mountpoint)")
      return ExitCode.done
    }
    if arguments.has("wait") { try SyncCommand.wait(mount, try arguments.seconds("wait")) }
    let waiting = (try? mount.askStatus())?.status?.dirtyItems ?? 0
    if arguments.has("force") {
      try end(mount)
    } else {
      try Unmounting.unmount(mount.mountpoint, lazily: false)
    }
    try waitForEnd(mount)
    if waiting > 0 { remind(waiting) }
    return ExitCode.done
  }

  private static func remind(_ count: Int) {
    let what =
      count == 1
      ? "1 item was not uploaded yet; it is kept, and goes"
      : "\(count) items were not uploaded yet; they are kept, and go"
    Console.error("\(what) on at the next mount")
  }

  /// Through the daemon, which ends its session even when files are open; without its help when it does not answer.
  private static func end(_ mount: MountEntry) throws(Failure) {
    do {
      try ControlClient(mount).require(.unmount(force: true), patience: 10)
    } catch {
      Console.error(error.message)
    }
    guard try MountTable.current().docsfs.contains(mount) else { return }
    Unmounting.abort(mount)
    try Unmounting.unmount(mount.mountpoint, lazily: true)
  }

  /// Only then another mount may have the state directory.
  private static func waitForEnd(_ mount: MountEntry) throws(Failure) {
    let state = StateDirectory(path: mount.stateDirectory)
    if state.waitUntilFree(seconds: 30) { return }
    let pid = state.holder()?.pid.map { " (process \($0))" } ?? ""
    throw Failure(
      "\(mount.mountpoint) is unmounted, but its daemon\(pid) has not ended; something still uses its files",
      ExitCode.tryAgain)
  }
}
