import Containers
import DocsEngine
import Foundation
import StorageErrors
import TestSupport

/// Random operations on a volume and on a model of it. In each round the application works in one half of the tree
/// and another device in the other, so that there is one right outcome; then both must agree, and the container too.
final class ModelRun {
  struct Fault: Error {
    var text: String
  }
  private struct OpenFile {
    var handle: DocsEngine.FileHandle
    var node: ModelNode
  }

  let bench: VolumeBench
  private let model = ModelTree()
  private var random: SeededRandom
  private var open: [OpenFile] = []
  private(set) var log: [String] = []
  private var local = "a"
  private var remote: String { local == "a" ? "b" : "a" }
  private static let names = ["1", "2", "3", "4", "5"]

  /// `lends`: the application reads and writes content files past the volume, as in kernel passthrough.
  init(seed: UInt64, lends: Bool = false) throws {
    random = SeededRandom(seed)
    bench = try VolumeBench(lends: lends) { configuration in
      configuration.smallestLoan = 1
      configuration.itemsInMemory = 40
      configuration.uploadBound = 0.5
      // What the feed misses, a poll finds.
      configuration.poll = 5
    }
    for half in ["a", "b"] {
      try model.make(.folder, [half])
      try bench.driver.makeFolder(half)
    }
    bench.idle()
  }

  func round(_ number: Int) throws {
    local = random.chance(50) ? "a" : "b"
    log.append("— round \(number), the application in \(local) —")
    for _ in 0..<40 {
      if random.chance(20) { try stepRemotely() } else { try step() }
    }
    for file in open { bench.driver.release(file.handle) }
    open = []
    bench.volume.resume()
    try compare()
  }

  // MARK: Choosing

  private func pick<T>(_ values: [T]) -> T { values[Int.random(in: 0..<values.count, using: &random)] }

  /// A path in `half`: mostly a name in a folder that is there.
  private func path(_ half: String) -> [String] {
    var path = [half]
    while path.count < 4, random.chance(45), let node = try? model.node(path), node.kind == .folder {
      let folders = node.children.filter { $0.value.kind == .folder }.keys.sorted()
      guard !folders.isEmpty else { break }
      path.append(pick(folders))
    }
    return path + [pick(Self.names)]
  }

  private func bytes() -> [UInt8] { random.bytes(pick([0, 1, 10, 300, 5000])) }

  // MARK: The application

  private func step() throws {
    let path = path(local)
    let name = path.joined(separator: "/")
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<22:
      let bytes = bytes()
      try both(
        "write \(name) \(bytes.count)", { try model.write(path, bytes) }, { try bench.driver.write(name, bytes) })
    case 22..<30: try patch(path, name)
    case 30..<34:
      let size = pick([0, 1, 7, 400, 6000])
      try both(
        "truncate \(name) \(size)", { try model.truncate(path, size) },
        { try bench.driver.change(name) { $0.size = Int64(size) } })
    case 34..<42: try both("mkdir \(name)", { try model.make(.folder, path) }, { try bench.driver.makeFolder(name) })
    case 42..<45:
      try both(
        "symlink \(name)", { try model.make(.link, path, target: name) },
        { try bench.driver.makeSymlink(name, target: name) })
    case 45..<53: try both("unlink \(name)", { try model.unlink(path) }, { try bench.driver.unlink(name) })
    case 53..<58: try both("rmdir \(name)", { try model.removeFolder(path) }, { try bench.driver.removeFolder(name) })
    case 58..<74: try rename(path, name)
    case 74..<78: try chmod(path, name)
    case 78..<84: try openOrWrite(path, name)
    case 84..<90: try evictSomething(name)
    case 90..<94: pauseOrResume()
    case 94..<96: try restart()
    default: try read(path, name)
    }
  }

  /// The same on both sides; the same errno, or none.
  private func both(_ what: String, _ onModel: () throws -> Void, _ onVolume: () throws -> Void) throws {
    let expected = Self.errno(onModel)
    let got = Self.errno(onVolume)
    log.append(what + (expected.map { " \($0.name)" } ?? ""))
    guard expected == got else {
      throw Fault(text: "\(what): \(got?.name ?? "no error"), not \(expected?.name ?? "none")")
    }
  }

  private static func errno(_ body: () throws -> Void) -> Errno? {
    do { try body() } catch { return error as? Errno ?? Errno(rawValue: 511) }
    return nil
  }

  private func patch(_ path: [String], _ name: String) throws {
    guard let node = try? model.node(path), node.kind == .file else { return }
    let offset = Int.random(in: 0...node.bytes.count + 20, using: &random)
    let bytes = random.bytes(pick([1, 50, 3000]))
    try both(
      "patch \(name) \(offset) \(bytes.count)", { node.write(offset, bytes) },
      { try bench.driver.patch(name, Int64(offset), bytes) })
  }

  private func rename(_ path: [String], _ name: String) throws {
    let target = self.path(local)
    let exchanges = random.chance(20)
    let targetName = target.joined(separator: "/")
    try both(
      "rename \(name) \(targetName)\(exchanges ? " exchange" : "")",
      { try model.rename(path, target, exchanges: exchanges) },
      { try bench.driver.rename(name, targetName, exchanges ? .exchange : []) })
  }

  private func chmod(_ path: [String], _ name: String) throws {
    guard let node = try? model.node(path), node.kind != .link else { return }
    let mode = node.kind == .folder ? pick([0o755, 0o700]) : pick([0o644, 0o600, 0o755])
    try both(
      "chmod \(name)", { node.mode = UInt32(mode) }, { try bench.driver.change(name) { $0.mode = UInt32(mode) } })
  }

  /// Handles go on with their file, whatever becomes of its name.
  private func openOrWrite(_ path: [String], _ name: String) throws {
    if open.count < 3, let node = try? model.node(path), node.kind == .file {
      log.append("open \(name)")
      open.append(OpenFile(handle: try bench.driver.open(name, writes: true), node: node))
    } else if let index = open.indices.randomElement(using: &random) {
      let file = open[index]
      let offset = Int.random(in: 0...file.node.bytes.count, using: &random)
      let bytes = bytes()
      try both(
        "write handle \(index) \(offset) \(bytes.count)", { if !bytes.isEmpty { file.node.write(offset, bytes) } },
        { if !bytes.isEmpty { try bench.driver.write(file.handle, Int64(offset), bytes) } })
      guard try bench.driver.readAll(file.handle) == file.node.bytes else {
        throw Fault(text: "handle \(index) reads other bytes")
      }
      if random.chance(40) {
        log.append("close handle \(index)")
        bench.driver.release(open.remove(at: index).handle)
      }
    }
  }

  private func evictSomething(_ name: String) throws {
    log.append("evict \(name)")
    try? bench.volume.evict(TestSupport.path(name), recursive: true) { _, _ in }
    if random.chance(30) { bench.driver.forgetAll() }
  }

  private func pauseOrResume() {
    let pauses = random.chance(50)
    log.append(pauses ? "pause" : "resume")
    if pauses { bench.volume.pause() } else { bench.volume.resume() }
  }

  /// A clean remount, or a kill: what was answered is there.
  private func restart() throws {
    let kills = random.chance(60)
    log.append(kills ? "kill" : "remount")
    if !kills { for file in open { bench.driver.release(file.handle) } }
    open = []
    if kills { try bench.crash() } else { try bench.remount() }
  }

  private func read(_ path: [String], _ name: String) throws {
    guard let node = try? model.node(path) else {
      return try both("look \(name)", { _ = try model.node(path) }, { _ = try bench.driver.entry(name) })
    }
    log.append("read \(name)")
    switch node.kind {
    case .file:
      guard try bench.driver.read(name) == node.bytes else { throw Fault(text: "\(name) has other bytes") }
    case .link:
      guard try bench.driver.readlink(name) == node.target else { throw Fault(text: "\(name) leads elsewhere") }
    case .folder:
      let names = try bench.driver.list(name)
      guard names == node.children.keys.sorted() else { throw Fault(text: "\(name) shows \(names)") }
    }
  }

  // MARK: The other device

  private func stepRemotely() throws {
    let path = path(remote)
    let name = path.joined(separator: "/")
    switch Int.random(in: 0..<100, using: &random) {
    case 0..<40:
      let bytes = bytes()
      guard Self.errno({ try model.write(path, bytes) }) == nil else { return }
      log.append("there: write \(name) \(bytes.count)")
      try bench.write(name, bytes)
      try model.node(path).mode = try mode(name)
    case 40..<55:
      guard Self.errno({ try model.make(.folder, path) }) == nil else { return }
      log.append("there: mkdir \(name)")
      try bench.makeFolder(name)
      try model.node(path).mode = try mode(name)
    case 55..<70:
      guard Self.errno({ try model.unlink(path) }) == nil else { return }
      log.append("there: unlink \(name)")
      try bench.remove(name)
    case 70..<78:
      guard Self.errno({ try model.removeFolder(path) }) == nil else { return }
      log.append("there: rmdir \(name)")
      try bench.remove(name)
    case 78..<90:
      let target = self.path(remote)
      guard Self.errno({ try model.rename(path, target, exchanges: false) }) == nil else { return }
      log.append("there: rename \(name) \(target.joined(separator: "/"))")
      try bench.move(name, target.joined(separator: "/"))
    default:
      // The application only looks on here, and sees what was or what is.
      _ = try? bench.driver.read(name)
      _ = try? bench.driver.list(path.dropLast().joined(separator: "/"))
    }
  }

  private func mode(_ name: String) throws -> UInt32 {
    let attributes = try FileManager.default.attributesOfItem(atPath: bench.container + "/" + name)
    return UInt32(attributes[.posixPermissions] as? Int ?? 0)
  }

  // MARK: Comparing

  private func compare() throws {
    let expected = model.outline
    let left = bench.volume.waitUntilIdle(timeout: 20, cancelled: { false }, progress: { _ in })
    guard left.isEmpty else {
      throw Fault(text: "not uploaded: " + left.map { "\($0.path) \($0.error ?? $0.sync)" }.joined(separator: ", "))
    }
    var seen: [String: String] = [:]
    let end = Date() + 20
    repeat {
      seen = (try? volumeOutline()) ?? ["unreadable": ""]
      if seen == expected { break }
      usleep(20_000)
    } while Date() < end
    guard seen == expected else { throw Fault(text: "the volume:\n" + Self.difference(seen, expected)) }
    let there = try containerOutline()
    guard there == expected else { throw Fault(text: "the container:\n" + Self.difference(there, expected)) }
  }

  private static func difference(_ got: [String: String], _ expected: [String: String]) -> String {
    Set(got.keys).union(expected.keys).sorted().filter { got[$0] != expected[$0] }
      .map { "  \($0): \(got[$0] ?? "nothing"), not \(expected[$0] ?? "nothing")" }.joined(separator: "\n")
  }

  private func volumeOutline() throws -> [String: String] {
    var result: [String: String] = [:]
    func add(_ folder: String) throws {
      for name in try bench.driver.list(folder) {
        let path = folder.isEmpty ? name : "\(folder)/\(name)"
        let attributes = try bench.driver.attributes(path)
        switch attributes.kind {
        case .file: result[path] = ModelTree.line(try bench.driver.read(path), attributes.mode)
        case .symlink: result[path] = "-> " + (try bench.driver.readlink(path))
        case .folder:
          result[path + "/"] = String(attributes.mode, radix: 8)
          try add(path)
        }
      }
    }
    try add("")
    return result
  }

  private func containerOutline() throws -> [String: String] {
    var result: [String: String] = [:]
    func add(_ folder: String) throws {
      for name in try bench.names(folder) {
        let path = folder.isEmpty ? name : "\(folder)/\(name)"
        let full = "\(bench.container)/\(path)"
        if let target = try? FileManager.default.destinationOfSymbolicLink(atPath: full) {
          result[path] = "-> \(target)"
          continue
        }
        var isFolder: ObjCBool = false
        _ = FileManager.default.fileExists(atPath: full, isDirectory: &isFolder)
        if isFolder.boolValue {
          result[path + "/"] = String(try mode(path), radix: 8)
          try add(path)
        } else {
          result[path] = ModelTree.line(try bench.bytes(path), try mode(path))
        }
      }
    }
    try add("")
    return result
  }
}
