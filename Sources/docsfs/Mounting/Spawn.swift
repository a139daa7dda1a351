import CLinux
import Glibc
import StorageErrors

/// New processes.
enum Spawn {
  /// What becomes of the child's descriptors. All others that docsfs opens are closed on exec.
  struct Files {
    /// nil: as the parent has it.
    var input: FilePath?
    var output: FilePath?
    var error: FilePath?
    /// A descriptor of ours that is 3 in the child; those above are closed then.
    var third: Int32?
    /// A descriptor of ours that is the child's standard error.
    var errorDescriptor: Int32?
  }

  /// `inNewSession`: away from the terminal. Signals that docsfs blocks or ignores are not in the child.
  static func start(
    program: String, searchingPath: Bool, _ arguments: [[UInt8]], _ files: Files = Files(),
    environment: [[UInt8]]? = nil, inNewSession: Bool = false
  ) throws(Errno) -> pid_t {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    add(files, to: &actions)
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    // docsfs ignores it, and what is ignored stays so in the child: `yes | head` would not end as it should.
    var restored = none
    sigaddset(&restored, SIGPIPE)
    posix_spawnattr_setsigdefault(&attributes, &restored)
    var flags = Int32(POSIX_SPAWN_SETSIGMASK) | Int32(POSIX_SPAWN_SETSIGDEF)
    // POSIX_SPAWN_SETSID, which only _GNU_SOURCE declares.
    if inNewSession { flags |= 0x80 }
    posix_spawnattr_setflags(&attributes, Int16(flags))
    let vector = ArgumentVector(arguments)
    let variables = ArgumentVector(environment ?? Self.environment())
    var pid: pid_t = 0
    let result =
      searchingPath
      ? posix_spawnp(&pid, program, &actions, &attributes, vector.pointers, variables.pointers)
      : posix_spawn(&pid, program, &actions, &attributes, vector.pointers, variables.pointers)
    guard result == 0 else { throw Errno(rawValue: result) }
    return pid
  }

  private static func add(_ files: Files, to actions: inout posix_spawn_file_actions_t) {
    func open(_ path: FilePath?, as number: Int32, _ flags: Int32) {
      guard let path else { return }
      _ = path.call { posix_spawn_file_actions_addopen(&actions, number, $0, flags, 0o600) }
    }
    if let third = files.third { posix_spawn_file_actions_adddup2(&actions, third, 3) }
    open(files.input, as: STDIN_FILENO, O_RDONLY)
    open(files.output, as: STDOUT_FILENO, O_WRONLY | O_CREAT | O_APPEND)
    open(files.error, as: STDERR_FILENO, O_WRONLY | O_CREAT | O_APPEND)
    if let error = files.errorDescriptor { posix_spawn_file_actions_adddup2(&actions, error, STDERR_FILENO) }
    if files.third != nil { lx_spawn_close_from(&actions, 4) }
  }

  static func environment() -> [[UInt8]] {
    var result: [[UInt8]] = []
    var place = lx_environment()
    while let pointer = place, let text = pointer.pointee {
      result.append(Array(UnsafeRawBufferPointer(start: text, count: strlen(text))))
      place = pointer + 1
    }
    return result
  }

  /// The exit status of `pid`, 128 + the signal's number when one ended it.
  static func wait(_ pid: pid_t) -> Int32 {
    var status: Int32 = 0
    while waitpid(pid, &status, 0) < 0 {
      if errno != EINTR { return 1 }
    }
    return exitStatus(status)
  }

  static func exitStatus(_ status: Int32) -> Int32 {
    let signal = status & 0x7f
    return signal == 0 ? status >> 8 & 0xff : 128 + signal
  }

  /// Runs a program of $PATH, and gives what it said on standard error.
  static func capturingErrors(_ arguments: [[UInt8]]) throws(Failure) -> (Int32, String) {
    let name = String(decoding: arguments.first ?? [], as: UTF8.self)
    var ends: [Int32] = [-1, -1]
    guard lx_pipe(&ends) == 0 else {
      throw Failure("cannot make a pipe: \(Errno.current.message.lowercasedFirst)")
    }
    defer { close(ends[0]) }
    let pid: pid_t
    do {
      pid = try start(program: name, searchingPath: true, arguments, Files(errorDescriptor: ends[1]))
    } catch {
      close(ends[1])
      let hint = error == .ENOENT ? "; install the package that has it (fuse3 has fusermount3)" : ""
      throw Failure("cannot run \(name): \(error.message.lowercasedFirst)\(hint)")
    }
    close(ends[1])
    let text = LineReader(ends[0]).rest()
    return (wait(pid), String(decoding: text, as: UTF8.self))
  }
}
