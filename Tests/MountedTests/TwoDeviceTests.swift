import Foundation
import TestSupport
import XCTest

/// Two devices that write into one bucket for a while, the link of each cut at random: afterwards both show the same,
/// and no edit is gone that nobody took away. `DOCSFS_FULL=1` takes the 20 seeds of `DOCSFS_SEEDS` (`1-20`) for
/// `DOCSFS_MINUTES` (5) each. Programs/two_devices.py writes, and tells what may be missing.
final class TwoDeviceTests: MountedTestCase {
  private static let variables = ProcessInfo.processInfo.environment
  private let seconds = (variables["DOCSFS_MINUTES"].flatMap(Double.init) ?? (Effort.full ? 5 : 0.2)) * 60
  private let seeds: ClosedRange<Int> = {
    let ends = (variables["DOCSFS_SEEDS"] ?? (Effort.full ? "1-20" : "1")).split(separator: "-").compactMap { Int($0) }
    return (ends.first ?? 1)...(ends.last ?? 1)
  }()

  override var patience: Double { Double(seeds.count) * (seconds + 600) }

  func testWhatTwoDevicesWriteIsThereAfterwards() throws {
    try skipUnlessInstalled("python3")
    for seed in seeds { try writeAndCompare(seed) }
  }

  private func writeAndCompare(_ seed: Int) throws {
    let place = try CloudPlace(.s3)
    let devices = try ["one", "two"].map { try mount(place, "\($0)-\(seed)") }
    let writers = try devices.enumerated().map { number, device in
      try Subprocess(
        program([
          "write", device.mountpoint, log(device), "\(seed)\("AB".dropFirst(number).prefix(1))", "\(seed)",
          "\(seconds)",
        ]))
    }
    for writer in writers {
      let outcome = writer.finish(within: seconds + 120)
      XCTAssert(outcome.succeeded, "seed \(seed): \(outcome)")
    }
    for device in devices { try device.run("sync", device.mountpoint, "--timeout", "240", within: 300) }
    // A device that has seen nothing of all this knows what is at the store.
    let all = devices + [try mount(place, "new-\(seed)")]
    let mounts = all.map(\.mountpoint)
    var compared: Outcome?
    let isSame = eventually(within: 120) {
      let outcome = Shell.run(program(["compare"] + mounts), within: 120)
      compared = outcome
      return outcome.succeeded && outcome.text.isEmpty
    }
    XCTAssert(isSame, "seed \(seed): \(compared.map(\.description) ?? "")")
    let account = Shell.run(program(["account", mounts[0]] + devices.map(log)), within: 120)
    XCTAssert(account.succeeded && account.text.isEmpty, "seed \(seed): \(account)")
    print("seed \(seed): \(account.errors)")
    for device in all { try device.unmount() }
  }

  private func log(_ device: MountedVolume) -> String { device.home + "/edits" }

  private func program(_ words: [String]) -> [String] { ["python3", "-B", Self.program("two_devices.py")] + words }

  private func mount(_ place: CloudPlace, _ name: String) throws -> MountedVolume {
    let volume = try unmounted(["poll=1s"], name: name)
    volume.url = place.url
    for (name, value) in place.server.values where name.hasPrefix("AWS_") { volume.environment[name] = value }
    try volume.mount()
    return volume
  }
}
