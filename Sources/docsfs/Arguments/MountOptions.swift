import Containers
import DocsEngine
import Faults
import FuseBridge

/// What `-o` said.
struct MountOptions {
  var readOnly = false
  var allowOther = false
  var nonEmpty = false
  /// Whether faults may be armed; what keeps files from kernel passthrough.
  var faults = true
  var io = IOMode.auto
  var materialize = MaterializePolicy.open
  var cacheSize: Int64?
  var minFree = MinFree.percent(5)
  var poll = 30.0
  var timeo = 30.0
  var noMaterialize: [String]?
  var placeholderStyle = PlaceholderStyle.plain
  var offlineWrites = OfflineWrites.queue
  var fsync = FsyncPolicy.local
  /// Where Prometheus may ask; nil: nowhere.
  var metrics: MetricsAddress?
  /// `noexec`, `nosuid`, …: the kernel's own.
  var kernel: [String] = []

  init() {}

  /// Of all `-o` lists in their order; what comes later counts.
  init(_ lists: [[UInt8]]) throws(Failure) {
    for list in lists {
      for word in Self.split(list) { try take(word) }
    }
    if io == .passthrough, faults {
      throw .usage(
        "mount: io=passthrough needs faults=off: what the kernel reads and writes by itself cannot be made to fail")
    }
  }

  /// At commas; `\,` is a comma of the value.
  static func split(_ list: [UInt8]) -> [String] {
    var words: [[UInt8]] = [[]]
    var index = 0
    while index < list.count {
      let byte = list[index]
      if byte == UInt8(ascii: "\\"), index + 1 < list.count, list[index + 1] == UInt8(ascii: ",") {
        words[words.count - 1].append(list[index + 1])
        index += 1
      } else if byte == UInt8(ascii: ",") {
        words.append([])
      } else {
        words[words.count - 1].append(byte)
      }
      index += 1
    }
    return words.map { String(decoding: $0, as: UTF8.self) }.filter { !$0.isEmpty }
  }

  private mutating func take(_ word: String) throws(Failure) {
    let name = String(word.prefix { $0 != "=" })
    let value = word.contains("=") ? String(word.dropFirst(name.count + 1)) : nil
    if Self.flags.contains(name) {
      guard value == nil else { throw .usage("mount: option \(name) takes no value, not \(word)") }
      takeFlag(name)
    } else if Self.valued.contains(name) {
      guard let value, !value.isEmpty else { throw .usage("mount: option \(name)= wants a value behind it") }
      try takeValue(name, value)
    } else if !Self.isFstabsOwn(name) {
      throw .usage(
        "mount: unknown option -o \(word)"
          + (nearest(to: name, among: Self.flags + Self.valued).map { "; did you mean \($0)?" }
            ?? "; see docsfs mount --help"))
    }
  }

  static let flags = ["ro", "rw", "allow_other", "nonempty"] + kernelFlags
  private static let kernelFlags = [
    "suid", "nosuid", "dev", "nodev", "exec", "noexec", "atime", "noatime", "sync", "async", "dirsync",
  ]
  static let valued = [
    "materialize", "faults", "io", "fsync", "cache_size", "min_free", "poll", "no_materialize",
    "placeholder_style", "offline_writes", "timeo", "metrics",
  ]

  /// What mount(8) and systemd mean for themselves.
  private static func isFstabsOwn(_ name: String) -> Bool {
    let words = [
      "defaults", "_netdev", "auto", "noauto", "nofail", "fail", "user", "nouser", "users", "owner", "group",
      "relatime", "norelatime", "strictatime", "nostrictatime", "lazytime", "nolazytime", "diratime",
      "nodiratime",
      "silent", "loud", "comment", "uhelper", "helper",
    ]
    return words.contains(name) || name.hasPrefix("x-") || name.hasPrefix("X-")
  }

  private mutating func takeFlag(_ name: String) {
    switch name {
    case "ro": readOnly = true
    case "rw": readOnly = false
    case "allow_other": allowOther = true
    case "nonempty": nonEmpty = true
    default:
      let opposite = name.hasPrefix("no") ? String(name.dropFirst(2)) : "no" + name
      kernel.removeAll { $0 == opposite || $0 == name }
      kernel.append(name)
    }
  }

  private mutating func takeValue(_ name: String, _ value: String) throws(Failure) {
    switch name {
    case "materialize": materialize = try choose(name, value, ["open": .open, "range": .range])
    case "faults": faults = try choose(name, value, ["on": true, "off": false])
    case "io": io = try choose(name, value, ["auto": .auto, "passthrough": .passthrough, "cached": .cached])
    case "fsync": fsync = try choose(name, value, ["local": .local, "cloud": .cloud])
    case "placeholder_style": placeholderStyle = try choose(name, value, ["plain": .plain, "stub": .stub])
    case "offline_writes": offlineWrites = try choose(name, value, ["queue": .queue, "erofs": .erofs])
    case "cache_size": cacheSize = value == "unlimited" ? nil : try size(name, value)
    case "min_free": minFree = try room(name, value)
    case "poll": poll = try time(name, value)
    case "metrics": metrics = try MetricsAddress(value)
    case "timeo": timeo = try time(name, value)
    default: noMaterialize = value.split(separator: ":").map(String.init)
    }
  }

  private func choose<T>(_ name: String, _ value: String, _ choices: [String: T]) throws(Failure) -> T {
    if let choice = choices[value] { return choice }
    let names = choices.keys.sorted()
    throw .usage(
      "mount: \(name)=\(value) is none of \(names.joined(separator: ", "))"
        + suggestion(for: value, among: names, prefix: "\(name)="))
  }

  private func size(_ name: String, _ value: String) throws(Failure) -> Int64 {
    if let bytes = Quantity.bytes(value) { return bytes }
    throw .usage("mount: \(name)=\(value) is no size; write bytes, or 500MiB, 10GiB")
  }

  private func room(_ name: String, _ value: String) throws(Failure) -> MinFree {
    if let percent = Quantity.percent(value) { return .percent(percent * 100) }
    if let bytes = Quantity.bytes(value) { return .bytes(bytes) }
    throw .usage("mount: \(name)=\(value) is neither a share of the disk (5%) nor a size (10GiB)")
  }

  private func time(_ name: String, _ value: String) throws(Failure) -> Double {
    if let seconds = Quantity.seconds(value), seconds > 0 { return seconds }
    throw .usage("mount: \(name)=\(value) is no time above zero; write seconds, or 500ms, 2m, 1h")
  }
}

extension MountOptions {
  func configuration(state: FilePath, uid: UInt32, gid: UInt32) -> VolumeConfiguration {
    var result = VolumeConfiguration(stateDirectory: state.text, uid: uid, gid: gid)
    result.materialize = materialize
    result.cacheSize = cacheSize
    result.minFree = minFree
    result.poll = poll
    result.timeo = timeo
    if let noMaterialize { result.noMaterialize = noMaterialize }
    result.placeholderStyle = placeholderStyle
    result.readOnly = readOnly
    result.offlineWrites = offlineWrites
    result.fsync = fsync
    return result
  }
}
