/// What can be written to the control file or socket.
package enum ControlCommand: Equatable, Sendable {
  case add(FaultRule)
  /// `set ID key=value …`
  case change(FaultChange)
  /// `set record=1`: every operation of the mount is logged, and fails no more than without.
  case record(Bool)
  /// The whole set at once; a seed of nil stays.
  case replace([FaultRule], seed: UInt64?)
  case del(String)
  case clear
  case seed(UInt64)
  /// `duration` in nanoseconds; nil: until `reconnect`.
  case disconnect(LinkProfile, duration: UInt64?)
  case reconnect
  case cloud(CloudChange)
  case mark(String)
  /// `timeout` in nanoseconds; nil: as long as it takes.
  case wait(FaultWait, timeout: UInt64?)
  case evict([UInt8], recursive: Bool)
  case materialize([UInt8], recursive: Bool)
  case pin([UInt8], Bool)
  case refresh([UInt8])
  case pause
  case resume

  package static let verbs = [
    "add", "set", "del", "clear", "disconnect", "reconnect", "cloud", "seed", "mark", "wait", "evict", "materialize",
    "pin", "unpin", "refresh", "pause", "resume",
  ]
}

/// Keys of a rule to be changed; those with an empty value are taken away.
package struct FaultChange: Equatable, Sendable {
  package var id: String
  package var attributes: [ControlAttribute]
}

/// What `wait` waits for.
package enum FaultWait: Equatable, Sendable {
  case idle
  case rule(id: String, FaultCounter, atLeast: Int)
}

package enum FaultCounter: String, CaseIterable, Sendable {
  case matched, fired, visible
}

/// What a `cloud` line changes.
package enum CloudChange: Equatable, Sendable {
  /// All is well again.
  case online
  /// On top of what holds; `duration` in nanoseconds, nil: until `cloud online`.
  case conditions(CloudConditions, duration: UInt64?)
}

/// A command, and where it stood.
package struct ControlStatement: Equatable, Sendable {
  package var command: ControlCommand
  package var place: ControlPlace

  /// One that a program gives, and that stood nowhere.
  package static func of(_ command: ControlCommand) -> ControlStatement {
    ControlStatement(command: command, place: ControlPlace())
  }
}

extension ControlCommand {
  /// The line that is read back as this command; JSON for `replace`, which has no other form.
  package var text: String {
    func on(_ verb: String, _ path: [UInt8], _ recursive: Bool = false) -> String {
      ControlText.line(verb, [ControlAttribute("", path)] + (recursive ? [Self.attribute("recursive", "1")] : []))
    }
    return switch self {
    case .add(let rule): rule.text
    case .change(let change): ControlText.line("set", [Self.attribute("", change.id)] + change.attributes)
    case .record(let on): "set record=\(on ? 1 : 0)"
    case .replace(let rules, let seed): Self.json(rules, seed)
    case .del(let id): "del \(id)"
    case .clear: "clear"
    case .seed(let seed): "seed \(seed)"
    case .disconnect(let profile, let duration):
      ControlText.line("disconnect", [Self.attribute("profile", profile.name)] + Self.duration("for", duration))
    case .reconnect: "reconnect"
    case .cloud(.online): "cloud online"
    case .cloud(.conditions(let conditions, let duration)):
      ControlText.line("cloud", conditions.attributes + Self.duration("for", duration))
    case .mark(let text): "mark \(ControlLine.quoted(text.utf8))"
    case .wait(.idle, let timeout):
      ControlText.line("wait", [Self.attribute("", "idle")] + Self.duration("timeout", timeout))
    case .wait(.rule(let id, let counter, let count), let timeout):
      ControlText.line(
        "wait",
        [Self.attribute("id", id), Self.attribute(counter.rawValue, "\(count)")] + Self.duration("timeout", timeout))
    case .evict(let path, let recursive): on("evict", path, recursive)
    case .materialize(let path, let recursive): on("materialize", path, recursive)
    case .pin(let path, let pinned): on(pinned ? "pin" : "unpin", path)
    case .refresh(let path): on("refresh", path)
    case .pause: "pause"
    case .resume: "resume"
    }
  }

  private static func attribute(_ key: String, _ value: String) -> ControlAttribute {
    ControlAttribute(key, Array(value.utf8))
  }

  private static func duration(_ key: String, _ nanoseconds: UInt64?) -> [ControlAttribute] {
    nanoseconds.map { [attribute(key, Quantity.text(nanoseconds: $0))] } ?? []
  }

  private static func json(_ rules: [FaultRule], _ seed: UInt64?) -> String {
    let list = rules.map { JSONText.string($0.text.utf8) }
    return "{\"replace\":[\(list.joined(separator: ","))]" + (seed.map { ",\"seed\":\($0)" } ?? "") + "}"
  }
}

/// A text as JSON writes it.
enum JSONText {
  static func string(_ text: some Sequence<UInt8>) -> String {
    var bytes: [UInt8] = [UInt8(ascii: "\"")]
    for byte in text {
      switch byte {
      case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
      case 0..<0x20: bytes += Array("\\u00\(hex(byte))".utf8)
      default: bytes.append(byte)
      }
    }
    return String(decoding: bytes + [UInt8(ascii: "\"")], as: UTF8.self)
  }

  static func hex(_ byte: UInt8) -> String { (byte < 16 ? "0" : "") + String(byte, radix: 16) }
}
