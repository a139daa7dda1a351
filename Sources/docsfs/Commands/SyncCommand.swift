import DocsEngine

enum SyncCommand {
  static let spec = CommandSpec(
    name: "sync", arguments: "[MOUNTPOINT]",
    summary: "Wait until all edits are uploaded; list those that are not.",
    details:
      "Without MOUNTPOINT: all mounts. Exit code 75 when the time is over with items left, 1 when items have errors.",
    options: [
      OptionSpec("timeout", "t", argument: "SECONDS", "Wait no longer than that"),
      OptionSpec("json", "j", "Print what is left as JSON"),
    ], counts: 0...1, run: run)

  static func run(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    let timeout = try arguments.seconds("timeout")
    var outcome = Outcome()
    for mount in try mounts(arguments) {
      do {
        try wait(mount, timeout, isJSON: arguments.has("json"))
        outcome.succeeded()
      } catch {
        outcome.failed(error)
      }
    }
    return outcome.exitCode
  }

  private static func mounts(_ arguments: ParsedArguments) throws(Failure) -> [MountEntry] {
    if let path = arguments.arguments.first {
      return [try PathResolver.current().requirePlace(FilePath(path)).mount]
    }
    let all = try MountTable.current().docsfs
    if all.isEmpty { throw Failure("nothing is mounted, so nothing can be uploaded", ExitCode.unavailable) }
    return all
  }

  private static func waiting(_ timeout: Double?) -> ControlRequest {
    ControlRequest(.wait(.idle, timeout: timeout.map { UInt64($0 * 1e9) }))
  }

  /// Throws what is left: 75 when time was over, 1 when items have errors.
  static func wait(_ mount: MountEntry, _ timeout: Double?, isJSON: Bool = false) throws(Failure) {
    var bar = ProgressBar("uploading")
    var left: [ItemStatus] = []
    let last = try ControlClient(mount).run(waiting(timeout)) { reply in
      if let progress = reply.progress { bar.show(progress) }
      if let item = reply.item { left.append(item) }
    }
    bar.clear()
    if isJSON { Console.print(JSONText.of(Left(mountpoint: mount.mountpoint.description, left: left))) }
    guard let exit = last.exit, exit != ExitCode.done else { return }
    if !isJSON {
      for item in left {
        Console.print("\(mount.mountpoint.appending(item.path)): \(item.error ?? item.sync)")
      }
    }
    throw Failure(
      "\(mount.mountpoint): \(last.error ?? "not all is uploaded"); it is kept, and goes on in the background",
      exit)
  }

  private struct Left: Encodable {
    var mountpoint: String
    var left: [ItemStatus]
  }
}
