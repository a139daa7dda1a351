import CLinux
import Containers
import Foundation
import StorageErrors

/// What a program left behind.
package struct Outcome: Sendable, CustomStringConvertible {
  /// Its exit status; 128 + the signal's number when one ended it, as a shell counts; nil when it ran too
  /// long.
  package let status: Int32?
  package let output: [UInt8]
  package let errors: String

  package var succeeded: Bool { status == 0 }
  /// Standard output as text, without white space at its ends.
  package var text: String {
    String(decoding: output, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
  }
  package var lines: [String] { text.isEmpty ? [] : text.components(separatedBy: "\n") }

  package var description: String {
    let end = status.map { "exit status \($0)" } ?? "did not end in time"
    return "\(end)\nstdout: \(text.suffix(4000))\nstderr: \(errors.suffix(4000))"
  }
}

/// A program that did not do what the test needs.
package struct ProgramFailure: Error, CustomStringConvertible {
  package let command: String
  package let outcome: Outcome
  package var description: String { "\(command): \(outcome)" }
}

/// A child process in a process group of its own, its output kept in unlinked files.
package final class Subprocess: Sendable {
  package let pid: pid_t
  private let output: ContentDescriptor
  private let errors: ContentDescriptor
  private let status = Guarded<Int32?>(nil)

  /// Starts `arguments[0]`, found in PATH. `environment` is added to that of this process.
  package init(_ arguments: [String], environment: [String: String] = [:]) throws(Errno) {
    output = try ContentDescriptor()
    errors = try ContentDescriptor()
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_adddup2(&actions, output.fd, 1)
    posix_spawn_file_actions_adddup2(&actions, errors.fd, 2)
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP))
    posix_spawnattr_setpgroup(&attributes, 0)
    let merged = ProcessInfo.processInfo.environment.merging(environment) { $1 }
      .merging([Processes.mark: "\(getpid())"]) { $1 }.map { "\($0)=\($1)" }
    var child: pid_t = 0
    let failure = withCStrings(arguments) { argv in
      withCStrings(merged) { posix_spawnp(&child, arguments[0], &actions, &attributes, argv, $0) }
    }
    guard failure == 0 else { throw Errno(rawValue: failure) }
    pid = child
  }

  /// Whether it has not ended yet.
  package var isRunning: Bool { reap() == nil }

  /// Its outcome, or nil when it is still running after `seconds`.
  package func wait(_ seconds: Double) -> Outcome? {
    let deadline = Clock.now + seconds
    var pause: UInt32 = 500
    while reap() == nil {
      if Clock.now > deadline { return nil }
      usleep(pause)
      pause = min(pause * 2, 20_000)
    }
    return outcome
  }

  /// Waits; one that takes longer than `limit` is killed with all its children, and has no status.
  package func finish(within limit: Double) -> Outcome {
    if let outcome = wait(limit) { return outcome }
    signal(SIGKILL, group: true)
    _ = wait(10)
    return Outcome(status: nil, output: output.contents, errors: errors.text)
  }

  /// Does nothing once it has ended.
  package func signal(_ number: Int32, group: Bool = false) {
    if reap() == nil { kill(group ? -pid : pid, number) }
  }

  /// What it has written so far.
  package var outcome: Outcome {
    Outcome(status: reap(), output: output.contents, errors: errors.text)
  }

  private func reap() -> Int32? {
    status.withLock { known in
      var raw: Int32 = 0
      if known == nil, waitpid(pid, &raw, WNOHANG) == pid {
        known = raw & 0x7f == 0 ? (raw >> 8) & 0xff : 128 + raw & 0x7f
      }
      return known
    }
  }
}

/// A new file without a name.
private final class ContentDescriptor: Sendable {
  let fd: Int32

  init() throws(Errno) {
    fd = try Sys.check(lx_open("/tmp", Int32(LX_O_TMPFILE) | O_RDWR, 0o600))
  }

  deinit { close(fd) }

  var contents: [UInt8] {
    var info = stat()
    guard fstat(fd, &info) == 0, info.st_size > 0 else { return [] }
    var bytes = [UInt8](repeating: 0, count: Int(info.st_size))
    let count = pread(fd, &bytes, bytes.count, 0)
    return Array(bytes.prefix(max(0, count)))
  }

  var text: String {
    String(decoding: contents, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
  }
}

/// CLOCK_MONOTONIC.
package enum Clock {
  /// Seconds.
  package static var now: Double {
    var t = timespec()
    clock_gettime(CLOCK_MONOTONIC, &t)
    return Double(t.tv_sec) + Double(t.tv_nsec) / 1e9
  }
}

private func withCStrings<R>(
  _ strings: [String], _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> R
) -> R {
  var pointers = strings.map { strdup($0) } + [nil]
  defer { for pointer in pointers { free(pointer) } }
  return pointers.withUnsafeMutableBufferPointer { body($0.baseAddress!) }
}

/// Asks again and again until `condition` holds; whether it did within `seconds`.
package func eventually(within seconds: Double = 30, _ condition: () throws -> Bool) rethrows -> Bool {
  let deadline = Clock.now + seconds
  var pause: UInt32 = 5_000
  while true {
    if try condition() { return true }
    if Clock.now > deadline { return false }
    usleep(pause)
    pause = min(pause * 2, 200_000)
  }
}
