import CLinux
import Foundation
import StorageErrors

enum ClassifyCommand {
  static let spec = CommandSpec(
    name: "classify", arguments: "ERROR[,UNDERLYING...]... | - | -- COMMAND [ARG...]",
    summary: "Say what an error means for a document, and whether to try again.",
    details: """
      ERROR is an errno such as EIO, or DOMAIN:CODE, such as NSCocoaErrorDomain:512,ESTALE for a wrapped one; CODE may be \
      a name. The domains Cocoa, POSIX, FileProvider and URL need no NS...ErrorDomain around them. "-" reads errors as \
      JSON from standard input: {"domain": ..., "code": ..., "platform": "darwin", "userInfo": {...}, "underlying": \
      [...]}, or an array of them.

      With -- a command is run, and when it has ended the errors that it printed are explained, on standard error, or \
      with --json as the last line on standard output. The exit code is the command's; 127 it is not found, 126 it cannot \
      be run.
      """,
    options: [
      OptionSpec("json", "j", "Print JSON, a line for each error"),
      OptionSpec("platform", "p", argument: "PLATFORM", "Whose numbers an errno is in: linux (default) or darwin"),
    ], counts: 1...Int.max, run: run)

  static func run(_ arguments: ParsedArguments) throws(Failure) -> Int32 {
    let words = arguments.arguments
    if let first = arguments.quotedFrom {
      guard first == 0 else { throw .usage("classify: either errors or -- COMMAND, not both") }
      return try ExplainedCommand.run(words, isJSON: arguments.has("json"))
    }
    let platform = try platform(arguments)
    var explanations: [Explanation] = []
    for word in words.map({ String(decoding: $0, as: UTF8.self) }) {
      if word == "-" {
        explanations += try readJSON().map { Explanation($0, as: name($0)) }
      } else {
        explanations.append(Explanation(try ErrorText.parse(word, platform), as: word))
      }
    }
    if arguments.has("json") {
      for explanation in explanations { Console.print(JSONText.of(explanation)) }
    } else {
      Explanation.table(explanations).print()
    }
    return ExitCode.done
  }

  private static func platform(_ arguments: ParsedArguments) throws(Failure) -> Platform {
    guard let text = arguments.text("platform") else { return .current }
    if let platform = Platform(rawValue: text) { return platform }
    throw .usage("classify: --platform is linux or darwin, not \(text)")
  }

  /// As `ErrorText` would read it.
  private static func name(_ error: SerializedError) -> String {
    let below = error.underlying.isEmpty ? "" : "," + error.underlying.map(name).joined(separator: "+")
    return "\(error.domain):\(error.code)\(below)"
  }

  private static func readJSON() throws(Failure) -> [SerializedError] {
    let bytes = LineReader(STDIN_FILENO).rest()
    let isArray = bytes.first { ![0x20, 0x09, 0x0a, 0x0d].contains($0) } == UInt8(ascii: "[")
    do {
      let decoder = JSONDecoder()
      if isArray { return try decoder.decode([SerializedError].self, from: Data(bytes)) }
      return [try decoder.decode(SerializedError.self, from: Data(bytes))]
    } catch {
      throw Failure("standard input: \(explain(error))", ExitCode.usage)
    }
  }

  private static func explain(_ error: any Error) -> String {
    func place(_ path: [any CodingKey]) -> String {
      path.isEmpty ? "" : path.map { $0.intValue.map { "[\($0)]" } ?? ".\($0.stringValue)" }.joined() + ": "
    }
    switch error as? DecodingError {
    case .keyNotFound(let key, let context) where key.stringValue == "platform":
      return place(context.codingPath) + "\"platform\" is missing; write \"darwin\" or \"linux\""
    case .keyNotFound(let key, let context):
      return place(context.codingPath) + "\"\(key.stringValue)\" is missing"
    case .typeMismatch(_, let context), .valueNotFound(_, let context):
      return place(context.codingPath) + context.debugDescription
    case .dataCorrupted(let context):
      return place(context.codingPath) + "this is no error in JSON: \(context.debugDescription)"
    default: return "\(error)"
    }
  }
}

/// `docsfs classify -- COMMAND`.
private enum ExplainedCommand {
  private struct Report: Encodable {
    var command: [String]
    var exit: Int32
    var signal: String?
    var errors: [Explanation]
  }

  static func run(_ words: [[UInt8]], isJSON: Bool) throws(Failure) -> Int32 {
    EndSignals.block()
    let child = RunningChild()
    child.forwardSignals()
    let copy = try CopiedErrors()
    let name = FilePath(words[0])
    let pid: pid_t
    do {
      pid = try Spawn.start(
        program: name.text, searchingPath: true, words, Spawn.Files(errorDescriptor: copy.writer))
    } catch {
      throw Failure("cannot run \(name): \(error.message.lowercasedFirst)", error == .ENOENT ? 127 : 126)
    }
    copy.start()
    let status = child.wait(pid)
    let text = copy.finish()
    tell(words, status, text, isJSON)
    return status
  }

  private static func tell(_ words: [[UInt8]], _ status: Int32, _ text: String, _ isJSON: Bool) {
    var findings = ErrnoFinder().find(in: text)
    let signal = signals[status - 128]
    if let signal, let errno = signal.errno, !findings.contains(where: { $0.symbol == errno }) {
      findings.append(.init(symbol: errno, line: "ended by \(signal.name)"))
    }
    let explanations = findings.map { Explanation($0) }
    let command = words.map { String(decoding: $0, as: UTF8.self) }
    if isJSON {
      let report = Report(command: command, exit: status, signal: signal?.name, errors: explanations)
      return Console.print(JSONText.of(report))
    }
    if status == 0, explanations.isEmpty { return }
    let end = signal.map { "was ended by \($0.name) (exit status \(status))" } ?? "ended with exit status \(status)"
    Console.error("\(command[0]) \(end)" + (explanations.isEmpty ? "; it printed no error that is known" : ""))
    if explanations.isEmpty { return }
    for line in Explanation.table(explanations).lines { Console.write(line + "\n", to: STDERR_FILENO) }
  }

  /// With the errno for which the kernel sends it where a call cannot fail: a mapped page that cannot be read.
  private static let signals: [Int32: (name: String, errno: ErrnoSymbol?)] = [
    SIGHUP: ("SIGHUP", nil), SIGINT: ("SIGINT", nil), SIGQUIT: ("SIGQUIT", nil), SIGILL: ("SIGILL", nil),
    SIGTRAP: ("SIGTRAP", nil), SIGABRT: ("SIGABRT", nil), SIGBUS: ("SIGBUS", .EIO), SIGFPE: ("SIGFPE", nil),
    SIGKILL: ("SIGKILL", nil), SIGSEGV: ("SIGSEGV", nil), SIGPIPE: ("SIGPIPE", .EPIPE), SIGALRM: ("SIGALRM", nil),
    SIGTERM: ("SIGTERM", nil), SIGXCPU: ("SIGXCPU", nil), SIGXFSZ: ("SIGXFSZ", .EFBIG),
  ]
}
