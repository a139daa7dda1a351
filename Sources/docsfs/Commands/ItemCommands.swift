import CLinux
import DocsEngine

/// materialize, evict, pin and unpin: one request for each path, with what was refused a line each.
enum ItemCommands {
  static let materialize = spec(
    "materialize", aliases: ["download"], "Fetch the bytes of items, to have them offline.",
    verb: "materializing"
  ) { ControlRequest(.materialize($0, recursive: $1)) }

  static let evict = spec(
    "evict", "Drop the local bytes of items that the container has.", verb: "evicting"
  ) { ControlRequest(.evict($0, recursive: $1)) }

  static let pin = spec(
    "pin", "Keep items materialized, and what comes into pinned folders.", verb: "pinning"
  ) { path, _ in ControlRequest(.pin(path, true)) }

  static let unpin = spec(
    "unpin", "Let items be evicted again.", verb: "unpinning"
  ) { path, _ in ControlRequest(.pin(path, false)) }

  private static func spec(
    _ name: String, aliases: [String] = [], _ summary: String, verb: String,
    request: @escaping @Sendable ([UInt8], Bool) -> ControlRequest
  ) -> CommandSpec {
    CommandSpec(
      name: name, aliases: aliases, arguments: "PATH...", summary: summary,
      options: [
        OptionSpec("recursive", "r", "Folders with all that is in them"),
        OptionSpec("json", "j", "Print JSON, a line for each item"),
      ], counts: 1...Int.max
    ) { arguments throws(Failure) in
      var outcome = Outcome()
      for path in arguments.arguments.map({ FilePath($0) }) {
        do throws(Failure) {
          try run(path, arguments, verb, request)
          outcome.succeeded()
        } catch {
          outcome.failed(error)
        }
      }
      return outcome.exitCode
    }
  }

  private static func run(
    _ path: FilePath, _ arguments: ParsedArguments, _ verb: String,
    _ request: @Sendable ([UInt8], Bool) -> ControlRequest
  ) throws(Failure) {
    let place = try PathResolver.current().requirePlace(path)
    let isJSON = arguments.has("json")
    var bar = ProgressBar(verb)
    var refusals = 0
    let last = try ControlClient(place.mount).run(request(place.relative, arguments.has("recursive"))) {
      reply in
      if let progress = reply.progress { bar.show(progress) }
      guard let item = reply.item else { return }
      if reply.refused != nil { refusals += 1 }
      if isJSON {
        bar.clear()
        Console.print(JSONText.of(ItemOutcome(item: item, refused: reply.refused)))
      } else if let reason = reply.refused {
        bar.clear()
        Console.error("\(full(place, item)): \(explained(reason, full(place, item)))")
      }
    }
    bar.clear()
    guard let exit = last.exit, exit != ExitCode.done else { return }
    throw Failure(refusals > 0 ? "" : "\(path): \(last.error ?? "\(verb) failed")", exit)
  }

  /// Who has it open stands in /proc, as far as this user may look.
  private static func explained(_ reason: String, _ path: FilePath) -> String {
    guard reason == "open" else { return reason }
    let holders = MountHolders.find(path)
    if holders.isEmpty { return "a program has it open; close it first" }
    return "open in " + holders.prefix(3).map { "\($0.command) (process \($0.pid))" }.joined(separator: ", ")
      + "; close it first"
  }

  private static func full(_ place: PathResolver.Place, _ item: ItemStatus) -> FilePath {
    place.mount.mountpoint.appending(item.path)
  }

  private struct ItemOutcome: Encodable {
    var item: ItemStatus
    var refused: String?
  }
}
