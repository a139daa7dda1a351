import Faults

/// One option of a command, as argp's table wants it.
struct OptionSpec: Sendable {
  var name: String
  var short: Character?
  /// What stands for its value in the help; nil: it takes none.
  var argument: String?
  var argumentIsOptional = false
  var isHidden = false
  var help: String

  init(
    _ name: String, _ short: Character?, argument: String? = nil, optional: Bool = false,
    hidden: Bool = false, _ help: String
  ) {
    self.name = name
    self.short = short
    self.argument = argument
    self.argumentIsOptional = optional
    self.isHidden = hidden
    self.help = help
  }
}

struct CommandSpec: Sendable {
  var name: String
  var aliases: [String] = []
  /// The arguments, as the usage line shows them.
  var arguments: String
  var summary: String
  /// Shown below the options in `--help`.
  var details = ""
  var options: [OptionSpec] = []
  var counts: ClosedRange<Int>
  /// Options end at the first argument: what follows is somebody else's command.
  var stopsAtFirstArgument = false
  var run: @Sendable (ParsedArguments) throws(Failure) -> Int32
}

/// What a command line said. Values are bytes: a path need not be text.
struct ParsedArguments: Equatable {
  struct Option: Equatable {
    var name: String
    var value: [UInt8]?
  }
  var options: [Option] = []
  var arguments: [[UInt8]] = []
  /// The first of `arguments` that stood behind `--`; nil when none did.
  var quotedFrom: Int?

  func has(_ name: String) -> Bool { options.contains { $0.name == name } }

  /// The last one given counts.
  func value(_ name: String) -> [UInt8]? { options.last { $0.name == name }?.value }
  func text(_ name: String) -> String? { value(name).map { String(decoding: $0, as: UTF8.self) } }
  func values(_ name: String) -> [[UInt8]] { options.filter { $0.name == name }.compactMap(\.value) }

  /// A time such as `30s`; nil when the option is absent or has no value.
  func seconds(_ name: String) throws(Failure) -> Double? {
    guard let text = text(name) else { return nil }
    guard let seconds = Quantity.seconds(text) else {
      throw .usage("--\(name)=\(text) is no time; write seconds, or 500ms, 2m, 1h")
    }
    return seconds
  }
}
