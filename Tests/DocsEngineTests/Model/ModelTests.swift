import Foundation
import TestSupport
import XCTest

@testable import DocsEngine

/// `DOCSFS_SEED=7 DOCSFS_ROUNDS=200 swift test --filter ModelTests` goes on for longer, from another start.
final class ModelTests: XCTestCase {
  func testRandomOperationsEndAsTheModelSays() throws { try go(lends: false) }

  /// As in kernel passthrough.
  func testRandomOperationsPastTheVolumeEndAsTheModelSays() throws { try go(lends: true) }

  private func go(lends: Bool) throws {
    let seed = SeededRandom.setting("DOCSFS_SEED", 1)
    let rounds = Int(SeededRandom.setting("DOCSFS_ROUNDS", 0))
    let run = try ModelRun(seed: seed, lends: lends)
    let end = Date() + 15
    var number = 0
    do {
      while rounds > 0 ? number < rounds : Date() < end {
        number += 1
        try run.round(number)
      }
    } catch {
      let fault = (error as? ModelRun.Fault)?.text ?? "\(error)"
      let story = run.log.suffix(80).joined(separator: "\n  ")
      XCTFail("DOCSFS_SEED=\(seed) DOCSFS_ROUNDS=\(number): \(fault)\n  \(story)")
    }
  }
}
