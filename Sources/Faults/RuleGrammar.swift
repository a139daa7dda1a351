import Glibc
import StorageErrors

/// A key of a rule: what `add` and `set` know.
package struct FaultKey: Sendable {
  package enum Kind: String, CaseIterable, Sendable { case match, effect, limit }
  package let name: String
  package let kind: Kind
  /// How it is written.
  package let form: String
  package let help: String

  package static let all: [FaultKey] = [
    FaultKey(name: "id", kind: .match, form: "id=NAME", help: "the rule's name; without it r1, r2, ..."),
    FaultKey(name: "op", kind: .match, form: "op=read,write", help: "operations and groups of them; without it all"),
    FaultKey(
      name: "path", kind: .match, form: "path=GLOB|re:REGEX",
      help: "without / the last name, with / the whole path from the mount's root"),
    FaultKey(name: "uid", kind: .match, form: "uid=1000", help: "the caller's user"),
    FaultKey(name: "pid", kind: .match, form: "pid=4711", help: "the caller's process"),
    FaultKey(name: "exe", kind: .match, form: "exe=GLOB", help: "the caller's program: its path or last name"),
    FaultKey(name: "fh", kind: .match, form: "fh=old|new", help: "opened before the last reconnect, or after it"),
    FaultKey(
      name: "range", kind: .match, form: "range=0-4K",
      help: "calls that touch bytes from 0 to before 4K; 64K- has no end"),
    FaultKey(
      name: "when", kind: .match, form: "when=3[..7][+2]", help: "the third to seventh call that matches, every second"),
    FaultKey(
      name: "after", kind: .match, form: "after=64K", help: "once reads and writes have moved so many bytes of the path"
    ),
    FaultKey(name: "prob", kind: .match, form: "prob=1%", help: "by chance, drawn from the seed"),
    FaultKey(name: "errno", kind: .effect, form: "errno=EIO", help: "the call fails"),
    FaultKey(name: "delay", kind: .effect, form: "delay=200ms[~50ms]", help: "it takes so much longer, more or less"),
    FaultKey(name: "hang", kind: .effect, form: "hang", help: "it takes until del, clear or a signal"),
    FaultKey(name: "short", kind: .effect, form: "short=1", help: "it moves at most so many bytes, and says so"),
    FaultKey(
      name: "torn", kind: .effect, form: "torn=512", help: "so many bytes of the write land, and it fails (EIO)"),
    FaultKey(name: "corrupt", kind: .effect, form: "corrupt[=1]", help: "so many bits of what is read are flipped"),
    FaultKey(
      name: "lose", kind: .effect, form: "lose=dirty", help: "what was written since the last good fsync is gone"),
    FaultKey(name: "kill", kind: .effect, form: "kill[=TERM]", help: "the caller gets a signal; KILL without one"),
    FaultKey(name: "times", kind: .limit, form: "times=N", help: "so many calls get it"),
    FaultKey(name: "for", kind: .limit, form: "for=10s", help: "it ends after a time"),
  ]
  package static let names = all.map(\.name)
  /// Keys that stand alone.
  static let flags = ["hang", "corrupt", "kill"]
}

extension FaultRule {
  /// Of `add`, from its arguments. `place`: where the command begins.
  init(_ arguments: [ControlAttribute], at place: ControlPlace) throws(ControlError) {
    self.init()
    for attribute in arguments { try set(attribute.named()) }
    try check(arguments, at: place)
  }

  /// Takes over one key; an empty value takes the key away. Does not look at the others: `check` does.
  mutating func set(_ attribute: ControlAttribute) throws(ControlError) {
    if attribute.value.isEmpty, attribute.key != "path", attribute.key != "exe" {
      throw attribute.error("\(attribute.key)= wants a value behind it")
    }
    switch attribute.key {
    case "id": id = try attribute.ruleID()
    case "op": match.operations = try attribute.operations()
    case "path": match.path = try attribute.pattern()
    case "uid":
      guard let uid = decimal(attribute.text).flatMap(UInt32.init(exactly:)), uid != .max else {
        throw attribute.error("uid=\(attribute.text) is no user's number")
      }
      match.uid = uid
    case "pid": match.pid = Int32(try attribute.count(1...Int(Int32.max)))
    case "exe": match.executable = try attribute.pattern(isPath: false)
    case "fh": match.handle = try attribute.handleAge()
    case "range": match.range = try attribute.range()
    case "when": match.when = try attribute.ordinals()
    case "after": match.after = try attribute.bytes(from: 1)
    case "prob": match.probability = try attribute.probability()
    case "times": limit.times = try attribute.count(1...Int.max)
    case "for": limit.duration = try attribute.nonzeroDuration()
    default: try effect.set(attribute)
    }
  }

  /// Back to what it is without the key.
  mutating func remove(_ attribute: ControlAttribute) throws(ControlError) {
    switch attribute.key {
    case "id": throw attribute.error("a rule keeps its id")
    case "op": match.operations = .all
    case "path": match.path = nil
    case "uid": match.uid = nil
    case "pid": match.pid = nil
    case "exe": match.executable = nil
    case "fh": match.handle = nil
    case "range": match.range = nil
    case "when": match.when = nil
    case "after": match.after = nil
    case "prob": match.probability = nil
    case "times": limit.times = nil
    case "for": limit.duration = nil
    default: try effect.remove(attribute)
    }
  }

  /// Refuses what can match nothing or do nothing; `arguments` tell where the key in question stands.
  func check(_ arguments: [ControlAttribute], at place: ControlPlace) throws(ControlError) {
    func refuse(_ key: String, _ message: String) -> ControlError {
      (arguments.first { $0.named().key == key }?.place ?? place).error(message)
    }
    if effect.isEmpty {
      let effects = FaultKey.all.filter { $0.kind == .effect }.map(\.form).joined(separator: ", ")
      throw place.error("the rule has no effect; there are \(effects)")
    }
    if effect.errno != nil || effect.losesDirty || effect.torn != nil {
      for (key, isSet) in [("short", effect.short != nil), ("corrupt", effect.corrupt != nil)] where isSet {
        throw refuse(
          key, "\(key)= lets the call succeed, and errno=, torn= and lose= are failures; torn= writes a part")
      }
    }
    if operations.isEmpty {
      let key = effect.torn != nil ? "torn" : effect.short != nil ? "short" : effect.corrupt != nil ? "corrupt" : "lose"
      throw refuse(key, "\(key)= happens to \(effect.operations.names) only, and op= names none of them")
    }
    if match.handle != nil, operations.isDisjoint(with: .handled) {
      throw refuse("fh", "fh= matches calls with an open file or folder, and op= names none of them")
    }
    if match.range != nil, operations.isDisjoint(with: .placed) {
      throw refuse("range", "range= matches \(FaultOperations.placed.names), and op= names none of them")
    }
    if match.path?.isRoot == true, operations.isDisjoint(with: .ofRoot) {
      throw refuse("path", "path=/ is the mount's root, and op= names nothing that is done to it")
    }
    if let when = match.when, let last = when.last, let times = limit.times, times > (last - when.first) / when.step + 1
    {
      throw refuse("times", "times=\(times) is more than when= lets through")
    }
  }
}

extension FaultOperation {
  /// What people look for by the names of system calls, or of FUSE's requests.
  fileprivate static func named(byOthers name: String) -> String? {
    switch name {
    case "close", "release": "flush, which is close(2)"
    case "fdatasync", "sync", "syncfs": "fsync"
    case "ftruncate": "truncate"
    case "setattr": "chmod,chown,truncate,utimens"
    case "utime", "utimes", "touch": "utimens"
    case "remove", "rm": "unlink,rmdir"
    case "mv": "rename"
    case "fstat", "lstat", "statx": "stat"
    case "access", "forget": "lookup"
    case "pread", "readv", "preadv", "mmap": "read"
    case "pwrite", "writev", "pwritev", "append": "write"
    case "readlinkat": "readlink"
    case "statvfs", "df": "statfs"
    case "ls", "getdents", "readdirplus": "opendir,readdir"
    default: nil
    }
  }
}

extension FaultOperations {
  package var names: String { list.map(\.rawValue).joined(separator: ", ") }

  /// The root is never made, moved, removed, or read as a file.
  static let ofRoot = FaultOperations([
    .getattr, .chmod, .chown, .utimens, .opendir, .readdir, .fsyncdir, .statfs, .getxattr, .setxattr, .listxattr,
    .removexattr,
  ])
}

extension FaultEffect {
  fileprivate mutating func set(_ attribute: ControlAttribute) throws(ControlError) {
    switch attribute.key {
    case "errno": errno = try attribute.errno()
    case "delay": delay = try attribute.delay()
    case "hang": hang = try attribute.flag()
    case "short": short = Int(try attribute.bytes(from: 1, to: Int64(Int32.max)))
    case "torn": torn = Int(try attribute.bytes(from: 0, to: Int64(Int32.max)))
    case "corrupt": corrupt = try attribute.count(1...65_536)
    case "lose":
      guard attribute.text == "dirty" else { throw attribute.error("lose= is dirty, not \(attribute.text)") }
      losesDirty = true
    case "kill": kill = try attribute.signal()
    default: throw attribute.unknownKey()
    }
  }

  fileprivate mutating func remove(_ attribute: ControlAttribute) throws(ControlError) {
    switch attribute.key {
    case "errno": errno = nil
    case "delay": delay = nil
    case "hang": hang = false
    case "short": short = nil
    case "torn": torn = nil
    case "corrupt": corrupt = nil
    case "lose": losesDirty = false
    case "kill": kill = nil
    default: throw attribute.unknownKey()
    }
  }
}

extension ControlAttribute {
  /// A bare word that is a flag's name becomes `name=1`.
  func named(_ flags: [String] = FaultKey.flags) -> ControlAttribute {
    guard key.isEmpty, flags.contains(text) else { return self }
    return ControlAttribute(text, Array("1".utf8), at: place)
  }

  fileprivate func unknownKey() -> ControlError {
    guard key.isEmpty else { return error("unknown key \(key)=\(suggestion(for: key, among: FaultKey.names))") }
    let hint =
      if let known = FaultKey.all.first(where: { $0.name == text }) {
        "; write \(known.form)"
      } else if FaultOperation(rawValue: text) != nil {
        "; write op=\(text)"
      } else if Errno(name: text) != nil {
        "; write errno=\(text)"
      } else {
        suggestion(for: text, among: FaultKey.names)
      }
    return error("\(text) is no key=value\(hint)")
  }

  func ruleID() throws(ControlError) -> String {
    let isID = value.allSatisfy { byte in
      (0x30...0x39).contains(byte) || (0x41...0x5a).contains(byte) || (0x61...0x7a).contains(byte)
        || [UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-")].contains(byte)
    }
    guard isID, (1...64).contains(value.count) else {
      throw error("an id is 1 to 64 of letters, digits, . _ -")
    }
    return text
  }

  fileprivate func operations() throws(ControlError) -> FaultOperations {
    var operations: FaultOperations = []
    for part in text.split(separator: ",", omittingEmptySubsequences: false) {
      let name = String(part)
      if let operation = FaultOperation(rawValue: name) {
        operations.formUnion(FaultOperations(operation))
      } else if let group = FaultOperationGroup.all.first(where: { $0.name == name }) {
        operations.formUnion(group.operations)
      } else if let call = FaultOperation.named(byOthers: name) {
        throw error("unknown operation \(name); write op=\(call)")
      } else {
        guard !name.isEmpty else { throw error("an operation is missing beside a comma") }
        let known = FaultOperation.allCases.map(\.rawValue) + FaultOperationGroup.all.map(\.name)
        throw error("unknown operation \(name)\(suggestion(for: name.lowercased(), among: known))")
      }
    }
    return operations
  }

  fileprivate func pattern(isPath: Bool = true) throws(ControlError) -> PathPattern {
    if !isPath, value.starts(with: Array("re:".utf8)) { throw error("exe= takes a pattern, not re:") }
    do { return try PathPattern(value) } catch { throw place.error("\(key)=: \(error.message)") }
  }

  fileprivate func handleAge() throws(ControlError) -> HandleAge {
    guard let age = HandleAge(rawValue: text) else { throw error("fh= is old or new, not \(text)") }
    return age
  }

  fileprivate func range() throws(ControlError) -> FaultRange {
    let parts = text.split(separator: "-", omittingEmptySubsequences: false).map(String.init)
    guard parts.count == 2, let start = parts[0].isEmpty ? 0 : Quantity.bytes(parts[0]) else {
      throw error("range=\(text) is none; write 0-4K, or 64K- for all behind it")
    }
    if parts[1].isEmpty, !parts[0].isEmpty { return FaultRange(start: start, end: nil) }
    guard let end = Quantity.bytes(parts[1]) else {
      throw error("range=\(text) is none; write 0-4K, or 64K- for all behind it")
    }
    guard start < end else { throw error("range=\(text) is empty: the byte at its end is not part of it") }
    return FaultRange(start: start, end: end)
  }

  fileprivate func ordinals() throws(ControlError) -> FaultOrdinals {
    let form = error("when=\(text) is none; write 3, 3..7, 3.., 3..7+2 or 3+2, from 1")
    let parts = text.split(separator: "+", omittingEmptySubsequences: false).map(String.init)
    guard parts.count <= 2 else { throw form }
    var step = 1
    if parts.count == 2 {
      guard let number = decimal(parts[1]), number > 0 else { throw form }
      step = number
    }
    let dots = parts[0].firstRange(ofDots: ())
    let head = dots.map { String(parts[0][..<$0.lowerBound]) } ?? parts[0]
    guard let first = decimal(head), first > 0 else { throw form }
    guard let dots else {
      return FaultOrdinals(first: first, last: parts.count == 2 ? nil : first, step: step)
    }
    let tail = String(parts[0][dots.upperBound...])
    if tail.isEmpty { return FaultOrdinals(first: first, last: nil, step: step) }
    guard let last = decimal(tail) else { throw form }
    guard last >= first else { throw error("when=\(text) ends before it begins, and matches nothing") }
    // The last one that is reached, so that equal sets are equal.
    let reached = last - (last - first) % step
    return FaultOrdinals(first: first, last: reached, step: reached == first ? 1 : step)
  }

  fileprivate func probability() throws(ControlError) -> UInt64 {
    guard let share = Quantity.percent(text) else {
      throw error("prob=\(text) is no share; write 1% or 0.5%, up to 100%")
    }
    let billionths = UInt64((share * 1e9).rounded())
    guard billionths > 0 else { throw error("prob=\(text) never happens") }
    return billionths
  }

  fileprivate func errno() throws(ControlError) -> Errno {
    let errno: Errno
    if let number = decimal(text) {
      guard (1...511).contains(number) else {
        throw error("errno=\(text): outside 1 to 511; beyond it the kernel drops the answer and the caller hangs")
      }
      errno = Errno(rawValue: Int32(number))
    } else if let named = Errno(name: text) {
      errno = named
    } else {
      throw error("unknown errno \(text)\(suggestion(for: text.uppercased(), among: Errno.names))")
    }
    guard errno.rawValue != ENOSYS else {
      throw error("errno=ENOSYS would switch the call off for the life of the mount; take EOPNOTSUPP")
    }
    return errno
  }

  fileprivate func delay() throws(ControlError) -> FaultDelay {
    let parts = text.split(separator: "~", omittingEmptySubsequences: false).map(String.init)
    guard parts.count <= 2, let base = Quantity.nanoseconds(parts[0]),
      let jitter = parts.count == 1 ? 0 : Quantity.nanoseconds(parts[1])
    else { throw error("delay=\(text) is no time; write 200ms, or 200ms~50ms") }
    guard base > 0 || jitter > 0 else { throw error("delay=\(text) delays nothing") }
    guard base + jitter <= Self.longestDelay else { throw error("delay=\(text) is more than an hour; take hang") }
    return FaultDelay(base: base, jitter: jitter)
  }

  /// Nanoseconds.
  private static let longestDelay: UInt64 = 3_600_000_000_000

  fileprivate func signal() throws(ControlError) -> Int32 {
    if text == "1" { return SIGKILL }
    let name = text.hasPrefix("SIG") ? String(text.dropFirst(3)) : text
    guard let signal = FaultSignal.numbers[name] else {
      let names = FaultSignal.numbers.keys.sorted()
      throw error(
        "unknown signal \(text)\(suggestion(for: name.uppercased(), among: names)); write its name, as kill=TERM")
    }
    return signal
  }
}

extension String {
  fileprivate func firstRange(ofDots: Void) -> Range<String.Index>? {
    guard let first = firstIndex(of: ".") else { return nil }
    let second = index(after: first)
    guard second < endIndex, self[second] == "." else { return nil }
    return first..<index(after: second)
  }
}
