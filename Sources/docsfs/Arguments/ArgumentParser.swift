import CLinux

/// glibc's argp over a `CommandSpec`. argp reads the line and formats the help; what it would print about a mistake
/// is said here instead, in one line that names the nearest option.
enum ArgumentParser {
  enum Outcome: Equatable {
    case run(ParsedArguments)
    case help
  }

  static func parse(_ spec: CommandSpec, _ arguments: [[UInt8]]) throws(Failure) -> Outcome {
    let table = OptionTable(spec)
    let vector = ArgumentVector([Array("docsfs \(spec.name)".utf8)] + arguments)
    let collector = Collector(table: table, stopsAtFirstArgument: spec.stopsAtFirstArgument)
    var parser = table.argp
    // Options may stand behind arguments in this order too; what stands before `--` is told from what follows it.
    let flags = UInt32(ARGP_NO_ERRS | ARGP_NO_EXIT | ARGP_NO_HELP | ARGP_IN_ORDER)
    let result = argp_parse(
      &parser, Int32(vector.count), vector.pointers, flags, nil,
      Unmanaged.passUnretained(collector).toOpaque())
    if result != 0 { throw OptionDiagnosis.explain(arguments, spec) }
    if collector.parsed.has("help") { return .help }
    try checkCount(collector.parsed.arguments.count, spec)
    return .run(collector.parsed)
  }

  static func printHelp(_ spec: CommandSpec) {
    let table = OptionTable(spec)
    var parser = table.argp
    lx_argp_help(&parser, "docsfs \(spec.name)")
  }

  private static func checkCount(_ count: Int, _ spec: CommandSpec) throws(Failure) {
    if spec.counts.contains(count) { return }
    let what = count < spec.counts.lowerBound ? "an argument is missing" : "too many arguments"
    throw .usage("\(spec.name): \(what); usage: docsfs \(spec.name) \(spec.arguments)")
  }
}

/// What argp's callback fills.
private final class Collector {
  let table: OptionTable
  let stopsAtFirstArgument: Bool
  var parsed = ParsedArguments()

  init(table: OptionTable, stopsAtFirstArgument: Bool) {
    self.table = table
    self.stopsAtFirstArgument = stopsAtFirstArgument
  }

  func take(_ key: Int32, _ text: UnsafeMutablePointer<CChar>?, _ state: UnsafeMutablePointer<argp_state>)
    -> Int32
  {
    if key == ARGP_KEY_ARG, let text {
      if state.pointee.quoted > 0, parsed.quotedFrom == nil { parsed.quotedFrom = parsed.arguments.count }
      parsed.arguments.append(bytes(text))
      if stopsAtFirstArgument { takeRest(state) }
      return 0
    }
    guard let name = table.names[key] else { return ARGP_ERR_UNKNOWN }
    parsed.options.append(.init(name: name, value: text.map(bytes)))
    return 0
  }

  private func takeRest(_ state: UnsafeMutablePointer<argp_state>) {
    while state.pointee.next < state.pointee.argc {
      if let text = state.pointee.argv[Int(state.pointee.next)] { parsed.arguments.append(bytes(text)) }
      state.pointee.next += 1
    }
  }

  private func bytes(_ text: UnsafeMutablePointer<CChar>) -> [UInt8] {
    Array(UnsafeRawBufferPointer(start: text, count: strlen(text)))
  }
}

private func collect(
  _ key: Int32, _ text: UnsafeMutablePointer<CChar>?, _ state: UnsafeMutablePointer<argp_state>?
) -> Int32 {
  guard let state, let input = state.pointee.input else { return ARGP_ERR_UNKNOWN }
  return Unmanaged<Collector>.fromOpaque(input).takeUnretainedValue().take(key, text, state)
}

/// E2BIG, which the importer does not carry over from the macro of that name.
private let ARGP_ERR_UNKNOWN = E2BIG

/// The C table of a spec; its strings live as long as it does.
private final class OptionTable {
  private(set) var names: [Int32: String] = [:]
  private let options: UnsafeMutablePointer<argp_option>
  private var strings: [UnsafeMutablePointer<CChar>] = []
  private let usage: UnsafePointer<CChar>?
  private let text: UnsafePointer<CChar>?

  init(_ spec: CommandSpec) {
    let all = spec.options + [OptionSpec("help", "h", "Show this help")]
    options = .allocate(capacity: all.count + 1)
    var strings: [UnsafeMutablePointer<CChar>] = []
    func copy(_ text: String) -> UnsafePointer<CChar>? {
      guard let copy = strdup(text) else { return nil }
      strings.append(copy)
      return UnsafePointer(copy)
    }
    for (index, option) in all.enumerated() {
      let key = option.short?.asciiValue.map(Int32.init) ?? 256 + Int32(index)
      names[key] = option.name
      let flags =
        (option.argumentIsOptional ? OPTION_ARG_OPTIONAL : 0) | (option.isHidden ? OPTION_HIDDEN : 0)
      (options + index).initialize(
        to: argp_option(
          name: copy(option.name), key: key, arg: option.argument.flatMap(copy), flags: flags,
          doc: copy(option.help), group: 0))
    }
    (options + all.count).initialize(to: argp_option())
    usage = copy(spec.arguments)
    text = copy(spec.summary + (spec.details.isEmpty ? "" : "\u{0b}" + spec.details))
    self.strings = strings
  }

  var argp: CLinux.argp {
    CLinux.argp(
      options: options, parser: collect, args_doc: usage, doc: text, children: nil, help_filter: nil,
      argp_domain: nil)
  }

  deinit {
    options.deallocate()
    for string in strings { free(string) }
  }
}

/// A NULL-terminated `argv`.
final class ArgumentVector {
  let count: Int
  let pointers: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
  private let strings: [UnsafeMutablePointer<CChar>?]

  init(_ arguments: [[UInt8]]) {
    count = arguments.count
    // argp permutes `pointers`, so what is to be freed is remembered apart.
    strings = arguments.map { bytes in FilePath(bytes).call { strdup($0) } }
    pointers = .allocate(capacity: count + 1)
    for (index, string) in strings.enumerated() { (pointers + index).initialize(to: string) }
    (pointers + count).initialize(to: nil)
  }

  deinit {
    for string in strings { free(string) }
    pointers.deallocate()
  }
}
