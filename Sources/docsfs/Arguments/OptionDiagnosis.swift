import Faults

/// Finds what argp stumbled over, and says it in one line.
enum OptionDiagnosis {
  static func explain(_ arguments: [[UInt8]], _ spec: CommandSpec) -> Failure {
    let options = spec.options + [OptionSpec("help", "h", "")]
    var index = 0
    while index < arguments.count {
      let word = String(decoding: arguments[index], as: UTF8.self)
      index += 1
      if word == "--" { break }
      let isLast = index == arguments.count
      if word.hasPrefix("--") {
        let (problem, takesNext) = long(String(word.dropFirst(2)), options, isLast, spec)
        if let problem { return problem }
        if takesNext { index += 1 }
      } else if word.hasPrefix("-"), word.count > 1 {
        let (problem, takesNext) = short(word.dropFirst(), options, isLast, spec)
        if let problem { return problem }
        if takesNext { index += 1 }
      } else if spec.stopsAtFirstArgument {
        break
      }
    }
    return .usage("\(spec.name): the command line cannot be read; see docsfs \(spec.name) --help")
  }

  private static func long(
    _ word: String, _ options: [OptionSpec], _ isLast: Bool, _ spec: CommandSpec
  ) -> (Failure?, takesNext: Bool) {
    let name = String(word.prefix { $0 != "=" })
    let hasValue = word.contains("=")
    let visible = options.filter { !$0.isHidden }.map(\.name)
    let matches = options.filter { $0.name == name }
    let candidates = matches.isEmpty ? options.filter { $0.name.hasPrefix(name) } : matches
    guard let option = candidates.first, !name.isEmpty else {
      return (unknown("--\(name)", suggestion(for: name, among: visible, prefix: "--"), spec), false)
    }
    if candidates.count > 1 {
      let list = candidates.map { "--\($0.name)" }.joined(separator: " or ")
      return (.usage("\(spec.name): --\(name) could be \(list)"), false)
    }
    if hasValue, option.argument == nil {
      return (.usage("\(spec.name): --\(option.name) takes no value"), false)
    }
    let wantsNext = !hasValue && option.argument != nil && !option.argumentIsOptional
    if wantsNext, isLast { return (missing("--\(option.name)", option, spec), false) }
    return (nil, wantsNext)
  }

  private static func short(
    _ letters: Substring, _ options: [OptionSpec], _ isLast: Bool, _ spec: CommandSpec
  ) -> (Failure?, takesNext: Bool) {
    for (place, letter) in letters.enumerated() {
      guard let option = options.first(where: { $0.short == letter }) else {
        let names = options.filter { !$0.isHidden }.map(\.name)
        let hint = letters.count > 1 ? suggestion(for: String(letters), among: names, prefix: "--") : ""
        return (unknown("-\(letter)", hint, spec), false)
      }
      guard option.argument != nil else { continue }
      let isAttached = option.argumentIsOptional || place + 1 < letters.count
      if !isAttached, isLast { return (missing("-\(letter)", option, spec), false) }
      return (nil, !isAttached)
    }
    return (nil, false)
  }

  private static func unknown(_ option: String, _ hint: String, _ spec: CommandSpec) -> Failure {
    .usage(
      "\(spec.name): unknown option \(option)\(hint.isEmpty ? "; see docsfs \(spec.name) --help" : hint)")
  }

  private static func missing(_ option: String, _ spec: OptionSpec, _ command: CommandSpec) -> Failure {
    .usage("\(command.name): \(option) wants \(spec.argument ?? "a value") behind it")
  }
}
