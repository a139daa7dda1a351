/// Prometheus' text format, version 0.0.4: families of samples, each with its HELP and TYPE.
struct Exposition {
  enum Kind: String {
    case counter, gauge, histogram
  }
  typealias Labels = KeyValuePairs<String, String>

  private(set) var text = ""

  /// One family with one sample.
  mutating func add(_ kind: Kind, _ name: String, _ help: String, _ value: some Numeric & CustomStringConvertible) {
    add(kind, name, help) { $0.sample([:], value) }
  }

  /// One family, whose samples `body` adds.
  mutating func add(_ kind: Kind, _ name: String, _ help: String, _ body: (inout Family) -> Void) {
    var family = Family(name: name)
    body(&family)
    let help = help.replacing("\\", with: "\\\\").replacing("\n", with: "\\n")
    text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n\(family.lines)"
  }

  struct Family {
    fileprivate let name: String
    fileprivate var lines = ""

    mutating func sample(_ labels: Labels, _ value: some Numeric & CustomStringConvertible) {
      line(name, labels, value.description)
    }

    /// `cumulative`: how many values were at most each of `bounds`, and how many there were.
    mutating func histogram(_ labels: Labels, bounds: [Double], cumulative: [UInt64], sum: Double) {
      let own = labels.map { ($0.key, $0.value) }
      for (bound, count) in zip(bounds.map(Self.bound) + ["+Inf"], cumulative) {
        line("\(name)_bucket", own + [("le", bound)], count.description)
      }
      line("\(name)_sum", own, sum.description)
      line("\(name)_count", own, (cumulative.last ?? 0).description)
    }

    private static func bound(_ value: Double) -> String {
      value == value.rounded() ? "\(Int(value))" : value.description
    }

    private mutating func line(_ name: String, _ labels: Labels, _ value: String) {
      line(name, labels.map { ($0.key, $0.value) }, value)
    }

    private mutating func line(_ name: String, _ labels: [(String, String)], _ value: String) {
      let list = labels.map { "\($0.0)=\"\(Self.escaped($0.1))\"" }.joined(separator: ",")
      lines += "\(name)\(list.isEmpty ? "" : "{\(list)}") \(value)\n"
    }

    private static func escaped(_ value: String) -> String {
      value.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }
  }
}
