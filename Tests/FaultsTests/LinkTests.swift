import StorageErrors
import XCTest

@testable import Faults

final class LinkTests: FaultsTestCase {
  func testTheTableIsInItsVocabulary() throws {
    XCTAssertEqual(
      try LinkProfile.table.get().map(\.name),
      [
        "cloud", "unplugged", "removed", "ext4-error", "xfs-shutdown", "nfs-soft", "nfs-softerr", "nfs-hard",
        "nfs-stale",
        "smb", "fuse-dead", "darwin-dead", "darwin-dataless",
      ])
    XCTAssertEqual(LinkProfile.all.count, 13)
    for operation in FaultOperation.allCases {
      for writes in [false, true] {
        XCTAssertEqual(LinkProfile(name: "cloud")?.answer(operation, opensForWriting: writes), .engine)
        XCTAssertEqual(LinkProfile.cloud.answer(operation, opensForWriting: writes), .engine)
      }
    }
    XCTAssertEqual(LinkProfile(name: "cloud")?.oldHandle, LinkProfile.cloud.oldHandle)
    XCTAssertTrue(LinkProfile.cloud.isEngines)
  }

  func testATableWithAMistakeIsRefused() throws {
    let header =
      "profile\t" + LinkColumn.allCases.map(\.rawValue).joined(separator: "\t") + "\toldHandle\tunsynced\tsource\n"
    func row(_ cell: String, old: String = "ok", unsynced: String = "kept", source: String = "s") -> String {
      header + "x\t" + Array(repeating: cell, count: LinkColumn.allCases.count).joined(separator: "\t")
        + "\t\(old)\t\(unsynced)\t\(source)\n"
    }
    XCTAssertEqual(try LinkProfile.profiles(row("local:ok,else:EIO")).count, 1)
    for text in [
      "profile\n", row("EI0"), row("local:"), row("near:EIO"), row(""), row("a:b:c"), row("ok", old: "hang"),
      row("ok", unsynced: "lost"), row("ok", source: ""), row("ok\tok"),
    ] { XCTAssertThrowsError(try LinkProfile.profiles(text)) }
  }

  func testAnswers() throws {
    func answer(
      _ profile: String, _ operation: FaultOperation, writing: Bool = false, local: Bool? = nil, later: Bool = false,
      barred: Bool = false, old: Bool = true, dirty: Bool = true
    ) throws -> LinkAnswer {
      try XCTUnwrap(LinkProfile(name: profile)).answer(
        operation, opensForWriting: writing, contentIsLocal: local, isLater: later, isBarred: barred, handleIsOld: old,
        hasUnsynced: dirty)
    }
    XCTAssertEqual(try answer("unplugged", .lookup), .fail(.ENXIO))
    XCTAssertEqual(try answer("unplugged", .read, local: true), .fail(.EIO), "also if cached")
    XCTAssertEqual(try answer("removed", .statfs), .fail(.ENODEV))
    XCTAssertEqual(try answer("ext4-error", .open), .ok)
    XCTAssertEqual(try answer("ext4-error", .open, writing: true), .fail(.EROFS))
    XCTAssertEqual(try answer("ext4-error", .rename), .fail(.EROFS))
    XCTAssertEqual(try answer("ext4-error", .read, local: true), .ok)
    XCTAssertEqual(try answer("ext4-error", .read, local: false), .fail(.EIO))
    XCTAssertEqual(try answer("ext4-error", .write), .ok)
    XCTAssertEqual(try answer("ext4-error", .write, later: true), .fail(.EROFS))
    XCTAssertEqual(try answer("xfs-shutdown", .write, later: true), .fail(.EIO))
    XCTAssertEqual(try answer("nfs-soft", .write), .ok)
    XCTAssertEqual(try answer("nfs-soft", .fsync), .fail(.EIO))
    XCTAssertEqual(try answer("nfs-soft", .flush, dirty: true), .fail(.EIO))
    XCTAssertEqual(try answer("nfs-soft", .flush, dirty: false), .ok)
    XCTAssertEqual(try answer("nfs-softerr", .readdir), .fail(.ETIMEDOUT))
    XCTAssertEqual(try answer("nfs-hard", .getattr), .hang)
    XCTAssertEqual(try answer("nfs-stale", .read, old: true), .fail(.ESTALE))
    XCTAssertEqual(try answer("nfs-stale", .read, old: false), .ok)
    XCTAssertEqual(try answer("nfs-stale", .open), .ok)
    XCTAssertEqual(try answer("smb", .mkdir), .fail(Errno(rawValue: EHOSTDOWN)))
    XCTAssertEqual(try answer("fuse-dead", .flush), .fail(.ENOTCONN))
    XCTAssertEqual(try answer("darwin-dead", .lookup), .fail(.ENOTDIR))
    XCTAssertEqual(try answer("darwin-dead", .getattr), .fail(.EBADF))
    XCTAssertEqual(try answer("darwin-dataless", .read, local: true), .ok)
    XCTAssertEqual(try answer("darwin-dataless", .read, local: false), .fail(.ETIMEDOUT))
    XCTAssertEqual(try answer("darwin-dataless", .read, local: false, barred: true), .fail(.EDEADLK))
  }

  func testUnknownNamesGetAHint() {
    XCTAssertNil(LinkProfile(name: "unpluged"))
    XCTAssertEqual(LinkProfile.unknown("unpluged"), "unknown profile unpluged; did you mean unplugged?")
    XCTAssertTrue(LinkProfile.unknown("zzzzzz").contains("there are cloud, unplugged,"))
  }

  private func profile(_ name: String) throws -> LinkProfile { try XCTUnwrap(LinkProfile(name: name)) }

  func testAHandleRemembersItsFirstLoss() throws {
    var link = LinkSchedule()
    XCTAssertFalse(link.reconnect())
    for (name, epoch) in [("cloud", 1), ("unplugged", 2), ("nfs-soft", 3), ("xfs-shutdown", 4)] {
      link.disconnect(try profile(name))
      XCTAssertFalse(link.isConnected)
      XCTAssertTrue(link.reconnect())
      XCTAssertEqual(link.epoch, epoch)
    }
    XCTAssertEqual((0...4).map { link.answer(forHandleOfEpoch: $0) }, [.ESTALE, .ESTALE, .EIO, .EIO, nil])
  }

  func testADisconnectWhileDisconnectedTakesThePlaceOfTheFirst() throws {
    var link = LinkSchedule()
    link.disconnect(try profile("nfs-soft"), until: 10)
    link.disconnect(try profile("unplugged"))
    XCTAssertEqual(link.profile?.name, "unplugged")
    XCTAssertFalse(link.expire(now: 20), "the first one's end went with it")
    XCTAssertEqual(link.disconnects, 1)
    link.disconnect(try profile("xfs-shutdown"), until: 30)
    XCTAssertFalse(link.expire(now: 29))
    XCTAssertTrue(link.expire(now: 30))
    XCTAssertFalse(link.expire(now: 40))
    XCTAssertEqual(link.epoch, 1)
    XCTAssertEqual(link.answer(forHandleOfEpoch: 0), .ESTALE, "what the first of them took")
    XCTAssertNil(link.answer(forHandleOfEpoch: 1))
  }

  func testWhatIsRememberedIsBounded() throws {
    var link = LinkSchedule()
    for _ in 0..<10_000 {
      link.disconnect(try profile("unplugged"))
      link.reconnect()
    }
    var other = LinkSchedule()
    for _ in 0..<9_999 {
      other.disconnect(try profile("cloud"))
      other.reconnect()
    }
    other.disconnect(try profile("unplugged"))
    other.disconnect(try profile("cloud"))
    other.reconnect()
    XCTAssertEqual(link, other, "only the last of a run of one errno is kept, and the first of a disconnect counts")
  }

  func testTextCanBeWrittenBack() throws {
    var link = LinkSchedule()
    XCTAssertNil(link.text(now: 0))
    link.disconnect(try profile("smb"), until: 10_000_000_000)
    XCTAssertEqual(link.text(now: 4_000_000_000), "disconnect profile=smb for=6s")
    XCTAssertEqual(link.text(now: 4_000_500_000), "disconnect profile=smb for=6s")
    XCTAssertEqual(link.text(now: 11_000_000_000), "disconnect profile=smb for=1ms")
    link.disconnect(try profile("smb"))
    XCTAssertEqual(link.text(now: 0), "disconnect profile=smb")
  }
}
