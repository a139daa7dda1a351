import Foundation
import StorageErrors
import TestSupport
import XCTest

/// What Foundation on Linux throws when the mount answers with an errno: measured, written down in
/// docs/FOUNDATION-ERRORS.md, and classified.
final class FoundationErrorTests: MountedTestCase {
  private static let errnos: [ErrnoSymbol] = [
    .EIO, .ENXIO, .ENODEV, .ESTALE, .ENOENT, .EACCES, .EPERM, .ENOSPC, .EDQUOT, .EROFS, .EEXIST, .ENOTEMPTY,
    .ENAMETOOLONG, .EFBIG, .EBUSY, .ETXTBSY, .EDEADLK, .ETIMEDOUT, .ENOTCONN, .EHOSTDOWN, .EHOSTUNREACH, .ENETDOWN,
    .EREMOTEIO, .ENOMEDIUM, .EUCLEAN, .ELOOP, .ENOTDIR, .EISDIR, .EINVAL, .EBADF, .ENOMEM, .EMFILE, .ECANCELED,
    .EOPNOTSUPP,
  ]
  private static let document = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("docs/FOUNDATION-ERRORS.md")

  override var patience: Double { 120 }

  func testWhatFoundationThrowsIsWrittenDownAndClassified() throws {
    let volume = try mount()
    let elsewhere = try outside("elsewhere")
    var lines: [String] = []
    for (number, scene) in FoundationScene.all.enumerated() {
      let stage = FoundationStage(volume, elsewhere, "\(number)")
      let results = try Self.errnos.map { errno -> FoundationResult in
        let result = try stage.play(scene, errno)
        assertIsClassified(result, scene)
        assertMeaning(result, scene)
        return result
      }
      lines.append(FoundationResult.row(scene, results))
    }
    try assertWrittenDown(lines)
  }

  /// Those that the seeds speak of, and what each means.
  private static let meanings: [ErrnoSymbol: Classification.Category] = [
    .ENODEV: .disconnected, .EIO: .ioFailure, .ENOENT: .notFound, .ENXIO: .disconnected, .ESTALE: .staleHandle,
    .ENOSPC: .outOfSpace, .EROFS: .readOnly, .EACCES: .noPermission,
  ]

  /// Where Foundation throws, and it does but for close(2), whose errors it drops, and for fsync(2) of a read-only file.
  private func assertMeaning(_ result: FoundationResult, _ scene: FoundationScene) {
    guard let meaning = Self.meanings[result.errno] else { return }
    let what = "\(scene.name): \(result.errno)"
    if let error = result.error { return XCTAssertEqual(classify(error).category, meaning, what) }
    XCTAssertTrue(scene.operation == "flush" || scene.operation == "fsync" && result.errno == .EROFS, what)
  }

  /// Where Foundation passes the errno on, the classifier finds it.
  private func assertIsClassified(_ result: FoundationResult, _ scene: FoundationScene) {
    guard let error = result.error, result.keepsErrno else { return }
    let cause = classify(error).cause
    // "Not permitted" tells less than Cocoa's "no permission", which then decides.
    if result.errno != .EPERM { XCTAssertEqual(cause.symbol, result.errno.rawValue, "\(scene.name): \(error)") }
    let bare = NSError(domain: NSPOSIXErrorDomain, code: Int(result.errno.number(on: .linux) ?? 0))
    XCTAssertEqual(classify(error).category, classify(bare).category, "\(scene.name): \(error)")
  }

  private func assertWrittenDown(_ lines: [String]) throws {
    let begin = "<!-- measured -->\n"
    let end = "<!-- end -->\n"
    let text = try String(contentsOf: Self.document, encoding: .utf8)
    let start = try XCTUnwrap(text.range(of: begin)).upperBound
    let stop = try XCTUnwrap(text.range(of: end)).lowerBound
    let measured = lines.joined(separator: "\n") + "\n"
    if ProcessInfo.processInfo.environment["DOCSFS_WRITE_DOCS"] == "1" {
      try (text[..<start] + measured + text[stop...]).write(to: Self.document, atomically: true, encoding: .utf8)
    }
    // Another release of Foundation may choose otherwise.
    #if compiler(>=6.3) && compiler(<6.4)
      let written =
        try String(contentsOf: Self.document, encoding: .utf8).components(separatedBy: begin).last?
        .components(separatedBy: end).first?.split(separator: "\n").map(String.init) ?? []
      for (line, wanted) in zip(lines, written) { XCTAssertEqual(line, wanted) }
      XCTAssertEqual(lines.count, written.count, "DOCSFS_WRITE_DOCS=1 writes it down anew")
    #endif
  }
}

/// One call of Foundation's, and the operation that fails in it.
private struct FoundationScene {
  var name: String
  /// Of the control grammar.
  var operation: String
  /// Of the stage's files, the one on which it fails.
  var place: String
  var call: @Sendable (FoundationStage) throws -> Void

  static let all: [FoundationScene] = [
    .init(name: "`FileManager.copyItem`, the source cannot be opened", operation: "open", place: "file") {
      try FileManager.default.copyItem(atPath: $0.file, toPath: $0.new)
    },
    .init(name: "`FileManager.copyItem`, a read fails", operation: "read", place: "file") {
      try FileManager.default.copyItem(atPath: $0.file, toPath: $0.new)
    },
    .init(name: "`FileManager.copyItem`, the destination cannot be made", operation: "create", place: "new") {
      try FileManager.default.copyItem(atPath: $0.file, toPath: $0.new)
    },
    .init(name: "`FileManager.copyItem`, a write fails", operation: "write", place: "new") {
      try FileManager.default.copyItem(atPath: $0.outside, toPath: $0.new)
    },
    .init(name: "`FileManager.copyItem`, close fails", operation: "flush", place: "new") {
      try FileManager.default.copyItem(atPath: $0.outside, toPath: $0.new)
    },
    .init(name: "`FileManager.copyItem` of a folder, a read fails", operation: "read", place: "tree/b") {
      try FileManager.default.copyItem(atPath: $0.tree, toPath: $0.new)
    },
    .init(name: "`FileManager.moveItem`, rename fails", operation: "rename", place: "file") {
      try FileManager.default.moveItem(atPath: $0.file, toPath: $0.new)
    },
    .init(name: "`FileManager.moveItem` off the mount, a read fails", operation: "read", place: "file") {
      try FileManager.default.moveItem(atPath: $0.file, toPath: $0.newOutside)
    },
    .init(name: "`FileManager.moveItem` off the mount, the source stays", operation: "unlink", place: "file") {
      try FileManager.default.moveItem(atPath: $0.file, toPath: $0.newOutside)
    },
    .init(name: "`FileManager.moveItem` onto the mount, a write fails", operation: "write", place: "new") {
      try FileManager.default.moveItem(atPath: $0.outside, toPath: $0.new)
    },
    .init(name: "`FileManager.moveItem` onto the mount, close fails", operation: "flush", place: "new") {
      try FileManager.default.moveItem(atPath: $0.outside, toPath: $0.new)
    },
    .init(name: "`FileManager.createDirectory`", operation: "mkdir", place: "new") {
      try FileManager.default.createDirectory(atPath: $0.new, withIntermediateDirectories: false)
    },
    .init(name: "`FileManager.createDirectory`, with those above", operation: "mkdir", place: "new") {
      try FileManager.default.createDirectory(atPath: $0.new + "/below", withIntermediateDirectories: true)
    },
    .init(name: "`FileManager.removeItem` of a file", operation: "unlink", place: "file") {
      try FileManager.default.removeItem(atPath: $0.file)
    },
    .init(name: "`FileManager.removeItem` of a folder", operation: "rmdir", place: "tree") {
      try FileManager.default.removeItem(atPath: $0.tree)
    },
    .init(name: "`FileManager.contentsOfDirectory`", operation: "opendir", place: "tree") {
      _ = try FileManager.default.contentsOfDirectory(atPath: $0.tree)
    },
    .init(name: "`FileManager.attributesOfItem`", operation: "getattr", place: "file") {
      _ = try FileManager.default.attributesOfItem(atPath: $0.file)
    },
    .init(name: "`Data(contentsOf:)`, open fails", operation: "open", place: "file") {
      _ = try Data(contentsOf: URL(fileURLWithPath: $0.file))
    },
    .init(name: "`Data(contentsOf:)`, a read fails", operation: "read", place: "file") {
      _ = try Data(contentsOf: URL(fileURLWithPath: $0.file))
    },
    .init(name: "`Data.write(to:)`, the file cannot be made", operation: "create", place: "new") {
      try Data($0.bytes).write(to: URL(fileURLWithPath: $0.new))
    },
    .init(name: "`Data.write(to:)`, a write fails", operation: "write", place: "new") {
      try Data($0.bytes).write(to: URL(fileURLWithPath: $0.new))
    },
    .init(name: "`Data.write(to:)`, fsync fails", operation: "fsync", place: "new") {
      try Data($0.bytes).write(to: URL(fileURLWithPath: $0.new))
    },
    .init(name: "`Data.write(to:)`, close fails", operation: "flush", place: "new") {
      try Data($0.bytes).write(to: URL(fileURLWithPath: $0.new))
    },
    .init(name: "`Data.write(to:options:.atomic)`, a write fails", operation: "write", place: "*") {
      try Data($0.bytes).write(to: URL(fileURLWithPath: $0.new), options: .atomic)
    },
    .init(name: "`Data.write(to:options:.atomic)`, rename fails", operation: "rename", place: "*") {
      try Data($0.bytes).write(to: URL(fileURLWithPath: $0.new), options: .atomic)
    },
    .init(name: "`FileHandle(forReadingFrom:)`", operation: "open", place: "file") {
      _ = try FileHandle(forReadingFrom: URL(fileURLWithPath: $0.file))
    },
    .init(name: "`FileHandle.read(upToCount:)`", operation: "read", place: "file") {
      _ = try FileHandle(forReadingFrom: URL(fileURLWithPath: $0.file)).read(upToCount: 1000)
    },
    .init(name: "`FileHandle(forWritingTo:)`", operation: "open", place: "file") {
      _ = try FileHandle(forWritingTo: URL(fileURLWithPath: $0.file))
    },
    .init(name: "`FileHandle.write(contentsOf:)`", operation: "write", place: "file") {
      try FileHandle(forWritingTo: URL(fileURLWithPath: $0.file)).write(contentsOf: Data($0.bytes))
    },
    .init(name: "`FileHandle.synchronize()`", operation: "fsync", place: "file") {
      try FileHandle(forWritingTo: URL(fileURLWithPath: $0.file)).synchronize()
    },
    .init(name: "`FileHandle.close()`", operation: "flush", place: "file") {
      try FileHandle(forWritingTo: URL(fileURLWithPath: $0.file)).close()
    },
  ]
}

/// The files of a scene: `file` and `tree` on the mount, `outside` beside it, and `new`, which is free.
private struct FoundationStage {
  let volume: MountedVolume
  let name: String
  let bytes = patterned(40_000, seed: 1)
  private let elsewhere: String

  init(_ volume: MountedVolume, _ elsewhere: String, _ name: String) {
    self.volume = volume
    self.name = name
    self.elsewhere = elsewhere + "/" + name
  }

  private var folder: String { volume.path(name) }
  var file: String { folder + "/file" }
  var tree: String { folder + "/tree" }
  var new: String { folder + "/new" }
  var outside: String { elsewhere + "/outside" }
  var newOutside: String { elsewhere + "/new" }

  func play(_ scene: FoundationScene, _ errno: ErrnoSymbol) throws -> FoundationResult {
    try set()
    // Some calls try again as long as it fails; then they are let through in the end.
    try control("add id=scene op=\(scene.operation) path=/\(name)/\(scene.place) errno=\(errno.rawValue) times=100")
    var thrown: (any Error)?
    do { try scene.call(self) } catch { thrown = error }
    let isUsedUp = try Sys.text(volume.path(".docsfs/control")).contains("remaining=0")
    try control("del scene")
    return FoundationResult(errno: errno, error: thrown, isEndless: isUsedUp, left: left)
  }

  private func control(_ line: String) throws {
    try OpenFile(volume.path(".docsfs/control"), O_WRONLY).write(line + "\n")
  }

  /// Puts back what the attempt before this one took away.
  private func set() throws {
    try Sys.makeFolders(tree)
    try Sys.makeFolders(elsewhere)
    for path in [file, tree + "/a", tree + "/b", outside] where !Sys.exists(path) { try Sys.put(path, bytes) }
    for path in [new, newOutside] where Sys.exists(path) { try FileManager.default.removeItem(atPath: path) }
  }

  /// What is at the new places, and whether the sources are there.
  private var left: String {
    let found = [new, newOutside].filter { Sys.exists($0) }.map(describe)
    let isSourceThere = Sys.exists(file) && Sys.exists(outside)
    return (found.isEmpty ? "nothing new" : found.joined(separator: ", ")) + (isSourceThere ? "" : "; source gone")
  }

  private func describe(_ path: String) -> String {
    guard let info = try? Sys.info(path) else { return "nothing" }
    if info.isFolder {
      let names = (try? Sys.names(path)) ?? []
      return names.isEmpty
        ? "an empty folder" : "a folder of " + names.map { describe(path + "/" + $0) }.joined(separator: " and ")
    }
    return info.st_size == 0 ? "an empty file" : Int(info.st_size) == bytes.count ? "the whole file" : "a part"
  }
}

private struct FoundationResult {
  var errno: ErrnoSymbol
  var error: (any Error)?
  /// It was tried a hundred times.
  var isEndless: Bool
  var left: String

  private var chain: [any Error] {
    var errors: [any Error] = []
    var next = error
    while let one = next {
      errors.append(one)
      next = (one as NSError).userInfo[NSUnderlyingErrorKey] as? any Error
    }
    return errors
  }
  private var posix: NSError? {
    chain.last.map { $0 as NSError }.flatMap { $0.domain == NSPOSIXErrorDomain ? $0 : nil }
  }

  /// Whether the errno can be found in it.
  var keepsErrno: Bool { posix.map { Int32($0.code) == errno.number(on: .linux) } ?? false }

  /// As Swift has them, from the outermost in; casts would hide the difference.
  private var types: String {
    error == nil ? "" : chain.map { "`\(type(of: $0))`" }.joined(separator: " of ")
  }

  private var code: String {
    if isEndless { return "tries for ever" }
    return error.map { "\(($0 as NSError).code)" } ?? "no error"
  }

  /// What is in the place of the errno.
  private var instead: String {
    if error == nil || keepsErrno { return "" }
    guard let code = posix?.code else { return "none" }
    return ErrnoSymbol(Int32(code), on: .linux)?.rawValue ?? "\(code)"
  }

  // MARK: The table

  /// Foundation's two ways to choose a code.
  private static let manners: [(name: String, code: @Sendable (ErrnoSymbol) -> Int)] = [
    (
      "*write*",
      { errno in
        switch errno {
        case .ENOENT: 4
        case .EACCES, .EPERM: 513
        case .ENAMETOOLONG: 514
        case .EEXIST: 516
        case .ENOSPC, .EDQUOT: 640
        case .EROFS: 642
        default: 512
        }
      }
    ),
    (
      "*read*",
      { errno in
        switch errno {
        case .ENOENT: 260
        case .EACCES, .EPERM: 257
        case .ENAMETOOLONG: 258
        case .EFBIG: 263
        default: 256
        }
      }
    ),
  ]

  static func row(_ scene: FoundationScene, _ results: [FoundationResult]) -> String {
    let types = Dictionary(grouping: results.map(\.types).filter { !$0.isEmpty }) { $0 }
    let usual = types.max { ($0.value.count, $1.key) < ($1.value.count, $0.key) }?.key ?? ""
    let cells = [
      scene.name, usual, codes(results), grouped(results.filter { !$0.instead.isEmpty }, by: \.instead, naming: true),
      grouped(results, by: \.left),
    ]
    return "| " + cells.joined(separator: " | ") + " |"
  }

  /// The manner that fits best, and where it does not.
  private static func codes(_ results: [FoundationResult]) -> String {
    if results.allSatisfy({ $0.code == results[0].code }) { return results[0].code }
    let fits = manners.map { manner in
      (manner.name, results.filter { $0.code != "\(manner.code($0.errno))" })
    }
    guard let (name, others) = fits.min(by: { $0.1.count < $1.1.count }) else { return "" }
    return ([name] + (others.isEmpty ? [] : [grouped(others, by: \.code, naming: true)])).joined(separator: "; ")
  }

  /// What most give comes last, unless all are to be named.
  private static func grouped(
    _ results: [FoundationResult], by key: (FoundationResult) -> String, naming: Bool = false
  ) -> String {
    var order: [String] = []
    var groups: [String: [String]] = [:]
    for result in results {
      let value = key(result)
      if groups[value] == nil { order.append(value) }
      groups[value, default: []].append(result.errno.rawValue)
    }
    func named(_ value: String) -> String { "\(groups[value, default: []].joined(separator: ", ")): \(value)" }
    if naming { return order.map(named).joined(separator: "; ") }
    if order.count == 1 { return order[0] }
    let most = order.max { (groups[$0]?.count ?? 0, $1) < (groups[$1]?.count ?? 0, $0) } ?? ""
    return (order.filter { $0 != most }.map(named) + ["else \(most)"]).joined(separator: "; ")
  }
}
