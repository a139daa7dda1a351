import StorageErrors

/// A line of `.docsfs/log`: one JSON object a line.
package struct FaultLogLine: Sendable {
  package enum Content: Sendable {
    /// `decision` is nil for a call that is only recorded (`set record=1`).
    case call(FaultCall, rule: String?, effect: String?, errno: Errno?, visible: Bool?)
    case mark(String)
  }
  package var sequence: UInt64
  /// Nanoseconds since 1970, UTC.
  package var time: Int64
  package var content: Content

  package init(sequence: UInt64, time: Int64, _ content: Content) {
    self.sequence = sequence
    self.time = time
    self.content = content
  }

  /// Without a newline.
  package var text: String {
    var members = ["\"seq\":\(sequence)", "\"time\":\"\(rfc3339(time))\""]
    switch content {
    case .mark(let text): members.append("\"mark\":\(JSONText.string(text.utf8))")
    case .call(let call, let rule, let effect, let errno, let visible):
      if let rule { members.append("\"rule\":\(JSONText.string(rule.utf8))") }
      members += call.members
      if let errno { members.append("\"errno\":\"\(errno.name)\"") }
      if let effect { members.append("\"effect\":\(JSONText.string(effect.utf8))") }
      if let visible { members.append("\"visible\":\(visible)") }
    }
    return "{" + members.joined(separator: ",") + "}"
  }
}

extension FaultCall {
  /// Without what is unknown.
  fileprivate var members: [String] {
    var members = ["\"op\":\"\(operation.rawValue)\""]
    members += Self.path("path", path)
    if let newPath { members += Self.path("newPath", newPath) }
    if let offset { members.append("\"offset\":\(offset)") }
    if FaultOperations.placed.contains(operation) { members.append("\"length\":\(length)") }
    members.append("\"uid\":\(uid)")
    members.append("\"pid\":\(pid)")
    if !executable.isEmpty { members += Self.path("exe", executable) }
    return members
  }

  /// The text, and beside it the bytes in hexadecimal where the text does not tell them all.
  private static func path(_ key: String, _ bytes: [UInt8]) -> [String] {
    let text = String(decoding: bytes, as: UTF8.self)
    let shown = "\"\(key)\":\(JSONText.string(text.utf8))"
    return text.utf8.elementsEqual(bytes)
      ? [shown] : [shown, "\"\(key)Bytes\":\"\(bytes.map(JSONText.hex).joined())\""]
  }
}

/// `2026-11-30T18:05:09.000000123Z`, of nanoseconds since 1970.
package func rfc3339(_ time: Int64) -> String {
  func pad(_ number: Int64, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.count)) + digits
  }
  let (days, ofDay) = time.dividedFloor(by: 86_400_000_000_000)
  let (year, month, day) = civil(days)
  let (seconds, nanoseconds) = ofDay.dividedFloor(by: 1_000_000_000)
  let clock = [seconds / 3600, seconds / 60 % 60, seconds % 60].map { pad($0, 2) }.joined(separator: ":")
  return "\(pad(year, 4))-\(pad(month, 2))-\(pad(day, 2))T\(clock).\(pad(nanoseconds, 9))Z"
}

extension Int64 {
  /// The remainder is never negative.
  fileprivate func dividedFloor(by divisor: Int64) -> (Int64, Int64) {
    let (quotient, rest) = quotientAndRemainder(dividingBy: divisor)
    return rest < 0 ? (quotient - 1, rest + divisor) : (quotient, rest)
  }
}

/// The date of a day since 1970 in the Gregorian calendar, by eras of 400 years that begin in March.
private func civil(_ days: Int64) -> (year: Int64, month: Int64, day: Int64) {
  let (era, dayOfEra) = (days + 719_468).dividedFloor(by: 146_097)
  let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
  let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
  let shifted = (5 * dayOfYear + 2) / 153
  let month = shifted < 10 ? shifted + 3 : shifted - 9
  return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shifted + 2) / 5 + 1)
}
