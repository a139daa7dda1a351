import CLinux
import Faults
import StorageErrors
import XCTest

@testable import docsfs

/// What a sweep is made of, without a mount.
final class SweepPartsTests: XCTestCase {
  private var folder = FilePath("/nowhere")

  override func setUpWithError() throws { folder = try TemporaryFolder().path }
  override func tearDownWithError() throws { try folder.removeTree() }

  private func put(_ path: String, _ text: String) throws {
    let place = folder.appending(path)
    for end in path.indices where path[end] == "/" {
      _ = folder.appending(String(path[..<end])).call { mkdir($0, 0o755) }
    }
    let descriptor = place.call { lx_open($0, O_WRONLY | O_CREAT | O_TRUNC, 0o644) }
    XCTAssertTrue(writeAll(Array(text.utf8), to: descriptor))
    close(descriptor)
  }
  private func remove(_ path: String) throws { try folder.appending(path).removeTree() }

  /// A source with two files that are alike in name and bytes, a copy of it for the run, and an empty mount.
  private func makeSource() throws -> (files: LostFiles, places: [FilePath]) {
    for root in ["pristine/docs", "copy/docs"] {
      try put("\(root)/a", "same")
      try put("\(root)/sub/a", "same")
      try put("\(root)/sub/b", "other")
      _ = folder.appending("\(root)/link").call { symlink("sub/b", $0) }
    }
    try put("mount/.keep", "")
    var files = LostFiles()
    try files.add(folder.appending("pristine/docs"), at: .init(place: 1, names: [Array("docs".utf8)]))
    return (files, [folder.appending("mount"), folder.appending("copy")])
  }

  private func copy(_ from: String, _ to: String) throws { try folder.appending(from).copy(to: folder.appending(to)) }

  func testWhatIsWholeAtTheSourceIsNotLost() throws {
    var (files, places) = try makeSource()
    XCTAssertEqual(files.count, 4)
    try files.learn(places)
    XCTAssertEqual(files.find(places), [])
    try put("copy/docs/sub/b", "othe")
    try remove("copy/docs/link")
    XCTAssertEqual(files.find(places), ["link", "sub/b"])
  }

  func testTheDestinationIsLearned() throws {
    var (files, places) = try makeSource()
    try copy("copy/docs", "mount/moved")
    try files.learn(places)
    try remove("copy/docs")
    XCTAssertEqual(files.find(places), [])
    try remove("mount/moved/a")
    XCTAssertEqual(files.find(places), ["a"], "the other file of that name does not stand for it")
    try put("mount/elsewhere/a", "same")
    XCTAssertEqual(files.find(places), ["a"], "nor does one where nobody would look")
  }

  func testFilesThatAreBroughtApartAreLearnedOneByOne() throws {
    var (files, places) = try makeSource()
    try put("mount/one/a", "same")
    try put("mount/two/sub/a", "same")
    try put("mount/two/sub/b", "other")
    try files.learn(places)
    try remove("copy/docs/sub")
    XCTAssertEqual(files.find(places), [])
    try put("mount/two/sub/b", "OTHER")
    XCTAssertEqual(files.find(places), ["sub/b"])
  }

  func testASourceMayBeAFile() throws {
    try put("pristine/f", "x")
    try put("copy/f", "x")
    try put("mount/.keep", "")
    let places = [folder.appending("mount"), folder.appending("copy")]
    var files = LostFiles()
    try files.add(folder.appending("pristine/f"), at: .init(place: 1, names: []))
    try files.learn(places)
    XCTAssertEqual(files.find(places), [])
    try remove("copy/f")
    XCTAssertEqual(files.find(places), ["f"])
  }

  private func plan(_ words: String...) throws -> SweepPlan {
    var arguments = ParsedArguments()
    arguments.options = [.init(name: "errno", value: Array("EIO,ENOSPC".utf8))]
    arguments.arguments = words.map { Array($0.utf8) }
    return try SweepPlan(arguments)
  }

  func testWhichArgumentsAreSources() throws {
    try put("docs/a", "x")
    try put("run.sh", "x")
    let docs = folder.appending("docs").text, script = folder.appending("run.sh").text
    func found(_ words: String...) -> [String] {
      SweepSource.find(in: words.map { Array($0.utf8) }).map {
        "\($0.index) \($0.path.lastName.count) \($0.suffix.count)"
      }
    }
    XCTAssertEqual(found("cp", "-a", docs, "{mount}"), ["2 4 0"])
    XCTAssertEqual(found("cp", "-a", docs + "/", "{mount}"), ["2 4 1"])
    XCTAssertEqual(found("cp", "-a", docs + "/.", "{mount}"), ["2 4 2"])
    XCTAssertEqual(found("cp", script, docs + "/nothing", "{mount}/docs"), ["1 6 0"])
    XCTAssertEqual(found("bash", script, docs, "{mount}"), ["2 4 0"], "a script stays where it is")
    XCTAssertEqual(found("python3.11", "-u", script, script), ["3 6 0"], "what is behind it does not")
  }

  func testEachCallFailsOnceUntilNoneIsReached() throws {
    let queue = SweepQueue(recorded: [.write: 2, .lookup: 1, .read: 1], try plan("true"))
    var calls: [String] = []
    while let fault = queue.take() {
      calls.append("\(fault.operation) \(fault.ordinal) \(fault.errno.name)")
      var outcome = SweepOutcome(fault: fault)
      // A third write comes up, although two were recorded.
      outcome.fired = fault.ordinal <= (fault.operation == .write ? 3 : 1) ? 1 : 0
      queue.done(fault, .success(outcome))
    }
    let expected = [
      "lookup 1 EIO", "lookup 2 EIO", "read 1 EIO", "read 2 EIO", "write 1 EIO", "write 2 EIO", "write 3 EIO",
      "write 4 EIO", "write 1 ENOSPC", "write 2 ENOSPC", "write 3 ENOSPC", "write 4 ENOSPC",
    ]
    XCTAssertEqual(calls, expected, "and room is lacking only where something is stored")
    XCTAssertEqual(try queue.outcomes().map { $0.fault?.ordinal }, [1, 1, 1, 2, 3, 1, 2, 3])
  }

  func testAFailureEndsTheSweep() throws {
    let queue = SweepQueue(recorded: [.write: 5], try plan("true"))
    let first = try XCTUnwrap(queue.take()), second = try XCTUnwrap(queue.take())
    queue.done(first, .failure(Failure("no room")))
    XCTAssertNil(queue.take())
    queue.done(second, .success(SweepOutcome(fault: second)))
    XCTAssertThrowsError(try queue.outcomes()) { XCTAssertEqual(($0 as? Failure)?.message, "no room") }
  }

  func testXMLHoldsAnyText() {
    XCTAssertEqual(xml("a<b>&\"c\"\n\u{1b}\u{e9}"), "a&lt;b&gt;&amp;&quot;c&quot;&#10;\u{fffd}\u{e9}")
  }

  func testWhatAFaultCheckFinds() {
    func problem(_ matched: Int, _ fired: Int, _ visible: Int) -> String? {
      FaultCheckCommand.problem(matched: matched, fired: fired, visible: visible)
    }
    XCTAssertEqual(problem(0, 0, 0), "never fired, as no call has matched it")
    XCTAssertEqual(problem(1, 0, 0), "never fired, though 1 call matched it")
    XCTAssertEqual(problem(5, 2, 0), "fired 2 times, and no program saw it")
    XCTAssertNil(problem(5, 2, 1))
  }
}
