import CLinux
import Foundation
import StorageErrors

/// A volume in folders of its own, mounted by the built `docsfs` as a child process in the foreground.
package final class MountedVolume {
  /// Holds everything of this volume; its name is unique, so that what is left behind can be found by it.
  package let home: String
  package let mountpoint: String
  package private(set) var container: String
  package private(set) var state: String
  /// For `-o`. `DOCSFS_MOUNT_OPTIONS` adds to them.
  package var options: [String]
  /// What follows the container's path in its URL, such as `latency=80ms`.
  package var query: String
  /// Another URL than that of `container`.
  package var url: String?
  package var environment: [String: String] = [:]
  private var daemon: Subprocess?

  /// Makes the folders; `mount()` mounts. `container` and `state` may lie on other disks.
  package init(
    in home: String, options: [String] = [], query: String = "", container: String? = nil,
    state: String? = nil
  ) throws(Errno) {
    self.home = home
    let more = ProcessInfo.processInfo.environment["DOCSFS_MOUNT_OPTIONS"] ?? ""
    self.options = options + more.split(separator: ",").map(String.init)
    self.query = query
    mountpoint = home + "/mnt"
    self.container = container ?? home + "/container"
    self.state = state ?? home + "/state"
    for folder in [home, mountpoint, self.container, self.state, home + "/home"] {
      try Sys.makeFolders(folder)
    }
    try Sys.setMode(self.state, 0o700)
  }

  package func path(_ name: String) -> String { name.isEmpty ? mountpoint : mountpoint + "/" + name }
  package func remote(_ name: String) -> String { container + "/" + name }
  package var pid: pid_t? { daemon?.pid }
  package var isMounted: Bool { MountTable.mount(at: mountpoint) != nil }

  package var mountArguments: [String] {
    let source = url ?? "dir:\(container)" + (query.isEmpty ? "" : "?\(query)")
    let list = options.isEmpty ? [] : ["-o", options.joined(separator: ",")]
    return ["mount", mountpoint, "--container", source, "--state", state] + list
  }

  // MARK: Life

  /// Starts the daemon and waits until the kernel shows the mount.
  package func mount() throws {
    let daemon = try Subprocess(
      [Self.binary] + mountArguments + ["-f"], environment: variables)
    self.daemon = daemon
    // A dead mount at the same place is in the table too, but answers ENOTCONN.
    _ = eventually(within: 60) { !daemon.isRunning || isMounted && Sys.exists(mountpoint) }
    if isMounted, daemon.isRunning { return }
    _ = stop()
    throw ProgramFailure(command: "docsfs mount", outcome: daemon.outcome)
  }

  /// Unmounts as a person does, and waits for the daemon's end.
  @discardableResult
  package func unmount(_ arguments: String..., within limit: Double = 60) throws -> Outcome {
    let outcome = docsfs(["unmount", mountpoint] + arguments, within: limit)
    guard outcome.succeeded, let daemon, daemon.wait(limit) != nil else {
      throw ProgramFailure(command: "docsfs unmount", outcome: daemon?.outcome ?? outcome)
    }
    self.daemon = nil
    return outcome
  }

  /// SIGKILL, then what a person does about the dead mount.
  package func killDaemon() {
    daemon?.signal(SIGKILL)
    clearMount()
    _ = daemon?.wait(30)
    daemon = nil
  }

  /// SIGKILL only: the dead mount stays.
  package func killDaemonOnly() {
    daemon?.signal(SIGKILL)
    _ = daemon?.wait(30)
    daemon = nil
  }

  /// Nothing is noticed or uploaded before `body` ends. It must not touch the mount.
  package func whileDaemonStops(_ body: () throws -> Void) rethrows {
    daemon?.signal(SIGSTOP)
    defer { daemon?.signal(SIGCONT) }
    try body()
  }

  package func remount() throws {
    if daemon != nil { try unmount() }
    try mount()
  }

  /// Ends daemon and mount by whatever means it takes; what should not have been necessary.
  package func stop() -> [String] {
    var complaints: [String] = []
    if let daemon {
      daemon.signal(SIGTERM)
      if daemon.wait(30) == nil {
        complaints.append("the daemon did not end on SIGTERM")
        abort()
        daemon.signal(SIGKILL)
        _ = daemon.wait(30)
      } else if let status = daemon.outcome.status, status != 0 {
        complaints.append("the daemon ended badly: \(daemon.outcome)")
      }
      self.daemon = nil
    }
    if isMounted {
      complaints.append("\(mountpoint) is still mounted")
      clearMount()
    }
    return complaints
  }

  /// Frees whoever is stuck in this mount: a test that hangs then fails instead.
  package func abort() {
    if let mount = MountTable.mount(at: mountpoint) { MountTable.abort(mount) }
  }

  private func clearMount() {
    for _ in 0..<8 where isMounted {
      if lx_umount(mountpoint, 1) != 0 { _ = Shell.run("fusermount3 -uz '\(mountpoint)'") }
    }
  }

  // MARK: Programs

  /// The built product, beside the test bundle; `DOCSFS_BINARY` names another.
  package static var binary: String {
    if let given = ProcessInfo.processInfo.environment["DOCSFS_BINARY"] { return given }
    let bundle = (try? Sys.readlink("/proc/self/exe")) ?? ""
    return bundle.prefix(through: bundle.lastIndex(of: "/") ?? bundle.startIndex) + "docsfs"
  }

  /// Nothing of the person who runs the tests is read or written.
  package var variables: [String: String] {
    let mine = [
      "HOME": home + "/home", "XDG_STATE_HOME": home + "/home/state", "XDG_DATA_HOME": home + "/home/data",
      "XDG_CONFIG_HOME": home + "/home/config", "XDG_RUNTIME_DIR": home + "/home", "LC_ALL": "C.UTF-8",
      "M": mountpoint, "C": container,
    ]
    return mine.merging(environment) { $1 }
  }

  package func docsfs(_ arguments: String..., within limit: Double = 120) -> Outcome {
    docsfs(arguments, within: limit)
  }
  package func docsfs(_ arguments: [String], within limit: Double = 120) -> Outcome {
    Shell.run([Self.binary] + arguments, environment: variables, within: limit)
  }

  /// As `docsfs`, for what has to succeed.
  @discardableResult
  package func run(_ arguments: String..., within limit: Double = 120) throws -> Outcome {
    try run(arguments, within: limit)
  }
  @discardableResult
  package func run(_ arguments: [String], within limit: Double = 120) throws -> Outcome {
    let outcome = docsfs(arguments, within: limit)
    guard outcome.succeeded else {
      throw ProgramFailure(command: "docsfs " + arguments.joined(separator: " "), outcome: outcome)
    }
    return outcome
  }

  /// Bash, with the mountpoint in `$M` and the container in `$C`.
  package func shell(_ script: String, as user: uid_t? = nil, within limit: Double = 120) -> Outcome {
    Shell.run(script, as: user, environment: variables, within: limit)
  }

  /// As `shell`, for what has to succeed at every step.
  @discardableResult
  package func must(_ script: String, as user: uid_t? = nil, within limit: Double = 300) throws -> Outcome {
    let outcome = shell("set -e -o pipefail\n" + script, as: user, within: limit)
    guard outcome.succeeded else { throw ProgramFailure(command: script, outcome: outcome) }
    return outcome
  }
}

/// Programs other than docsfs.
package enum Shell {
  package static func run(
    _ script: String, as user: uid_t? = nil, environment: [String: String] = [:], within limit: Double = 120
  ) -> Outcome {
    let bash = ["bash", "-c", script]
    let prefix = user.map { ["setpriv", "--reuid=\($0)", "--regid=\($0)", "--clear-groups", "--"] } ?? []
    return run(prefix + bash, environment: environment, within: limit)
  }

  package static func run(
    _ arguments: [String], environment: [String: String] = [:], within limit: Double = 120
  ) -> Outcome {
    do {
      return try Subprocess(arguments, environment: environment).finish(within: limit)
    } catch {
      return Outcome(status: 127, output: [], errors: "\(arguments[0]): \(error)")
    }
  }

  @discardableResult
  package static func must(
    _ script: String, environment: [String: String] = [:], within limit: Double = 120
  ) throws -> Outcome {
    let outcome = run("set -e -o pipefail\n" + script, environment: environment, within: limit)
    guard outcome.succeeded else { throw ProgramFailure(command: script, outcome: outcome) }
    return outcome
  }

  package static func has(_ program: String) -> Bool { run(["which", program]).succeeded }
}
