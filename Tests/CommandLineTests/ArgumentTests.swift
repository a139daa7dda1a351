import Containers
import DocsEngine
import Faults
import XCTest

@testable import docsfs

final class ArgumentTests: XCTestCase {
  private func parse(_ command: String, _ words: String...) throws -> ParsedArguments {
    let spec = try Program.find(command)
    guard case .run(let parsed) = try ArgumentParser.parse(spec, words.map { Array($0.utf8) }) else {
      XCTFail("asked for help")
      return ParsedArguments()
    }
    return parsed
  }

  private func failure(_ body: () throws -> Void) -> Failure {
    do {
      try body()
      return Failure("no error", 0)
    } catch { return error as? Failure ?? Failure("another error", -1) }
  }

  func testOptionsMayStandBehindArguments() throws {
    let parsed = try parse("mount", "m", "--container=dir:/x", "-o", "ro", "-omaterialize=range", "-f")
    XCTAssertEqual(parsed.arguments, [Array("m".utf8)])
    XCTAssertEqual(parsed.text("container"), "dir:/x")
    XCTAssertEqual(
      parsed.values("options").map { String(decoding: $0, as: UTF8.self) }, ["ro", "materialize=range"])
    XCTAssertTrue(parsed.has("foreground"))
  }

  func testOptionalValue() throws {
    XCTAssertNil(try parse("unmount", "m", "--wait").seconds("wait"))
    XCTAssertEqual(try parse("unmount", "m", "--wait=2m").seconds("wait"), 120)
    XCTAssertTrue(try parse("unmount", "m", "--wait").has("wait"))
  }

  func testWhatBelongsToTheCommandOfRunIsLeftAlone() throws {
    let parsed = try parse("run", "--with", "d", "--", "ls", "-l", "--with=x")
    XCTAssertEqual(parsed.arguments.map { String(decoding: $0, as: UTF8.self) }, ["ls", "-l", "--with=x"])
    XCTAssertEqual(try parse("run", "ls", "-l").arguments.count, 2)
  }

  func testBytesThatAreNoText() throws {
    let spec = try Program.find("evict")
    let path: [UInt8] = [0x61, 0xff, 0x62]
    XCTAssertEqual(
      try ArgumentParser.parse(spec, [path]), .run(ParsedArguments(options: [], arguments: [path])))
  }

  func testMistakesNameTheNearest() {
    func message(_ command: String, _ words: String...) -> String {
      failure {
        _ = try ArgumentParser.parse(try Program.find(command), words.map { Array($0.utf8) })
      }.message
    }
    XCTAssertEqual(
      message("mount", "m", "--contaner=x"), "mount: unknown option --contaner; did you mean --container?")
    XCTAssertEqual(message("mount", "m", "--container"), "mount: --container wants URL behind it")
    XCTAssertEqual(message("mount", "m", "--foreground=1"), "mount: --foreground takes no value")
    XCTAssertEqual(message("evict", "-x", "m"), "evict: unknown option -x; see docsfs evict --help")
    XCTAssertEqual(message("evict", "-rx", "m"), "evict: unknown option -x; see docsfs evict --help")
    XCTAssertEqual(message("doctor", "-json"), "doctor: unknown option -s; did you mean --json?")
    XCTAssertEqual(message("mount"), "mount: an argument is missing; usage: docsfs mount MOUNTPOINT")
    XCTAssertEqual(
      failure { _ = try Program.find("mout") }, .usage("unknown command mout; did you mean mount?"))
    XCTAssertEqual(
      failure { _ = try Program.find("--hlep") }, .usage("unknown option --hlep; did you mean --help?"))
    XCTAssertEqual(try Program.find("download").name, "materialize")
  }

  func testEditDistance() {
    XCTAssertEqual(editDistance("mount", "mount"), 0)
    XCTAssertEqual(editDistance("evcit", "evict"), 1)
    XCTAssertEqual(editDistance("", "abc"), 3)
    XCTAssertEqual(nearest(to: "mat", among: ["materialize", "mount"]), "materialize")
    XCTAssertNil(nearest(to: "zzzzzz", among: ["mount", "evict"]))
  }

  func testQuantitiesAreShown() {
    XCTAssertEqual(Quantity.show(bytes: 1023), "1023 B")
    XCTAssertEqual(Quantity.show(bytes: (1 << 20) - 1), "1.0 MiB")
    XCTAssertEqual(Quantity.show(bytes: 1536), "1.5 KiB")
    XCTAssertEqual(Quantity.show(seconds: 65), "1:05 min")
    XCTAssertEqual(Quantity.show(seconds: 9000), "2:30 h")
    XCTAssertEqual(Quantity.show(seconds: .infinity), "?")
  }

  func testMountOptions() throws {
    let options = try MountOptions([
      Array("ro,_netdev,nofail,x-systemd.automount,user,defaults,noexec".utf8),
      Array("cache_size=1GiB,min_free=2GiB,poll=5,no_materialize=updatedb:find,materialize=range,rw".utf8),
    ])
    XCTAssertFalse(options.readOnly, "the last one counts")
    XCTAssertEqual(options.cacheSize, 1 << 30)
    XCTAssertEqual(options.kernel, ["noexec"])
    let configuration = options.configuration(state: FilePath("/s"), uid: 1, gid: 2)
    XCTAssertEqual(configuration.minFree, .bytes(2 << 30))
    XCTAssertEqual(configuration.poll, 5)
    XCTAssertEqual(configuration.noMaterialize, ["updatedb", "find"])
    XCTAssertEqual(MountOptions.split(Array(#"a=b\,c,,d"#.utf8)), ["a=b,c", "d"])
  }

  func testMountOptionMistakes() {
    func message(_ list: String) -> String { failure { _ = try MountOptions([Array(list.utf8)]) }.message }
    XCTAssertEqual(message("alow_other"), "mount: unknown option -o alow_other; did you mean allow_other?")
    XCTAssertEqual(
      message("cache_size=big"), "mount: cache_size=big is no size; write bytes, or 500MiB, 10GiB")
    XCTAssertEqual(message("cache_size"), "mount: option cache_size= wants a value behind it")
    XCTAssertEqual(message("ro=1"), "mount: option ro takes no value, not ro=1")
    XCTAssertEqual(
      message("fsync=cluod"), "mount: fsync=cluod is none of cloud, local; did you mean fsync=cloud?")
    XCTAssertEqual(
      message("io=passthrough"),
      "mount: io=passthrough needs faults=off: what the kernel reads and writes by itself cannot be made to fail")
    XCTAssertEqual(message("io=passthrough,faults=off"), "no error")
    XCTAssertEqual(failure { _ = try MountOptions([Array("poll=0".utf8)]) }.exitCode, 64)
  }
}
