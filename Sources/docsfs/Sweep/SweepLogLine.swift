import FoundationEssentials

/// What a sweep reads of a line of the fault log.
struct SweepLogLine: Decodable {
  var rule: String?
  var op: String?
  var path: String?
  var newPath: String?

  init?(_ line: String) {
    guard let line = try? JSONDecoder().decode(Self.self, from: Data(line.utf8)) else { return nil }
    self = line
  }
}
