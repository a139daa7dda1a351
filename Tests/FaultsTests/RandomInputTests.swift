import TestSupport
import XCTest

@testable import Faults

/// Rules and inputs from a seed. `DOCSFS_FUZZ=N` runs N inputs; `DOCSFS_SEED` begins elsewhere.
final class RandomInputTests: FaultsTestCase {
  func testAnyRuleReadsBackAsItWasWritten() throws {
    var random = SeededRandom(SeededRandom.setting("DOCSFS_SEED", 17))
    var made = 0
    for _ in 0..<4000 {
      let keys = randomRule(&random)
      guard let statement = try? ControlStatement("add \(keys)".utf8), case .add(var rule) = statement.command else {
        continue
      }
      made += 1
      XCTAssertEqual(try command(rule.text), .add(rule), keys)
      XCTAssertEqual(try ControlStatement(json(rule))?.command, .replace([rule], seed: nil), keys)
      var set = FaultSet()
      try set.apply(statement, now: 0)
      rule.id = set.rules[0].id
      let written = try XCTUnwrap(set.text(now: 0).split(separator: "\n").last)
      XCTAssertEqual(try command(String(written)), .add(rule), "with the counters behind it")
    }
    XCTAssertGreaterThan(made, 1000)
  }

  /// Bytes that are no UTF-8 stand as they are, which only bytes can.
  private func json(_ rule: FaultRule) -> [UInt8] {
    let members = rule.attributes.map { attribute in
      let value = attribute.value.flatMap { [0x22, 0x5c].contains($0) ? [0x5c, $0] : [$0] }
      return Array("\"\(attribute.key)\":\"".utf8) + value + [0x22]
    }
    return Array("{\"replace\":[{".utf8) + members.joined(separator: [0x2c]) + Array("}]}".utf8)
  }

  /// Whatever is written, it is a command or a refusal with its place; and in pieces it is the same.
  func testAnyInputIsReadOrRefused() throws {
    let corpus = try Self.corpus()
    var random = SeededRandom(SeededRandom.setting("DOCSFS_SEED", 23))
    for input in corpus { check(input, &random) }
    for _ in 0..<SeededRandom.setting("DOCSFS_FUZZ", 3000) {
      let base = corpus.randomElement(using: &random) ?? []
      check(mutated(base, corpus, &random), &random)
    }
  }

  static func corpus() throws -> [[UInt8]] {
    let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Corpus")
    let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
    return try files.sorted { $0.path < $1.path }.map { [UInt8](try Data(contentsOf: $0)) }
  }

  private enum Outcome: Equatable {
    case command(ControlCommand)
    case refused(ControlError)
  }

  private func outcomes(_ pieces: [ArraySlice<UInt8>]) -> [Outcome] {
    var input = ControlInput()
    var outcomes: [Outcome] = []
    do {
      for piece in pieces {
        input.append(piece)
        while let statement = try input.next() { outcomes.append(.command(statement.command)) }
      }
      while let statement = try input.finish() { outcomes.append(.command(statement.command)) }
    } catch { outcomes.append(.refused(error)) }
    return outcomes
  }

  private func check(_ input: [UInt8], _ random: inout SeededRandom) {
    let whole = outcomes([input[...]])
    let cut = Int.random(in: 0...input.count, using: &random)
    XCTAssertEqual(outcomes([input[..<cut], input[cut...]]), whole)
    var set = FaultSet()
    for outcome in whole {
      switch outcome {
      case .refused(let error):
        let lines = input.count { $0 == 0x0a } + 1
        XCTAssertTrue((1...lines).contains(error.line) && error.column >= 1 && !error.message.isEmpty, "\(error)")
      case .command(let command):
        XCTAssertEqual(try? ControlStatement(command.text.utf8)?.command, command, command.text)
        _ = try? set.apply(command, now: 0)
      }
    }
    for call in probes { XCTAssertEqual(set.preview(call, now: 1), set.decide(call, now: 1)) }
  }

  private var probes: [FaultCall] {
    [
      call(.read, "/d/a.txt", pid: 7, exe: "/bin/cp", handle: .old, at: 0, length: 4096), call(.getattr, "/"),
      call(.rename, "/a", to: "/b/c"), call(.write, "/aaaaaaaaaaaaaaaaaaaaaaaa", at: .max, length: .max),
    ]
  }

  private func mutated(_ base: [UInt8], _ corpus: [[UInt8]], _ random: inout SeededRandom) -> [UInt8] {
    var bytes = base
    for _ in 0..<Int.random(in: 1...4, using: &random) {
      let place = Int.random(in: 0...bytes.count, using: &random)
      switch Int.random(in: 0..<6, using: &random) {
      case 0: bytes.insert(UInt8.random(in: 0...255, using: &random), at: place)
      case 1: if place < bytes.count { bytes.remove(at: place) }
      case 2: if place < bytes.count { bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random) }
      case 3: bytes.insert(Array("{}[]\"\\=,#\n '*:~+-.9".utf8).randomElement(using: &random) ?? 0, at: place)
      case 4:
        let other = corpus.randomElement(using: &random) ?? []
        bytes.insert(contentsOf: other.prefix(Int.random(in: 0...other.count, using: &random)).suffix(12), at: place)
      default: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 0...8, using: &random)))
      }
    }
    return bytes
  }

  private func randomRule(_ random: inout SeededRandom) -> String {
    func pick(_ choices: [String]) -> String { choices.randomElement(using: &random) ?? "" }
    func number(_ top: Int) -> Int { Int.random(in: 1...top, using: &random) }
    var keys: [String] = []
    func maybe(_ percent: Int, _ make: () -> String) { if random.chance(percent) { keys.append(make()) } }
    maybe(20) { "id=\(pick(["a", "b-1", "x.y_z"]))" }
    maybe(60) {
      "op="
        + (0..<number(3)).map { _ in pick(FaultOperation.allCases.map(\.rawValue) + ["*", "data", "stat"]) }.joined(
          separator: ",")
    }
    maybe(50) {
      "path="
        + ControlLine.word((0..<number(6)).map { _ in Array("ab*?/.\\ é\"".utf8).randomElement(using: &random) ?? 0 })
    }
    maybe(10) {
      "path="
        + ControlLine.word(
          Array("re:".utf8)
            + (0..<number(6)).map { _ in Array("ab.*+?|()[]^$".utf8).randomElement(using: &random) ?? 0 })
    }
    maybe(20) { "uid=\(number(100_000))" }
    maybe(20) { "exe=\(pick(["cp", "/usr/bin/*", "[a-z]*"]))" }
    maybe(20) { "fh=\(pick(["old", "new"]))" }
    maybe(20) { "range=\(number(1 << 20))-\(pick(["", "2M", "1500000", "1T"]))" }
    maybe(20) { "when=\(number(9))\(pick(["", "..", "..20", "+2", "..19+3"]))" }
    maybe(20) { "after=\(number(1 << 30))" }
    maybe(20) { "prob=\(number(99)).\(number(9_999_999))%" }
    maybe(50) { "errno=\(pick(["EIO", "ESTALE", "ENOTSUP", "300"]))" }
    maybe(20) { "delay=\(number(10_000_000))\(pick(["us", "ns"]))~\(number(999))ms" }
    maybe(10) { "hang" }
    maybe(10) { "short=\(number(1 << 20))" }
    maybe(10) { "torn=\(number(512))" }
    maybe(10) { "corrupt=\(number(64))" }
    maybe(10) { "lose=dirty" }
    maybe(10) { pick(["kill", "kill=USR1"]) }
    maybe(20) { "times=\(number(5))" }
    maybe(20) { "for=\(number(1_000_000_000))\(pick(["ns", "us", "ms"]))" }
    return keys.joined(separator: " ")
  }
}
