import Foundation
import TestSupport
import XCTest

/// A page of Prometheus' text format 0.0.4, read as strictly as its rules are written: each family has HELP, TYPE, then
/// its samples, once.
struct MetricsPage {
  struct Family: Equatable {
    var name: String
    var type: String
    var help: String
  }
  struct Problem: Error, CustomStringConvertible {
    var description: String
  }
  private(set) var families: [Family] = []
  /// By name and labels, as `name{a="b"}`.
  private(set) var samples: [String: Double] = [:]

  /// What curl gets from the mount that `status` says where to ask.
  init(of volume: MountedVolume) throws {
    let outcome = Shell.run(["curl", "-sf", "--max-time", "20", try volume.statusText("metrics")])
    guard outcome.succeeded else { throw Problem(description: "curl: \(outcome)") }
    try self.init(String(decoding: outcome.output, as: UTF8.self))
  }

  init(_ text: String) throws {
    guard text.hasSuffix("\n") else { throw Problem(description: "the last line does not end") }
    var help: (name: String, text: String)?
    for line in text.dropLast().split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
      let words = line.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
      if line.hasPrefix("# HELP "), words.count == 4 {
        help = (words[2], words[3])
      } else if line.hasPrefix("# TYPE "), words.count == 4, help?.name == words[2] {
        let family = Family(name: words[2], type: words[3], help: help?.text ?? "")
        try check(family)
        families.append(family)
      } else {
        try take(line)
      }
    }
    try checkHistograms()
  }

  private func check(_ family: Family) throws {
    guard family.name.wholeMatch(of: /[a-z][a-z0-9_]*/) != nil,
      ["counter", "gauge", "histogram"].contains(family.type),
      (family.type == "counter") == family.name.hasSuffix("_total"), !family.help.isEmpty,
      !families.contains(where: { $0.name == family.name })
    else { throw Problem(description: "the family \(family)") }
  }

  private mutating func take(_ line: String) throws {
    let label = #"[a-z_]+="(?:[^"\\]|\\["\\n])*""#
    let form = try Regex(
      "([a-z_]+)(\\{\(label)(?:,\(label))*\\})? ([0-9.e+-]+)", as: (Substring, Substring, Substring?, Substring).self)
    guard let found = line.wholeMatch(of: form), let value = Double(found.3), let family = families.last else {
      throw Problem(description: "the line \(line)")
    }
    let suffixes = family.type == "histogram" ? ["_bucket", "_sum", "_count"] : [""]
    let key = String(found.1 + (found.2 ?? ""))
    guard suffixes.contains(where: { family.name + $0 == found.1 }), samples.updateValue(value, forKey: key) == nil
    else {
      throw Problem(description: "the line \(line) in the family \(family.name)")
    }
  }

  /// Buckets never fall, and the last one holds all.
  private func checkHistograms() throws {
    for family in families where family.type == "histogram" {
      for (key, count) in samples where key.hasPrefix(family.name + "_count{") {
        let labels = key.dropFirst((family.name + "_count{").count).dropLast()
        let prefix = "\(family.name)_bucket{\(labels),le=\""
        let buckets = samples.filter { $0.key.hasPrefix(prefix) }
          .map { (Double($0.key.dropFirst(prefix.count).dropLast(2).replacing("+Inf", with: "inf")) ?? .nan, $0.value) }
          .sorted { $0.0 < $1.0 }
        guard buckets.count > 1, buckets.map(\.1) == buckets.map(\.1).sorted(), buckets.last?.0 == .infinity,
          buckets.last?.1 == count, samples["\(family.name)_sum{\(labels)}"] != nil
        else { throw Problem(description: "the histogram \(key)") }
      }
    }
  }

  /// 0 for a series that is not there.
  subscript(_ key: String) -> Int { Int(samples[key] ?? 0) }

  func operations(_ operation: String, _ errno: String = "OK") -> Int {
    self["docsfs_operations_total{operation=\"\(operation)\",errno=\"\(errno)\"}"]
  }
  func requests(_ operation: String, _ outcome: String = "ok") -> Int {
    self["docsfs_container_requests_total{operation=\"\(operation)\",outcome=\"\(outcome)\"}"]
  }
}
