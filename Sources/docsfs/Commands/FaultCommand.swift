import CLinux
import Faults
import Glibc

/// `docsfs fault`: the grammar of `.docsfs/control` over the socket, which answers while the mount hangs.
enum FaultCommand {
  static let spec = CommandSpec(
    name: "fault", arguments: "MOUNTPOINT [COMMAND...|-]\nlog MOUNTPOINT\ncheck MOUNTPOINT",
    summary: "Make a mount fail on demand; without COMMAND, show what is armed.",
    details: details, options: [OptionSpec("json", "j", "Print the rules and counters as JSON")], counts: 1...Int.max,
    stopsAtFirstArgument: true, run: run)

  private static let details: String = {
    let verbs = ControlCommand.verbs.joined(separator: ", ")
    let keys = FaultKey.Kind.allCases.map { kind in
      let lines = FaultKey.all.filter { $0.kind == kind }.map { "  \($0.form)  \($0.help)" }
      return (["\(kind.rawValue.capitalizedFirst):"] + lines).joined(separator: "\n")
    }
    let groups = FaultOperationGroup.all.map { "  \($0.name)  \($0.help)" }
    return """
      COMMAND is a verb and its words: \(verbs). One argument is taken as a whole line, or as JSON when it begins \
      with {. With - commands are read from standard input, a line each, up to the first that is refused.

      \(keys.joined(separator: "\n"))
      Operations: \(FaultOperations.all.names)
      \(groups.joined(separator: "\n"))
      Profiles: \(LinkProfile.all.map(\.name).joined(separator: ", "))

      log prints the log of faults, check tells of rules that never fired or that no program saw; see \
      docsfs fault log --help.
      """
  }()

  static func run(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    let words = arguments.arguments
    for other in [FaultLogCommand.spec, FaultCheckCommand.spec] where other.name == "fault \(FilePath(words[0]).text)" {
      return try runOther(other, Array(words.dropFirst()))
    }
    let mount = try PathResolver.current().requireMount(FilePath(words[0]))
    let client = try ControlClient(mount)
    switch words.dropFirst().first.map({ FilePath($0).text }) {
    case nil: try show(client, mount, isJSON: arguments.has("json"))
    case "--json", "-j": try show(client, mount, isJSON: true)
    case "-" where words.count == 2: return try runInput(client)
    default: return try run(words.dropFirst(), client)
    }
    return ExitCode.done
  }

  private static func runOther(_ spec: CommandSpec, _ words: [[UInt8]]) throws(Failure) -> Int32 {
    switch try ArgumentParser.parse(spec, words) {
    case .help:
      ArgumentParser.printHelp(spec)
      return ExitCode.done
    case .run(let parsed): return try spec.run(parsed)
    }
  }

  private static func show(_ client: ControlClient, _ mount: MountEntry, isJSON: Bool) throws(Failure) {
    if isJSON {
      Console.print(JSONText.of(try client.faults()))
      return
    }
    try client.require(.rules) { if let text = $0.text { Console.write(text, to: STDOUT_FILENO) } }
  }

  /// The line that the shell's words stand for: one word is a line already.
  static func line(_ words: ArraySlice<[UInt8]>) -> [UInt8] {
    if words.count == 1, let whole = words.first { return whole }
    return Array(words.map(quoted).joined(separator: " ").utf8)
  }

  private static func quoted(_ word: [UInt8]) -> String {
    guard let sign = word.firstIndex(of: UInt8(ascii: "=")), sign > 0,
      word[..<sign].allSatisfy({ (0x61...0x7a).contains($0) || $0 == 0x2d || $0 == 0x5f })
    else { return ControlLine.word(word) }
    let value = word[(sign + 1)...]
    return String(decoding: word[...sign], as: UTF8.self) + (value.isEmpty ? "" : ControlLine.word(value))
  }

  /// One command, from the shell's words; a single word may hold several lines.
  static func run(_ words: ArraySlice<[UInt8]>, _ client: ControlClient) throws(Failure) -> Int32 {
    var input = ControlInput()
    input.append(line(words))
    var count = 0
    while true {
      let statement: ControlStatement?
      do { statement = try input.finish() } catch {
        // Of words that the shell took apart a column tells nothing; the message names the word.
        throw .usage(words.count == 1 ? error.description : error.message)
      }
      guard let statement else { break }
      try send(statement.command, client)
      count += 1
    }
    guard count > 0 else { throw .usage("fault: the command is empty") }
    return ExitCode.done
  }

  private static func runInput(_ client: ControlClient) throws(Failure) -> Int32 {
    var input = ControlInput()
    var piece = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = piece.withUnsafeMutableBytes { read(STDIN_FILENO, $0.baseAddress, $0.count) }
      if count < 0, errno == EINTR { continue }
      input.append(piece.prefix(max(0, count)))
      while let statement = try next(&input, isLast: count <= 0) {
        try send(statement.command, client, at: statement.place)
      }
      if count <= 0 { return ExitCode.done }
    }
  }

  private static func next(_ input: inout ControlInput, isLast: Bool) throws(Failure) -> ControlStatement? {
    do { return isLast ? try input.finish() : try input.next() } catch { throw .usage("standard input:\(error)") }
  }

  /// Shows what the daemon says meanwhile; throws what it says when it refuses.
  private static func send(
    _ command: ControlCommand, _ client: ControlClient, at place: ControlPlace? = nil
  ) throws(Failure) {
    var bar = ProgressBar(command.verb)
    let last = try client.run(ControlRequest(command)) { reply in
      if let progress = reply.progress { bar.show(progress) }
      guard let item = reply.item, let reason = reply.refused else { return }
      bar.clear()
      Console.error("\(item.path): \(reason)")
    }
    bar.clear()
    guard let exit = last.exit, exit != ExitCode.done else { return }
    let message = (last.error ?? "\(command.verb): refused").withoutPlace
    throw Failure(place.map { "standard input:\($0.line):\($0.column): \(message)" } ?? message, exit)
  }
}

extension ControlCommand {
  /// The first word of its line, for people.
  fileprivate var verb: String { String(text.prefix { $0 != " " }) }
}

extension String {
  fileprivate var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }

  /// Where the daemon met a mistake is a place in the line that it got, which is not what the user wrote.
  fileprivate var withoutPlace: String {
    let parts = split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count == 3, parts.prefix(2).allSatisfy({ Int($0) != nil }) else { return self }
    return String(parts[2].drop { $0 == " " })
  }
}
