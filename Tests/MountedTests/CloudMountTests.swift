import Containers
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
  func testTwoDevicesOfAWebDAVFolderThatReportsChanges() throws { try twoDevices(.sync) }

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

  /// All of a page is copied before the first source goes, so that a kill falls in between.
  func testAFoldersMoveGoesOnAfterAKill() throws {
    let place = try CloudPlace(.s3)
    let volume = try mount(place, "v")
    try volume.must("mkdir -p $M/d/sub; for n in {1..400}; do echo $n > $M/d/$n; echo s$n > $M/d/sub/$n; done")
    try sync(volume)
    let cloud = try place.open()
    func count(_ folder: String) -> Int {
      (try? cloud.list(ContainerPath(folder.split(separator: "/").map { try ItemName(String($0)) }), CallContext()))?
        .count ?? 0
    }
    try volume.must("mv $M/d $M/e")
    XCTAssert(eventually { count("e") > 20 }, "the move has not begun")
    volume.killDaemon()
    let (left, arrived) = (count("d") + count("d/sub"), count("e") + count("e/sub"))
    print("killed with \(left) left and \(arrived) arrived")
    try volume.mount()
    try sync(volume)
    XCTAssertEqual(count("d"), 0)
    XCTAssertEqual(count("e"), 401)
    XCTAssertEqual(count("e/sub"), 400)
    let other = try mount(place, "w")
    try other.must("for n in {1..400}; do [ $(cat $M/e/$n) = $n -a $(cat $M/e/sub/$n) = s$n ]; done; [ ! -e $M/d ]")
  }

  /// Also of a container that was mounted before, and before anything is changed there.
  func testAServerWithoutConditionsIsNamedInStatus() throws {
    let place = try CloudPlace(.moto)
    for _ in 0..<2 {
      let volume = try mount(place, "v")
      XCTAssert(
        eventually { volume.docsfs("status", volume.mountpoint).text.contains("the server copies without conditions") },
        "\(volume.docsfs("status", volume.mountpoint))")
      try volume.unmount()
    }
  }

  func testRefreshedCredentialsMendTheMount() throws {
    let moto = try CloudServer.shared(.moto)
    let port = UInt16(moto.container.components(separatedBy: "127.0.0.1:")[1].prefix { $0.isNumber }) ?? 0
    let valid = Guarded("first")
    let server = try ScriptedServer { request in
      if request.headers["x-amz-security-token"] == valid.withLock({ $0 }) { return .forward(port) }
      let body = "<Error><Code>ExpiredToken</Code></Error>"
      return .reply(400, body: request.method == "HEAD" ? "" : body)
    }
    let volume = try unmounted(["poll=1s"])
    volume.url = "s3://docsfs/t-\(ContainerID.random().text.prefix(12))?endpoint=\(server.url)&region=us-east-1"
    let file = volume.home + "/credentials"
    func write(_ token: String) throws {
      try Sys.put(
        file, "[work]\naws_access_key_id = key\naws_secret_access_key = hunter2\naws_session_token = \(token)\n")
    }
    try write("first")
    volume.environment = [
      "AWS_PROFILE": "work", "AWS_SHARED_CREDENTIALS_FILE": file, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "",
    ]
    try volume.mount()
    try Sys.put(volume.path("a"), "one")
    try sync(volume)
    valid.withLock { $0 = "second" }
    try Sys.put(volume.path("a"), "two")
    let error = "getfattr --only-values -n user.docsfs.error $M/a"
    XCTAssert(
      eventually { volume.shell(error).text.contains("expired; renew the profile work") }, "\(volume.shell(error))")
    try write("second")
    try sync(volume)
    XCTAssertEqual(volume.shell("getfattr --only-values -n user.docsfs.sync $M/a").text, "current")
  }
}
