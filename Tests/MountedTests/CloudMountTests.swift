import Foundation
import StorageErrors
import TestSupport
import XCTest

/// Mounts of real clouds.
final class CloudMountTests: MountedTestCase {
  private func mount(_ place: CloudPlace, _ name: String, _ options: String...) throws -> MountedVolume {
    let volume = try unmounted(["poll=1s"] + options, name: name)
    volume.url = place.url
    for (name, value) in place.server.values where name.hasPrefix("AWS_") { volume.environment[name] = value }
    try volume.mount()
    return volume
  }

  private func sync(_ volume: MountedVolume) throws { try volume.run("sync", volume.mountpoint, within: 200) }

  /// A tree goes in on one device, and another shows it, to the nanosecond; evicted it comes back.
  private func twoDevices(_ kind: CloudServer.Kind) throws {
    let place = try CloudPlace(kind)
    let (one, two) = (try mount(place, "one"), try mount(place, "two"))
    try Shell.must(
      "mkdir -p '\(one.home)/src/a b/c'; cd '\(one.home)/src'; cp -a /usr/share/doc/bash .; echo hi > 'a b/ü.txt'; : > empty; seq 200000 > 'a b/c/numbers'; ln -s 'a b/ü.txt' link; ln -s /no/where dangling; chmod 640 empty; touch -d '2001-02-03 04:05:06.123456789' empty"
    )
    let source = one.home + "/src"
    try one.must("cp -a '\(source)/.' $M/")
    try sync(one)
    let same = "diff -r --no-dereference '\(source)' $M"
    XCTAssert(eventually { two.shell(same, within: 60).succeeded }, "\(two.shell(same))")
    let facts = "cd \"$F\" && find . -type f -printf '%p %s %m %T@\\n' | sort"
    XCTAssertEqual(
      try two.must("F=$M; " + facts).text, try Shell.must("F='\(source)'; " + facts).text, "sizes, modes and times")
    try one.run("evict", "-r", one.mountpoint)
    XCTAssertEqual(try one.must("getfattr --only-values -n user.docsfs.state \"$M/a b/c/numbers\"").text, "placeholder")
    try one.must(same)
    try two.must("mv \"$M/a b\" $M/moved; rm -r $M/bash; echo more >> $M/empty")
    try sync(two)
    XCTAssert(
      eventually { one.shell("test -e $M/moved/c/numbers -a ! -e $M/bash && grep -q more $M/empty").succeeded },
      one.shell("ls -lR $M").text)
    XCTAssertEqual(try one.must("cmp $M/moved/c/numbers '\(source)/a b/c/numbers' && echo same").text, "same")
  }

  func testTwoDevicesOfAnS3Bucket() throws { try twoDevices(.s3) }
  func testTwoDevicesOfAWebDAVFolder() throws { try twoDevices(.webdav) }

  func testAnUploadInPartsGoesOnAfterAKill() throws {
    let place = try CloudPlace(.s3)
    let volume = try mount(place, "v")
    try volume.must("head -c 80000000 /dev/urandom > '\(volume.home)/big'; cp '\(volume.home)/big' $M/big")
    // While parts are on their way.
    XCTAssert(eventually { volume.shell("getfattr --only-values -n user.docsfs.sync $M/big").text == "uploading" })
    volume.killDaemon()
    try volume.mount()
    try sync(volume)
    let other = try mount(place, "w")
    try other.must("cmp '\(volume.home)/big' $M/big", within: 100)
  }

  func testAMountThatCannotBeSaysWhyAndHowToMendIt() throws {
    let place = try CloudPlace(.s3)
    let volume = try unmounted(name: "v")
    volume.url = place.url
    volume.environment = ["AWS_ACCESS_KEY_ID": "docsfs-key", "AWS_SECRET_ACCESS_KEY": "hunter2"]
    let wrong = volume.docsfs(volume.mountArguments)
    XCTAssertEqual(wrong.status, 69)
    XCTAssert(wrong.errors.contains("AWS_SECRET_ACCESS_KEY"), wrong.errors)
    XCTAssertFalse(wrong.errors.contains("hunter2"), wrong.errors)
    volume.url = "s3://none?endpoint=http://127.0.0.1:1"
    let nobody = volume.docsfs(volume.mountArguments)
    XCTAssertEqual(nobody.status, 69)
    XCTAssert(nobody.errors.contains("127.0.0.1:1"), nobody.errors)
    XCTAssertEqual(nobody.errors.components(separatedBy: "\n").count, 1, nobody.errors)
  }
}
