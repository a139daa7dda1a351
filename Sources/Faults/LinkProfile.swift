import StorageErrors

/// How a disconnected mount behaves: a row of LinkProfiles.tsv, which names the source of each.
package struct LinkProfile: Sendable {
  package let name: String
  private let cells: [LinkColumn: LinkCell]
  /// What a handle from before the disconnect answers once the link is mended; nil: it goes on.
  package let oldHandle: Errno?
  /// Whether what was written before a failing fsync, and acknowledged, is gone.
  package let dropsUnsynced: Bool
  package let source: String

  /// The network to the container is down: what is local goes on, what is missing fails. The engine knows how.
  package static let cloud = LinkProfile(
    name: "cloud", cells: Dictionary(uniqueKeysWithValues: LinkColumn.allCases.map { ($0, .engine) }), oldHandle: nil,
    dropsUnsynced: false, source: "")

  package static let all: [LinkProfile] = (try? table.get()) ?? [.cloud]

  package init?(name: String) {
    guard let profile = Self.all.first(where: { $0.name == name }) else { return nil }
    self = profile
  }

  /// What to say when there is no profile of that name.
  package static func unknown(_ name: String) -> String {
    let names = all.map(\.name)
    let hint = suggestion(for: name, among: names)
    return "unknown profile \(name)" + (hint.isEmpty ? "; there are \(names.joined(separator: ", "))" : hint)
  }

  private init(name: String, cells: [LinkColumn: LinkCell], oldHandle: Errno?, dropsUnsynced: Bool, source: String) {
    self.name = name
    self.cells = cells
    self.oldHandle = oldHandle
    self.dropsUnsynced = dropsUnsynced
    self.source = source
  }

  /// A cell of its row, as the data file writes it.
  package func cell(_ column: LinkColumn) -> String { cells[column]?.text ?? "" }

  /// Whether the engine answers everything itself.
  package var isEngines: Bool { cells.values.allSatisfy { $0 == .engine } }

  /// What a call gets while the link is down.
  ///
  /// - `contentIsLocal`: all bytes that the call wants are local; nil: it wants none.
  /// - `isLater`: there was an fsync since the link went down, or that is 5 s ago.
  /// - `isBarred`: the caller is on the `no_materialize` list.
  /// - `handleIsOld`: the handle is from before the link went down.
  /// - `hasUnsynced`: the file has bytes that were written after its last good fsync.
  package func answer(
    _ operation: FaultOperation, opensForWriting: Bool = false, contentIsLocal: Bool? = nil, isLater: Bool = false,
    isPlaceholder: Bool = false, isBarred: Bool = false, handleIsOld: Bool = true, hasUnsynced: Bool = true
  ) -> LinkAnswer {
    let column = LinkColumn(operation, opensForWriting: opensForWriting)
    for (condition, answer) in cells[column]?.choices ?? [] {
      let holds =
        switch condition {
        case .local: contentIsLocal ?? true
        case .placeholder: isPlaceholder
        case .barred: isBarred
        case .later: isLater
        case .old: handleIsOld
        case .dirty: hasUnsynced
        case .else: true
        }
      if holds { return answer }
    }
    return .ok
  }
}

extension LinkProfile: Equatable {
  package static func == (a: Self, b: Self) -> Bool { a.name == b.name }
}

package enum LinkAnswer: Equatable, Sendable {
  case ok
  case fail(Errno)
  /// Until the link is mended or the caller is signalled.
  case hang
  /// Whatever the engine answers.
  case engine
}

/// The columns of the table that say what an operation gets.
package enum LinkColumn: String, CaseIterable, Sendable {
  case lookup, getattr, mutate, openRead, read, write, fsync, flush, opendir, readdir, statfs, xattr

  package init(_ operation: FaultOperation, opensForWriting: Bool) {
    self =
      switch operation {
      case .lookup, .readlink: .lookup
      case .getattr: .getattr
      case .chmod, .chown, .truncate, .utimens, .mknod, .mkdir, .symlink, .link, .unlink, .rmdir, .rename, .create,
        .setxattr, .removexattr:
        .mutate
      case .open: opensForWriting ? .mutate : .openRead
      case .read, .lseek: .read
      case .write, .fallocate, .copy_file_range: .write
      case .fsync, .fsyncdir: .fsync
      case .flush: .flush
      case .opendir: .opendir
      case .readdir: .readdir
      case .statfs: .statfs
      case .getxattr, .listxattr: .xattr
      }
  }
}

/// A cell: `ok`, an errno, `hang` or `engine`; or conditions with an answer each, of which the first that holds counts:
/// `local:ok,barred:EDEADLK,else:ETIMEDOUT`. Where none holds, the answer is ok.
struct LinkCell: Equatable, Sendable {
  enum Condition: String, CaseIterable { case local, placeholder, barred, later, old, dirty, `else` }
  var choices: [(condition: Condition, answer: LinkAnswer)]

  static let engine = LinkCell(choices: [(.else, .engine)])

  static func == (a: Self, b: Self) -> Bool { a.choices.elementsEqual(b.choices) { $0 == $1 } }

  var text: String {
    choices.map { condition, answer in
      choices.count == 1 && condition == .else ? answer.text : "\(condition.rawValue):\(answer.text)"
    }.joined(separator: ",")
  }

  /// nil: not in the vocabulary.
  init?(_ text: String) {
    choices = []
    for part in text.split(separator: ",", omittingEmptySubsequences: false) {
      let pair = part.split(separator: ":", omittingEmptySubsequences: false).map(String.init)
      let condition = pair.count == 2 ? Condition(rawValue: pair[0]) : .else
      guard pair.count <= 2, let condition, let last = pair.last, let answer = LinkAnswer(last) else { return nil }
      choices.append((condition, answer))
    }
  }

  init(choices: [(condition: Condition, answer: LinkAnswer)]) { self.choices = choices }
}

extension LinkAnswer {
  var text: String {
    switch self {
    case .ok: "ok"
    case .hang: "hang"
    case .engine: "engine"
    case .fail(let errno): errno.name
    }
  }

  fileprivate init?(_ text: String) {
    switch text {
    case "ok": self = .ok
    case "hang": self = .hang
    case "engine": self = .engine
    default:
      guard let errno = Errno(name: text) else { return nil }
      self = .fail(errno)
    }
  }
}

extension LinkProfile {
  /// What is wrong with the data file; a test holds that nothing is.
  struct TableError: Error, CustomStringConvertible {
    var description: String
    init(_ description: String) { self.description = description }
  }

  static let table = Result { () throws(TableError) in
    try profiles(String(decoding: PackageResources.LinkProfiles_tsv, as: UTF8.self))
  }

  static func profiles(_ text: String) throws(TableError) -> [LinkProfile] {
    let lines = text.split(separator: "\n").map {
      $0.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
    }
    let header = ["profile"] + LinkColumn.allCases.map(\.rawValue) + ["oldHandle", "unsynced", "source"]
    guard lines.first == header else { throw TableError("the columns are \(header.joined(separator: ", "))") }
    var profiles: [LinkProfile] = []
    for line in lines.dropFirst() { profiles.append(try LinkProfile(line)) }
    return profiles
  }

  private init(_ row: [String]) throws(TableError) {
    let name = row.first ?? ""
    guard row.count == LinkColumn.allCases.count + 4 else { throw TableError("\(name): \(row.count) cells") }
    var cells: [LinkColumn: LinkCell] = [:]
    for (column, text) in zip(LinkColumn.allCases, row.dropFirst()) {
      guard let cell = LinkCell(text) else { throw TableError("\(name), \(column.rawValue): unknown cell \(text)") }
      cells[column] = cell
    }
    let (old, unsynced, source) = (row[row.count - 3], row[row.count - 2], row[row.count - 1])
    guard let oldHandle = LinkAnswer(old), oldHandle != .hang, oldHandle != .engine else {
      throw TableError("\(name), oldHandle: unknown cell \(old)")
    }
    guard ["kept", "dropped"].contains(unsynced) else {
      throw TableError("\(name), unsynced: unknown cell \(unsynced)")
    }
    guard !source.isEmpty else { throw TableError("\(name): no source") }
    self.init(
      name: name, cells: cells, oldHandle: oldHandle.errno, dropsUnsynced: unsynced == "dropped", source: source)
  }
}

extension LinkAnswer {
  package var errno: Errno? {
    if case .fail(let errno) = self { errno } else { nil }
  }
}
