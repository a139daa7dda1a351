import CLinux
import Containers
import Faults
import FuseBridge
import Glibc
import StorageErrors

/// Which call fails in a run: the `ordinal`-th of its kind, counted over the whole mount.
struct SweepFault: Sendable, Equatable {
  static let ruleID = "sweep"
  var operation: FaultOperation
  var ordinal: Int
  var errno: Errno

  var command: ControlCommand {
    var rule = FaultRule(id: Self.ruleID)
    rule.match.operations = FaultOperations(operation)
    rule.match.when = FaultOrdinals(first: ordinal, last: ordinal)
    rule.effect.errno = errno
    rule.limit.times = 1
    return .add(rule)
  }
}

/// What became of one run.
struct SweepOutcome: Sendable {
  enum Invariant: Sendable, Equatable {
    case held
    /// What is lost, or what the invariant's command said.
    case broken([String])
  }
  /// nil: nothing was to fail.
  var fault: SweepFault?
  /// What the call that failed was about; empty when none was reached.
  var path = ""
  /// nil: it hung, and was killed.
  var status: Int32?
  var fired = 0
  var visible = 0
  /// The last lines of standard error.
  var errors: [String] = []
  var invariant = Invariant.held
  var seconds = 0.0
  /// The operations that the run did.
  var recorded: [FaultOperation: Int] = [:]

  var isBroken: Bool { invariant != .held }
}

/// One run of the command on a fresh volume.
struct SweepRun {
  let plan: SweepPlan
  let folder: FilePath
  let child: SweepChildren

  /// The folders of a run outside of the mount: `{out}`, and one for each source.
  private func places(_ mount: FreshMount) -> LostFiles.Places {
    [mount.mountpoint, folder.appending("out")] + plan.sources.indices.map { folder.appending("source\($0)") }
  }

  /// Where the sources of every run are at its beginning, as `places` counts.
  static func originals(_ plan: SweepPlan) throws(Failure) -> LostFiles {
    var files = LostFiles()
    if let filling = plan.filling { try files.add(filling, at: .init(place: 0, names: [])) }
    for (number, source) in plan.sources.enumerated() {
      let isTree = source.path.isFolder && source.path.linkTarget == nil
      try files.add(source.path, at: .init(place: number + 2, names: isTree ? [source.path.lastName] : []))
    }
    return files
  }

  /// Without a fault the operations are recorded, and `files` learns where the command brings them.
  func perform(_ fault: SweepFault?, _ files: inout LostFiles) throws(Failure) -> SweepOutcome {
    for (number, source) in plan.sources.enumerated() {
      try source.path.copy(to: try folder.makingFolder("source\(number)"))
    }
    _ = try folder.makingFolder("out")
    let mount = try FreshMount(in: folder, filledFrom: plan.filling, options: plan.options)
    let result = Result { () throws(Failure) in try perform(fault, &files, mount) }
    try mount.end()
    return try result.get()
  }

  private func perform(
    _ fault: SweepFault?, _ files: inout LostFiles, _ mount: FreshMount
  ) throws(Failure) -> SweepOutcome {
    guard let entry = try mount.entry() else { throw Failure("\(mount.mountpoint) is not mounted any more") }
    let client = try ControlClient(entry)
    var outcome = SweepOutcome(fault: fault)
    try client.require(.init(fault?.command ?? .record(true)))
    let began = Clock.now()
    outcome.status = try runCommand(commandWords(mount), mount, limit: plan.timeout)
    outcome.seconds = Double(Clock.now() - began) / 1e9
    outcome.errors = lastErrors(mount)
    try note(&outcome, client)
    try client.require(.init(.record(false)))
    try client.require(.init(.clear))
    // Whatever waits in the mount after that is no fault of ours: a daemon that does not answer is ended.
    let guardian = Guardian(mount, seconds: plan.timeout)
    defer { guardian.stop() }
    outcome.invariant = try invariant(&files, fault, mount)
    return outcome
  }

  // MARK: The command

  /// The command with this run's copies in the place of its sources.
  private func commandWords(_ mount: FreshMount) -> [[UInt8]] {
    var words = plan.command
    for (number, source) in plan.sources.enumerated() { words[source.index] = copy(number).bytes + source.suffix }
    return filled(words, mount)
  }

  private func filled(_ words: [[UInt8]], _ mount: FreshMount) -> [[UInt8]] {
    mount.words(words).map { word in
      let word = replacing(Array("{out}".utf8), in: word, with: folder.appending("out").bytes)
      guard !plan.sources.isEmpty else { return word }
      return replacing(Array("{source}".utf8), in: word, with: copy(0).bytes)
    }
  }

  /// Of a source, for this run.
  private func copy(_ number: Int) -> FilePath {
    folder.appending("source\(number)").appending(plan.sources[number].path.lastName)
  }

  private var errorFile: FilePath { folder.appending("errors") }

  /// The exit status; nil when it took too long and was killed, with all its children.
  private func runCommand(_ words: [[UInt8]], _ mount: FreshMount, limit: Double) throws(Failure) -> Int32? {
    let null = FilePath("/dev/null")
    let name = FilePath(words[0])
    let pid: pid_t
    do {
      pid = try Spawn.start(
        program: name.text, searchingPath: true, words, Spawn.Files(input: null, output: null, error: errorFile),
        environment: mount.environment, inNewSession: true)
    } catch {
      throw Failure("cannot run \(name): \(error.message.lowercasedFirst)", error == .ENOENT ? 127 : 126)
    }
    return try child.wait(pid, limit: limit) { mount.kill() }
  }

  /// With the words of the command in the place of this run's paths.
  private func lastErrors(_ mount: FreshMount) -> [String] {
    var bytes = (try? errorFile.contents())?.suffix(65_536).map { $0 } ?? []
    bytes = replacing(mount.mountpoint.bytes, in: bytes, with: Array("{mount}".utf8))
    bytes = replacing(folder.appending("out").bytes, in: bytes, with: Array("{out}".utf8))
    for number in plan.sources.indices {
      bytes = replacing(copy(number).bytes, in: bytes, with: plan.sources[number].path.bytes)
    }
    return String(decoding: bytes, as: UTF8.self).split(separator: "\n").suffix(3).map { oneLine(String($0)) }
  }

  // MARK: What came of it

  private func note(_ outcome: inout SweepOutcome, _ client: ControlClient) throws(Failure) {
    if let rule = try client.faults().rules.first(where: { $0.id == SweepFault.ruleID }) {
      outcome.fired = rule.fired
      outcome.visible = rule.visible
    }
    var place = 0
    while true {
      let (text, next) = try client.log(from: place)
      if text.isEmpty { return }
      place = next
      for line in text.split(separator: "\n") { note(&outcome, SweepLogLine(String(line))) }
    }
  }

  private func note(_ outcome: inout SweepOutcome, _ line: SweepLogLine?) {
    guard let line, let operation = FaultOperation(rawValue: line.op ?? "") else { return }
    if outcome.fault == nil { outcome.recorded[operation, default: 0] += 1 }
    if line.rule == SweepFault.ruleID, let path = line.path {
      outcome.path = line.newPath.map { "\(path) -> \($0)" } ?? path
    }
  }

  private func invariant(
    _ files: inout LostFiles, _ fault: SweepFault?, _ mount: FreshMount
  ) throws(Failure) -> SweepOutcome.Invariant {
    if let command = plan.invariant {
      truncate(errorFile.text, 0)
      let words = [Array("sh".utf8), Array("-c".utf8)] + filled([command], mount)
      let status = try runCommand(words, mount, limit: plan.timeout)
      if status == 0 { return .held }
      let said = lastErrors(mount)
      let end = status.map { "the invariant's command ended with \($0)" } ?? "the invariant's command hung"
      return .broken(said.isEmpty ? [end] : said)
    }
    let places = places(mount)
    if fault == nil { try files.learn(places) }
    let lost = files.find(places)
    return lost.isEmpty ? .held : .broken(lost)
  }
}

/// Ends a mount's daemon when what is done in it takes too long: then it fails instead.
private struct Guardian {
  private let isOver = Guarded(false)

  init(_ mount: FreshMount, seconds: Double) {
    let limit = Clock.now() + UInt64(seconds * 1e9)
    let isOver = isOver
    startDetached("sweep-guardian") {
      isOver.wait(until: limit) { $0 }
      // Under the lock, so that the process is still there: nobody else has its number.
      isOver.withLock { if !$0 { mount.kill() } }
    }
  }

  func stop() { isOver.signal { $0 = true } }
}
