import Foundation
import TestSupport
import XCTest

/// docs/RECIPES.md as a person follows it: each recipe typed into a shell, on a mount of its own, and what the shell
/// says compared with what the page says.
final class RecipeTests: MountedTestCase {
  private static let page = URL(fileURLWithPath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .appendingPathComponent("docs/RECIPES.md")

  /// A line to type, and what is then seen.
  private struct Step {
    var command: String
    var output: String
  }

  private struct Section {
    var title = ""
    var examples: [[Step]] = []
    var steps: [Step] { examples.flatMap { $0 } }
  }

  override var patience: Double { 600 }

  /// A section begins with `## `, an example with a fence, a line to type with `$ `.
  private static func sections() throws -> [Section] {
    var sections = [Section()]
    var isExample = false
    for line in try String(contentsOf: page, encoding: .utf8).components(separatedBy: "\n") {
      let last = sections.count - 1
      if line.hasPrefix("```") {
        isExample.toggle()
        if isExample { sections[last].examples.append([]) }
      } else if isExample, let example = sections[last].examples.indices.last {
        if line.hasPrefix("$ ") {
          sections[last].examples[example].append(Step(command: String(line.dropFirst(2)), output: ""))
        } else {
          let step = try XCTUnwrap(sections[last].examples[example].indices.last, "output without a command: \(line)")
          sections[last].examples[example][step].output += line + "\n"
        }
      } else if line.hasPrefix("## ") {
        sections.append(Section(title: String(line.dropFirst(3))))
      }
    }
    return sections
  }

  /// The same lines with what bash makes of them, one after the other in one shell.
  private func typed(_ steps: [Step], _ volume: MountedVolume) throws -> [Step] {
    let end = "\u{1e}"
    let script = "exec 2>&1\n" + steps.map { "\($0.command)\nprintf '\(end)'\n" }.joined()
    let outcome = volume.shell(script)
    XCTAssertNotNil(outcome.status, "did not end in time: \(outcome)")
    let said = String(decoding: outcome.output, as: UTF8.self)
      .replacingOccurrences(of: volume.home + "/home", with: "/home/me")
      .components(separatedBy: end)
    XCTAssertEqual(said.count, steps.count + 1, "the shell ended early: \(outcome)")
    return zip(steps, said).map { Step(command: $0.command, output: $1) }
  }

  func testEachRecipeIsSeenAsThePageSays() throws {
    let sections = try Self.sections()
    let frame = sections[0].examples
    XCTAssertEqual(frame.count, 2, "how a recipe begins and ends")
    let recipes = sections.filter { $0.title.first?.isNumber ?? false }
    XCTAssertGreaterThanOrEqual(recipes.count, 10)
    for (index, recipe) in recipes.enumerated() {
      let volume = try unmounted(name: "recipe\(index)")
      let folder = (MountedVolume.binary as NSString).deletingLastPathComponent
      let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
      volume.environment["PATH"] = folder + ":" + path
      let wanted = frame[0] + recipe.steps + frame[1]
      XCTAssertFalse(recipe.steps.isEmpty, recipe.title)
      for (got, wanted) in zip(try typed(wanted, volume), wanted) {
        XCTAssertEqual(got.output, wanted.output, "\(recipe.title): $ \(wanted.command)")
      }
    }
  }
}
