import Glibc
import StorageErrors

extension FaultRule {
  /// The line that could be written back.
  package var text: String { ControlText.line("add", attributes) }

  /// What `init` reads back as this rule.
  package var attributes: [ControlAttribute] {
    var list: [ControlAttribute] = []
    func add(_ key: String, _ value: String?) { if let value { list.append(ControlAttribute(key, Array(value.utf8))) } }
    func add(_ key: String, _ pattern: PathPattern?) {
      if let pattern { list.append(ControlAttribute(key, pattern.source)) }
    }
    add("id", id.isEmpty ? nil : id)
    add("op", match.operations == .all ? nil : match.operations.text)
    add("path", match.path)
    add("uid", match.uid.map(String.init))
    add("pid", match.pid.map(String.init))
    add("exe", match.executable)
    add("fh", match.handle?.rawValue)
    add("range", match.range?.text)
    add("when", match.when?.text)
    add("after", match.after.map(Quantity.text(bytes:)))
    add("prob", match.probability.map(percentText))
    for (key, value) in effect.values { add(key, value) }
    add("times", limit.times.map(String.init))
    add("for", limit.duration.map(Quantity.text(nanoseconds:)))
    return list
  }
}

extension FaultEffect {
  /// As they are written: `errno=EIO delay=200ms`.
  package var text: String { ControlText.words(values.map { ControlAttribute($0, Array($1.utf8)) }) }

  fileprivate var values: [(String, String)] {
    var list: [(String, String)] = []
    func add(_ key: String, _ value: String?) { if let value { list.append((key, value)) } }
    add("errno", errno?.symbol)
    add("delay", delay?.text)
    add("hang", hang ? "1" : nil)
    add("short", short.map { Quantity.text(bytes: Int64($0)) })
    add("torn", torn.map { Quantity.text(bytes: Int64($0)) })
    add("corrupt", corrupt.map(String.init))
    add("lose", losesDirty ? "dirty" : nil)
    add("kill", kill.map { $0 == SIGKILL ? "1" : FaultSignal.name($0) ?? String($0) })
    return list
  }
}

extension Errno {
  /// The name, or the number where there is none: what `errno=` reads.
  package var symbol: String { Errno(name: name) == nil ? String(rawValue) : name }
}

extension FaultOperations {
  /// A group's name if there is one for exactly these, else all of them.
  package var text: String {
    FaultOperationGroup.all.first { $0.operations == self }?.name ?? list.map(\.rawValue).joined(separator: ",")
  }
}

extension FaultRange {
  var text: String { "\(Quantity.text(bytes: start))-\(end.map(Quantity.text(bytes:)) ?? "")" }
}

extension FaultOrdinals {
  var text: String {
    if first == last { return String(first) }
    return "\(first)..\(last.map(String.init) ?? "")" + (step == 1 ? "" : "+\(step)")
  }
}

extension FaultDelay {
  var text: String {
    Quantity.text(nanoseconds: base) + (jitter == 0 ? "" : "~" + Quantity.text(nanoseconds: jitter))
  }
}

/// Billionths as a percentage, without trailing zeros.
private func percentText(_ billionths: UInt64) -> String {
  let digits = String(billionths % 10_000_000)
  let fraction = String(repeating: "0", count: 7 - digits.count) + digits
  let kept = fraction.reversed().drop { $0 == "0" }.reversed()
  return "\(billionths / 10_000_000)" + (kept.isEmpty ? "" : "." + String(kept)) + "%"
}

/// Attributes as a line of text.
enum ControlText {
  static func line(_ verb: String, _ attributes: [ControlAttribute]) -> String {
    attributes.isEmpty ? verb : verb + " " + words(attributes)
  }

  static func words(_ attributes: [ControlAttribute]) -> String {
    attributes.map { attribute in
      if attribute.key.isEmpty { return ControlLine.word(attribute.value) }
      if FaultKey.flags.contains(attribute.key), attribute.text == "1" { return attribute.key }
      return "\(attribute.key)=" + (attribute.value.isEmpty ? "" : ControlLine.word(attribute.value))
    }.joined(separator: " ")
  }

}
