import Foundation
import TestSupport
import XCTest

/// `docsfs doctor`: damage of each kind is found, named and repaired, and nothing that is dirty is lost.
final class DoctorTests: MountedTestCase {
  private let body = patterned(200_000, seed: 9)

  /// A volume with an uploaded file, unmounted.
  private func healthy() throws -> MountedVolume {
    let volume = try mount()
    try volume.must("mkdir $M/d; for i in $(seq 300); do echo $i >$M/d/$i; done")
    try Sys.put(volume.path("clean"), body)
    try volume.settle()
    try volume.unmount()
    XCTAssertTrue(volume.doctor().succeeded)
    return volume
  }

  private func contentFile(_ volume: MountedVolume, _ name: String) throws -> String {
    let number = try volume.must(
      "sqlite3 '\(volume.state)/catalog.db' \"SELECT content FROM items WHERE name = CAST('\(name)' AS BLOB)\""
    )
    .text.trimmingCharacters(in: .whitespacesAndNewlines)
    return try volume.must("find '\(volume.state)/content' -name \(number)").text
      .trimmingCharacters(in: .whitespacesAndNewlines)
  }

  /// Finds something, repairs it, and then finds nothing more.
  private func repair(_ volume: MountedVolume, naming word: String) throws {
    let found = volume.doctor()
    XCTAssertEqual(found.status, 1, "\(found)")
    XCTAssertTrue(found.text.contains(word), "\(found)")
    XCTAssertEqual(volume.doctor().status, 1, "looking repairs nothing")
    let repaired = volume.doctor("--repair")
    XCTAssertTrue(repaired.succeeded, "\(repaired)")
    let again = volume.doctor()
    XCTAssertTrue(again.succeeded, "\(again)")
    try volume.mount()
  }

  func testAContentFileIsMissing() throws {
    let volume = try healthy()
    try Sys.remove(contentFile(volume, "clean"))
    try repair(volume, naming: "clean")
    XCTAssertEqual(try volume.state("clean"), "placeholder")
    assertBytes(try Sys.contents(volume.path("clean")), body)
  }

  func testAContentFileIsShorter() throws {
    let volume = try healthy()
    try volume.must("truncate -s 1000 '\(contentFile(volume, "clean"))'")
    try repair(volume, naming: "size")
    assertBytes(try Sys.contents(volume.path("clean")), body)
  }

  func testAContentFileHasAFlippedBit() throws {
    let volume = try healthy()
    try volume.must(
      "printf '\\xff' | dd of='\(contentFile(volume, "clean"))' bs=1 seek=77777 conv=notrunc status=none")
    try repair(volume, naming: "bytes")
    assertBytes(try Sys.contents(volume.path("clean")), body)
  }

  func testAContentFileBelongsToNobody() throws {
    let volume = try healthy()
    try Sys.put(volume.state + "/content/00/640000", "perhaps the only copy")
    try repair(volume, naming: "640000")
    XCTAssertEqual(try Sys.text(volume.state + "/lost/640000"), "perhaps the only copy")
  }

  func testTheJournalMissesAnItem() throws {
    let volume = try healthy()
    try volume.mount()
    // Uploads begin a second after the last write.
    try Sys.put(volume.path("dirty"), "not yet uploaded")
    volume.killDaemon()
    // Brings what was committed last into the database.
    XCTAssertTrue(volume.doctor().succeeded)
    try volume.must("sqlite3 '\(volume.state)/catalog.db' 'UPDATE items SET pending = NULL'")
    try repair(volume, naming: "journal")
    try volume.settle()
    XCTAssertEqual(try Sys.text(volume.remote("dirty")), "not yet uploaded")
  }

  func testTheCatalogIsDamaged() throws {
    let volume = try healthy()
    // The last page: of some table or index.
    try volume.must(
      "f='\(volume.state)/catalog.db'; n=$(stat -c %s $f); dd if=/dev/urandom of=$f bs=4096 count=2 seek=$((n/8192)) conv=notrunc status=none"
    )
    let found = volume.doctor()
    XCTAssertEqual(found.status, 1, "\(found)")
    XCTAssertTrue(found.text.contains("catalog.db"), "\(found)")
    _ = volume.doctor("--repair")
    _ = volume.doctor("--repair")
    XCTAssertTrue(volume.doctor().succeeded)
    try volume.mount()
    // Rows that were in the damaged pages are learnt again from the container.
    try assertEventually("everything is there again") { try volume.names("d").count == 300 }
    assertBytes(try Sys.contents(volume.path("clean")), body)
    try volume.settle()
    try volume.must("diff -r $M/d $C/d")
    XCTAssertFalse(try Sys.names(volume.state).filter { $0.contains("damaged") }.isEmpty, "the old one is kept")
  }
}
