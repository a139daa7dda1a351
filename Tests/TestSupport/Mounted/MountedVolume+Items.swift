import CLinux
import Foundation
import StorageErrors

/// What docsfs tells about items, through the doors that any program has.
extension MountedVolume {
  /// `placeholder`, `partial`, `materializing` or `materialized`.
  package func state(_ name: String) throws(Errno) -> String {
    try Sys.xattrText(path(name), "user.docsfs.state")
  }
  /// `current`, `dirty`, `uploading`, `error`, `conflict` or `remote-newer`.
  package func sync(_ name: String) throws(Errno) -> String {
    try Sys.xattrText(path(name), "user.docsfs.sync")
  }
  package func reason(_ name: String) -> String? {
    guard let text = try? Sys.xattrText(path(name), "user.docsfs.error"), !text.isEmpty else { return nil }
    return text
  }
  package func isPinned(_ name: String) throws(Errno) -> Bool {
    try Sys.xattrText(path(name), "user.docsfs.pin") == "1"
  }

  /// Everything is at the container.
  package func settle(within seconds: Double = 120) throws {
    try run("sync", mountpoint, "--timeout", "\(Int(seconds))", within: seconds + 30)
  }
  package func evict(_ name: String) throws { try run("evict", path(name)) }

  /// A file that the container has and this volume does not hold.
  package func putPlaceholder(_ name: String, _ bytes: [UInt8]) throws {
    try Sys.put(path(name), bytes)
    try settle()
    try evict(name)
  }

  /// A number of `docsfs status --json`, wherever it stands there.
  package func statusNumber(_ key: String) throws -> Int {
    let outcome = try run("status", mountpoint, "--json")
    let tree = try JSONSerialization.jsonObject(with: Data(outcome.output))
    guard let number = Self.find(key, in: tree) as? NSNumber else {
      throw ProgramFailure(command: "docsfs status: no \(key)", outcome: outcome)
    }
    return number.intValue
  }
  package func statusText(_ key: String) throws -> String {
    let outcome = try run("status", mountpoint, "--json")
    let tree = try JSONSerialization.jsonObject(with: Data(outcome.output))
    guard let text = Self.find(key, in: tree) as? String else {
      throw ProgramFailure(command: "docsfs status: no \(key)", outcome: outcome)
    }
    return text
  }

  static func find(_ key: String, in tree: Any) -> Any? {
    if let table = tree as? [String: Any] {
      if let value = table[key] { return value }
      return table.values.lazy.compactMap { find(key, in: $0) }.first
    }
    return (tree as? [Any])?.lazy.compactMap { find(key, in: $0) }.first
  }

  /// The names that a person sees in the container's folder; docsfs' own there are hidden.
  package func remoteNames(_ folder: String = "") throws(Errno) -> [String] {
    try Sys.names(folder.isEmpty ? container : remote(folder)).filter { !$0.hasPrefix(".docsfs") }
  }
  /// The visible names in a folder of the mount.
  package func names(_ folder: String = "") throws(Errno) -> [String] { try Sys.names(path(folder)) }

  /// No daemon may run.
  package func doctor(_ arguments: String...) -> Outcome {
    let source = url ?? "dir:\(container)"
    return docsfs(["doctor", "--state", state, "--container", source] + arguments, within: 300)
  }
}
