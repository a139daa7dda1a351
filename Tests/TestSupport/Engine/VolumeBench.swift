import Containers
import DocsEngine
import Foundation
import StorageErrors
import XCTest

/// A volume over a folder, without a kernel: `driver` is the application, `write`, `remove` … another device.
package final class VolumeBench {
  private let folder: TemporaryFolder
  package var configuration: VolumeConfiguration
  package private(set) var gate: GateContainer
  /// Between the gate and the volume.
  package private(set) var cloud: FaultingContainer
  private let policy: RetryingContainer.Policy?
  private let place: CloudPlace?
  private let lends: Bool
  package private(set) var driver: VolumeDriver
  package var volume: Volume { driver.volume }
  package let container: String
  private var states = 1

  /// `files` are at the container before it is mounted; `retrying`: the volume's calls are tried again, as a mount's;
  /// `over`: a cloud instead of the folder, which stays empty then; `lends`: the driver reads and writes content files itself.
  package init(
    _ files: [String: String] = [:], retrying policy: RetryingContainer.Policy? = nil,
    over place: CloudPlace? = nil, lends: Bool = false,
    configure: (inout VolumeConfiguration) -> Void = { _ in }
  ) throws {
    self.policy = policy
    self.place = place
    self.lends = lends
    folder = try TemporaryFolder()
    container = folder.path + "/container"
    configuration = VolumeConfiguration(stateDirectory: folder.path + "/state", uid: 1000, gid: 1000)
    configuration.uploadDelay = 0.02
    configuration.minFree = .bytes(0)
    configure(&configuration)
    for path in [container, configuration.stateDirectory] {
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }
    for (path, text) in files { try Self.write(container, path, Array(text.utf8)) }
    gate = try Self.gate(container, place)
    cloud = FaultingContainer(gate)
    driver = VolumeDriver(try Volume.open(configuration, container: Self.retrying(cloud, policy)), lends: lends)
  }

  deinit { volume.stop(timeout: 5) }

  private static func gate(_ path: String, _ place: CloudPlace?) throws -> GateContainer {
    GateContainer(try place?.open() ?? DirectoryContainer(path: Array(path.utf8)))
  }

  private static func retrying(_ cloud: FaultingContainer, _ policy: RetryingContainer.Policy?) -> any Container {
    policy.map { RetryingContainer(cloud, $0) } ?? cloud
  }

  // MARK: Life and death

  package func unmount() { volume.stop(timeout: 5) }

  /// After `unmount`.
  package func mount() throws {
    gate = try Self.gate(container, place)
    cloud = FaultingContainer(gate)
    driver = VolumeDriver(try Volume.open(configuration, container: Self.retrying(cloud, policy)), lends: lends)
  }

  package func remount() throws {
    unmount()
    try mount()
  }

  /// The process is killed, and a new one mounts what it left. `beforeMount` happens in between.
  package func crash(beforeMount: () throws -> Void = {}) throws {
    gate.freeze()
    let left = configuration.stateDirectory
    states += 1
    configuration.stateDirectory = folder.path + "/state-\(states)"
    try Self.image(of: left, at: configuration.stateDirectory)
    gate.cut()
    volume.stop(timeout: 5)
    try beforeMount()
    try mount()
  }

  /// What a killed process leaves on its disk: content first, then the log; a log that ends in the middle of a
  /// commit is as after a kill. SQLite's shared memory is no file that outlives its process.
  private static func image(of state: String, at target: String) throws {
    let files = FileManager.default
    try files.createDirectory(atPath: target, withIntermediateDirectories: true)
    for attempt in 1... {
      do {
        try files.copyItem(atPath: state + "/content", toPath: target + "/content")
        break
      } catch {
        // A content file went while it was copied.
        guard attempt < 10 else { throw error }
        try? files.removeItem(atPath: target + "/content")
      }
    }
    for name in ["catalog.log1", "catalog.log2", "catalog.db", "catalog.db-wal"] {
      try files.copyItem(atPath: "\(state)/\(name)", toPath: "\(target)/\(name)")
    }
  }

  /// Waits until all is uploaded; what is not fails the test.
  package func idle(file: StaticString = #filePath, line: UInt = #line) {
    XCTAssert(eventually { volume.status().link == "connected" }, "no link", file: file, line: line)
    let left = volume.waitUntilIdle(timeout: 30, cancelled: { false }, progress: { _ in })
    for item in left {
      XCTFail("not uploaded: \(item.path): \(item.error ?? item.sync)", file: file, line: line)
    }
  }

  /// Nobody answers at the container any more, until `gate.open`. Whether the volume has noticed.
  package func cutLink() throws -> Bool {
    gate.fail(.identify, .unreachable, times: .max)
    gate.fail(.list, .unreachable, times: .max)
    gate.fail(.item, .unreachable, times: .max)
    gate.fail(.read, .unreachable, times: .max)
    gate.fail(.put, .unreachable, times: .max)
    try? volume.refresh(.root)
    return eventually { volume.status().link != "connected" }
  }

  /// Waits until nothing is fetched: what has come is known to be of its version.
  package func fetchesEnd() -> Bool { eventually { volume.status().fetching == 0 } }

  // MARK: Commands

  /// Evicts one file; the reason why not.
  package func evict(_ path: String) throws -> String? {
    var reasons: [String?] = []
    try volume.evict(TestSupport.path(path), recursive: false) { _, refusal in reasons.append(refusal?.reason) }
    return reasons.first ?? "nothing was evicted"
  }
  package func state(_ path: String) throws -> String { try driver.xattr(path, "user.docsfs.state") }
  package func sync(_ path: String) throws -> String { try driver.xattr(path, "user.docsfs.sync") }

  // MARK: Another device

  package func write(_ path: String, _ text: String) throws { try write(path, Array(text.utf8)) }
  package func write(_ path: String, _ bytes: [UInt8]) throws { try Self.write(container, path, bytes) }
  private static func write(_ container: String, _ path: String, _ bytes: [UInt8]) throws {
    let url = URL(fileURLWithPath: "\(container)/\(path)")
    try FileManager.default.createDirectory(
      at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
    try Data(bytes).write(to: url)
  }
  package func bytes(_ path: String) throws -> [UInt8] {
    Array(try Data(contentsOf: URL(fileURLWithPath: "\(container)/\(path)")))
  }
  package func text(_ path: String) throws -> String { String(decoding: try bytes(path), as: UTF8.self) }
  package func remove(_ path: String) throws {
    try FileManager.default.removeItem(atPath: "\(container)/\(path)")
  }
  package func move(_ path: String, _ target: String) throws {
    guard Glibc.rename("\(container)/\(path)", "\(container)/\(target)") == 0 else { throw Errno.current }
  }
  package func makeFolder(_ path: String) throws {
    try FileManager.default.createDirectory(atPath: "\(container)/\(path)", withIntermediateDirectories: true)
  }
  /// The names in a folder of the container, what docsfs keeps for itself left out.
  package func names(_ path: String = "") throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: "\(container)/\(path)").filter {
      $0 != ".docsfs-container"
    }.sorted()
  }
}
