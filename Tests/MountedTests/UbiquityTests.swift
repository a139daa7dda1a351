import CLinux
import Foundation
import StorageErrors
import TestSupport
import Ubiquity
import XCTest

/// Apple's ubiquity calls, in this process, on a mount.
final class UbiquityTests: MountedTestCase {
  private let manager = FileManager.default

  private func url(_ volume: MountedVolume, _ name: String) -> URL { URL(fileURLWithPath: volume.path(name)) }
  private func file(_ path: String) -> URL { URL(fileURLWithPath: path) }

  /// Fails unless `body` throws this code of Cocoa's, with that errno below it.
  private func assertCocoa(
    _ code: CocoaError.Code, _ errno: Errno, file: StaticString = #filePath, line: UInt = #line,
    _ body: () throws -> Void
  ) {
    do {
      try body()
      XCTFail("succeeded instead of \(code.rawValue)", file: file, line: line)
    } catch {
      let error = error as NSError
      XCTAssertEqual(error.domain, NSCocoaErrorDomain, "\(error)", file: file, line: line)
      XCTAssertEqual(error.code, code.rawValue, "\(error)", file: file, line: line)
      XCTAssertNotNil(error.userInfo[NSURLErrorKey], "\(error)", file: file, line: line)
      var deepest = error
      while let below = deepest.userInfo[NSUnderlyingErrorKey] as? any Error { deepest = below as NSError }
      XCTAssertEqual(deepest.domain, NSPOSIXErrorDomain, "\(error)", file: file, line: line)
      XCTAssertEqual(Errno(rawValue: Int32(deepest.code)).name, errno.name, "\(error)", file: file, line: line)
    }
  }

  // MARK: Containers

  func testTheContainerIsTheMount() throws {
    setenv("DOCSFS_MOUNT", "", 1)
    defer { unsetenv("DOCSFS_MOUNT") }
    let first = try mount(name: "first")
    let second = try mount(name: "second")
    setenv("DOCSFS_MOUNT", second.mountpoint, 1)
    for identifier in [nil, "iCloud.com.example.any"] {
      XCTAssertEqual(manager.url(forUbiquityContainerIdentifier: identifier)?.path, second.mountpoint)
    }
    let token = try XCTUnwrap(manager.ubiquityIdentityToken as? NSString)
    XCTAssertEqual(token, try XCTUnwrap(manager.ubiquityIdentityToken as? NSString))
    setenv("DOCSFS_MOUNT", first.mountpoint, 1)
    XCTAssertNotEqual(token, try XCTUnwrap(manager.ubiquityIdentityToken as? NSString), "another container")
    setenv("DOCSFS_MOUNT", first.home, 1)
    XCTAssertNil(manager.url(forUbiquityContainerIdentifier: nil), "a folder that is no mount")
    XCTAssertNil(manager.ubiquityIdentityToken)
    setenv("DOCSFS_MOUNT", "/nowhere/at/all", 1)
    XCTAssertNil(manager.url(forUbiquityContainerIdentifier: nil))
    setenv("DOCSFS_MOUNT", second.mountpoint, 1)
    second.killDaemonOnly()
    XCTAssertNil(manager.url(forUbiquityContainerIdentifier: nil), "a dead mount")
    second.killDaemon()
  }

  /// Another mount that hangs is not asked whether it is there.
  func testAMountThatHangsHoldsNobodyUp() throws {
    let hanging = try mount(name: "hanging")
    try hanging.control("add op=getxattr,getattr,lookup,open path=/** hang")
    try hanging.control("add op=getxattr path=/ hang")
    let volume = try mount()
    setenv("DOCSFS_MOUNT", volume.mountpoint, 1)
    defer { unsetenv("DOCSFS_MOUNT") }
    XCTAssertEqual(manager.url(forUbiquityContainerIdentifier: nil)?.path, volume.mountpoint)
    unsetenv("DOCSFS_MOUNT")
    XCTAssertNil(manager.url(forUbiquityContainerIdentifier: nil), "two mounts, and neither is meant")
    try hanging.run("fault", hanging.mountpoint, "clear")
  }

  func testAMountIsChosenByItsName() throws {
    let here = try outside("mounts")
    let volume = try unmounted()
    let other = try unmounted(name: "other")
    for (volume, name) in [(volume, "com.example.a"), (other, "com.example.b")] {
      let mountpoint = here + "/" + name
      try Sys.makeFolders(mountpoint)
      try volume.run("mount", mountpoint, "--container", "dir:\(volume.container)", "--state", volume.state)
    }
    defer { for name in ["com.example.a", "com.example.b"] { _ = volume.docsfs("unmount", here + "/" + name) } }
    XCTAssertEqual(
      manager.url(forUbiquityContainerIdentifier: "com.example.b")?.path, here + "/com.example.b")
    XCTAssertEqual(
      manager.url(forUbiquityContainerIdentifier: "com.example.a")?.path, here + "/com.example.a")
    XCTAssertNil(manager.url(forUbiquityContainerIdentifier: "com.example.c"), "two mounts, and neither is meant")
    XCTAssertNil(manager.url(forUbiquityContainerIdentifier: nil), "the first of two would be a guess")
  }

  func testWhatIsUbiquitous() throws {
    let volume = try mount { try Sys.put($0.remote("f"), "x") }
    try Sys.symlink("f", at: volume.path("l"))
    try Sys.symlink(volume.mountpoint, at: volume.home + "/link")
    for name in ["", "f", "l"] { XCTAssertTrue(manager.isUbiquitousItem(at: url(volume, name)), name) }
    XCTAssertTrue(manager.isUbiquitousItem(at: file(volume.home + "/link/f")), "through a symlink")
    XCTAssertFalse(manager.isUbiquitousItem(at: file(volume.home + "/link")), "the symlink itself lies outside")
    XCTAssertFalse(manager.isUbiquitousItem(at: url(volume, "none")))
    XCTAssertFalse(manager.isUbiquitousItem(at: file(volume.home)))
    XCTAssertFalse(manager.isUbiquitousItem(at: try XCTUnwrap(URL(string: "https://example.org/f"))))
    XCTAssertEqual(try volume.state("f"), "placeholder", "looking downloads nothing")
  }

  // MARK: Moving

  func testATreeKeepsWhatItHasBothWays() throws {
    let volume = try mount()
    let there = try outside("local")
    try volume.must(
      """
      mkdir -p \(there)/t/sub/empty; cd \(there)/t; echo hello >sub/f; : >nothing; ln -s sub/f link; ln -s gone dangling
      chmod 640 sub/f; chmod 500 sub/empty; setfattr -n user.tag -v red sub/f
      touch -d '2001-02-03 04:05:06.123456789' sub/f sub
      """)
    try manager.setUbiquitous(true, itemAt: file(there + "/t"), destinationURL: url(volume, "in/t"))
    XCTAssertEqual(try Sys.names(there), [])
    try check(volume.path("in/t"))
    try volume.settle()
    try volume.run("evict", "-r", volume.path("in"))
    XCTAssertEqual(try volume.state("in/t/sub/f"), "placeholder")
    try manager.setUbiquitous(false, itemAt: url(volume, "in/t"), destinationURL: file(there + "/back"))
    try check(there + "/back")
    XCTAssertEqual(try volume.names("in"), [])
    try volume.settle()
    XCTAssertEqual(try volume.remoteNames("in"), [])
  }

  private func check(_ tree: String) throws {
    XCTAssertEqual(try Sys.names(tree), ["dangling", "link", "nothing", "sub"])
    XCTAssertEqual(try Sys.names(tree + "/sub"), ["empty", "f"])
    XCTAssertEqual(try Sys.text(tree + "/sub/f"), "hello\n")
    XCTAssertEqual(try Sys.contents(tree + "/nothing"), [])
    XCTAssertEqual(try Sys.readlink(tree + "/link"), "sub/f")
    XCTAssertEqual(try Sys.readlink(tree + "/dangling"), "gone")
    XCTAssertEqual(try Sys.info(tree + "/sub/f").permissions, 0o640)
    XCTAssertEqual(try Sys.info(tree + "/sub/empty").permissions, 0o500)
    XCTAssertEqual(try Sys.xattrText(tree + "/sub/f", "user.tag"), "red")
    for name in ["/sub/f", "/sub"] {
      XCTAssertEqual(try Sys.info(tree + name).st_mtim.nanoseconds % 1_000_000_000, 123_456_789, name)
    }
  }

  func testOddSizes() throws {
    let volume = try mount()
    let there = try outside("local")
    for size in [0, 1, 4095, 4097, (1 << 20) - 1, 1 << 20, (1 << 20) + 1] {
      let bytes = patterned(size, seed: UInt64(size))
      try Sys.put(there + "/f", bytes)
      try manager.setUbiquitous(true, itemAt: file(there + "/f"), destinationURL: url(volume, "f"))
      try volume.settle()
      try volume.evict("f")
      try manager.setUbiquitous(false, itemAt: url(volume, "f"), destinationURL: file(there + "/f"))
      assertBytes(try Sys.contents(there + "/f"), bytes, "\(size)")
    }
  }

  func testNamesThatAreNoText() throws {
    let volume = try mount()
    let there = try outside("local")
    try volume.must("mkdir \(there)/d; echo x >\(there)/d/$'a\\xff\\nb'")
    try manager.setUbiquitous(true, itemAt: file(there + "/d"), destinationURL: url(volume, "d"))
    XCTAssertEqual(try volume.must("cat $M/d/$'a\\xff\\nb'").text, "x")
    XCTAssertEqual(try Sys.names(there), [])
  }

  func testADestinationThatIsTakenIsLeftAlone() throws {
    let volume = try mount()
    let there = try outside("local")
    try Sys.put(there + "/f", "new")
    try volume.must("echo old >$M/f; mkdir $M/d; ln -s nowhere $M/l")
    for name in ["f", "d", "l"] {
      assertCocoa(.fileWriteFileExists, .EEXIST) {
        try manager.setUbiquitous(true, itemAt: file(there + "/f"), destinationURL: url(volume, name))
      }
    }
    XCTAssertEqual(try Sys.text(there + "/f"), "new")
    XCTAssertEqual(try Sys.text(volume.path("f")), "old\n")
    assertCocoa(.fileWriteFileExists, .EEXIST) {
      try manager.setUbiquitous(false, itemAt: url(volume, "f"), destinationURL: file(there + "/f"))
    }
    XCTAssertEqual(try volume.names(), ["d", "f", "l"])
    XCTAssertEqual(try Sys.names(there), ["f"])
  }

  func testWhatCannotBeMovedStays() throws {
    let volume = try mount()
    let there = try outside("local")
    try volume.must("mkdir \(there)/d; echo x >\(there)/d/a; mkfifo \(there)/d/fifo; echo y >$M/y")
    assertCocoa(.fileWriteUnknown, .EOPNOTSUPP) {
      try manager.setUbiquitous(true, itemAt: file(there + "/d"), destinationURL: url(volume, "d"))
    }
    XCTAssertEqual(try Sys.names(there + "/d"), ["a", "fifo"])
    XCTAssertEqual(try volume.names(), ["y"], "no half of it is left")
    assertCocoa(.fileNoSuchFile, .ENOENT) {
      try manager.setUbiquitous(true, itemAt: file(there + "/none"), destinationURL: url(volume, "none"))
    }
    assertCocoa(.fileNoSuchFile, .ENOENT) {
      try manager.setUbiquitous(false, itemAt: url(volume, "none"), destinationURL: file(there + "/none"))
    }
    assertCocoa(.fileNoSuchFile, .ENOENT) {
      try manager.setUbiquitous(false, itemAt: url(volume, "y"), destinationURL: file(there + "/no/folder/y"))
    }
    assertCocoa(.fileWriteInvalidFileName, .ENAMETOOLONG) {
      let long = String(repeating: "n", count: 256)
      try manager.setUbiquitous(false, itemAt: url(volume, "y"), destinationURL: file(there + "/" + long))
    }
    XCTAssertEqual(try Sys.text(volume.path("y")), "y\n")
  }

  func testPlacesThatAreNotOneInAndOneOut() throws {
    let volume = try mount()
    let there = try outside("local")
    try Sys.put(there + "/f", "x")
    try Sys.put(volume.path("g"), "y")
    let web = try XCTUnwrap(URL(string: "https://example.org/f"))
    let attempts: [(Bool, URL, URL)] = [
      (true, file(there + "/f"), file(there + "/g")), (true, url(volume, "g"), url(volume, "h")),
      (false, url(volume, "g"), url(volume, "h")), (false, file(there + "/f"), file(there + "/h")),
      (true, web, url(volume, "h")), (false, url(volume, "g"), web),
    ]
    for (flag, from, to) in attempts {
      assertCocoa(.fileWriteUnknown, .EINVAL) {
        try manager.setUbiquitous(flag, itemAt: from, destinationURL: to)
      }
    }
    XCTAssertEqual(try Sys.names(there), ["f"])
    XCTAssertEqual(try volume.names(), ["g"])
  }

  func testAReadOnlyMountTakesNothingAndGivesNothingUp() throws {
    let volume = try mount("ro") { try Sys.put($0.remote("f"), "remote") }
    let there = try outside("local")
    try Sys.put(there + "/g", "local")
    assertCocoa(.fileWriteVolumeReadOnly, .EROFS) {
      try manager.setUbiquitous(true, itemAt: file(there + "/g"), destinationURL: url(volume, "g"))
    }
    XCTAssertEqual(try Sys.text(there + "/g"), "local")
    assertCocoa(.fileWriteVolumeReadOnly, .EROFS) {
      try manager.setUbiquitous(false, itemAt: url(volume, "f"), destinationURL: file(there + "/f"))
    }
    XCTAssertEqual(try Sys.text(there + "/f"), "remote", "at both places then")
    XCTAssertEqual(try Sys.text(volume.path("f")), "remote")
  }

  func testAFullDiskLeavesTheDocumentInTheCloud() throws {
    let disk = try disk("small", megabytes: 16)
    let bytes = patterned(32 << 20, seed: 5)
    let volume = try mount { try Sys.put($0.remote("big"), bytes) }
    assertCocoa(.fileWriteOutOfSpace, .ENOSPC) {
      try manager.setUbiquitous(false, itemAt: url(volume, "big"), destinationURL: file(disk.path + "/big"))
    }
    XCTAssertEqual(try Sys.names(disk.path).filter { $0 != "lost+found" }, [])
    assertBytes(try Sys.contents(volume.path("big")), bytes)
  }

  func testAPlaceholderThatCannotComeStays() throws {
    let volume = try mount("timeo=2s") { try Sys.put($0.remote("d/f"), "x", makingFolders: true) }
    _ = try volume.names("d")
    let there = try outside("local")
    try Sys.rename(volume.container, volume.container + ".away")
    try assertEventually("disconnected") { try volume.statusText("link") != "connected" }
    for name in ["d/f", "d"] {
      assertCocoa(.ubiquitousFileUbiquityServerNotAvailable, .ENXIO) {
        try manager.setUbiquitous(false, itemAt: url(volume, name), destinationURL: file(there + "/out"))
      }
    }
    assertCocoa(.ubiquitousFileUbiquityServerNotAvailable, .ENXIO) {
      try manager.startDownloadingUbiquitousItem(at: url(volume, "d/f"))
    }
    XCTAssertEqual(try Sys.names(there), [])
    try Sys.rename(volume.container + ".away", volume.container)
    try assertEventually("connected") { try volume.statusText("link") == "connected" }
    XCTAssertEqual(try Sys.text(volume.path("d/f")), "x")
  }

  /// A program that is killed in the middle has lost nothing, and the next attempt works.
  func testKilledInTheMiddle() throws {
    let bytes = patterned(4 << 20, seed: 7)
    let volume = try mount(query: "rate=1MiB") { volume in
      try Sys.put(volume.remote("Documents/f"), bytes, makingFolders: true)
    }
    let binary = URL(fileURLWithPath: MountedVolume.binary).deletingLastPathComponent().path + "/ArticleMoves"
    let local = volume.home + "/home/Documents"
    try Sys.makeFolders(local)
    let environment = ["DOCSFS_MOUNT": volume.mountpoint, "CFFIXED_USER_HOME": volume.home + "/home"]
    let mover = try Subprocess([binary, "to-local-and-remove"], environment: environment)
    try assertEventually("it has begun") {
      try Sys.names(local).contains { (try? Sys.size(local + "/" + $0)) ?? 0 > 0 }
    }
    mover.signal(SIGKILL)
    XCTAssertEqual(mover.wait(20)?.status, 128 + SIGKILL)
    XCTAssertFalse(Sys.exists(local + "/f"), "under its name only when it is whole")
    XCTAssertEqual(try volume.names("Documents"), ["f"])
    let again = Shell.run([binary, "to-local-and-remove"], environment: environment)
    XCTAssert(again.text.contains("moved: f"), again.description)
    assertBytes(try Sys.contents(local + "/f"), bytes)
  }

  // MARK: What is known of an item

  func testValuesOfPlaceholdersEditsAndPins() throws {
    let volume = try mount(query: "rate=64KiB") { try Sys.put($0.remote("f"), patterned(200_000, seed: 1)) }
    let keys: Set<URLResourceKey> = [
      .isUbiquitousItemKey, .ubiquitousItemDownloadingStatusKey, .ubiquitousItemIsDownloadingKey,
      .ubiquitousItemIsUploadedKey, .ubiquitousItemIsUploadingKey, .ubiquitousItemHasUnresolvedConflictsKey,
      .ubiquitousItemDownloadRequestedKey, .ubiquitousItemContainerDisplayNameKey,
    ]
    let item = url(volume, "f")
    var values = try item.promisedItemResourceValues(forKeys: keys)
    XCTAssertEqual(values.isUbiquitousItem, true)
    XCTAssertEqual(values.ubiquitousItemDownloadingStatus, .notDownloaded)
    XCTAssertEqual(values.ubiquitousItemPercentDownloaded, 0)
    XCTAssertEqual(values.ubiquitousItemIsUploaded, true)
    XCTAssertEqual(values.ubiquitousItemIsUploading, false)
    XCTAssertEqual(values.ubiquitousItemHasUnresolvedConflicts, false)
    XCTAssertEqual(values.ubiquitousItemDownloadRequested, false)
    XCTAssertEqual(values.ubiquitousItemContainerDisplayName, "mnt")
    XCTAssertNil(values.ubiquitousItemUploadingError)
    try manager.startDownloadingUbiquitousItem(at: item)
    values = try item.promisedItemResourceValues(forKeys: keys)
    XCTAssertEqual(values.ubiquitousItemIsDownloading, true, "it has returned before the end")
    try assertEventually("downloaded") {
      let values = try item.promisedItemResourceValues(forKeys: [.ubiquitousItemDownloadingStatusKey])
      return values.ubiquitousItemDownloadingStatus == .current && values.ubiquitousItemPercentDownloaded == 100
    }
    try Sys.put(volume.path("f"), patterned(100_000, seed: 2))
    XCTAssertEqual(try item.promisedItemResourceValues(forKeys: keys).ubiquitousItemIsUploaded, false)
    try assertEventually("uploading") {
      try item.promisedItemResourceValues(forKeys: keys).ubiquitousItemIsUploading == true
    }
    try assertEventually("uploaded") {
      try item.promisedItemResourceValues(forKeys: keys).ubiquitousItemIsUploaded == true
    }
    XCTAssertNil(try item.promisedItemResourceValues(forKeys: []).isUbiquitousItem, "nobody asked")
    let outside = try file(volume.home).promisedItemResourceValues(forKeys: keys)
    XCTAssertEqual(outside.isUbiquitousItem, false)
    XCTAssertNil(outside.ubiquitousItemDownloadingStatus)
    assertCocoa(.fileReadNoSuchFile, .ENOENT) {
      _ = try url(volume, "none").promisedItemResourceValues(forKeys: keys)
    }
  }

  func testAnUploadThatFailsSaysWhy() throws {
    try skipUnlessRoot()
    let volume = try mount { try Sys.makeFolder($0.remote("d")) }
    _ = try volume.names("d")
    try volume.must("chattr +i $C/d || exit 0")
    defer { _ = volume.shell("chattr -i $C/d") }
    try XCTSkipIf(volume.shell("touch $C/d/probe").succeeded, "needs chattr")
    try Sys.put(volume.path("d/f"), "x")
    try assertEventually("failed") { try volume.sync("d/f") == "error" }
    let keys: Set<URLResourceKey> = [.ubiquitousItemUploadingErrorKey, .ubiquitousItemIsUploadedKey]
    let values = try url(volume, "d/f").promisedItemResourceValues(forKeys: keys)
    XCTAssertEqual(values.ubiquitousItemIsUploaded, false)
    let error = try XCTUnwrap(values.ubiquitousItemUploadingError)
    XCTAssertFalse((error.userInfo[NSLocalizedFailureReasonErrorKey] as? String ?? "").isEmpty)
    XCTAssertEqual(
      values, try url(volume, "d/f").promisedItemResourceValues(forKeys: keys), "the same is equal, an error too")
  }

  // MARK: Download and evict

  func testDownloadsAndEvictions() throws {
    let volume = try mount { volume in
      for name in ["d/a", "d/sub/b \"ü\"=#", "c"] { try Sys.put(volume.remote(name), "text", makingFolders: true) }
    }
    let names = ["d/a", "d/sub/b \"ü\"=#"]
    for name in ["d", "d/sub"] { _ = try volume.names(name) }
    try manager.startDownloadingUbiquitousItem(at: url(volume, "d"))
    for name in names { try assertEventually(name) { try volume.state(name) == "materialized" } }
    XCTAssertEqual(try volume.state("c"), "placeholder")
    try manager.startDownloadingUbiquitousItem(at: url(volume, "d"))
    try manager.evictUbiquitousItem(at: url(volume, names[1]))
    XCTAssertEqual(try names.map { try volume.state($0) }, ["materialized", "placeholder"])
    try manager.evictUbiquitousItem(at: url(volume, "d"))
    XCTAssertEqual(try volume.state("d/a"), "placeholder")
    try manager.evictUbiquitousItem(at: url(volume, ""))
    assertCocoa(.fileReadNoSuchFile, .ENOENT) { try manager.startDownloadingUbiquitousItem(at: url(volume, "none")) }
    assertCocoa(.fileNoSuchFile, .ENOENT) { try manager.evictUbiquitousItem(at: url(volume, "none")) }
    assertCocoa(.fileReadUnknown, .EINVAL) { try manager.startDownloadingUbiquitousItem(at: file(volume.home)) }
    assertCocoa(.fileWriteUnknown, .EINVAL) { try manager.evictUbiquitousItem(at: file(volume.home)) }
  }

  func testDownloadsWhereOpeningDoesNot() throws {
    let volume = try mount("materialize=range") { try Sys.put($0.remote("f"), patterned(3 << 20, seed: 1)) }
    try manager.startDownloadingUbiquitousItem(at: url(volume, "f"))
    try assertEventually("materialized") { try volume.state("f") == "materialized" }
  }

  func testStubsAreDownloadedByTheNameTheyAreShownUnder() throws {
    let volume = try mount("placeholder_style=stub") { try Sys.put($0.remote("f.txt"), "text") }
    let stub = url(volume, ".f.txt.icloud")
    let values = try stub.promisedItemResourceValues(forKeys: [.ubiquitousItemDownloadingStatusKey])
    XCTAssertEqual(values.ubiquitousItemDownloadingStatus, .notDownloaded)
    try manager.startDownloadingUbiquitousItem(at: stub)
    try assertEventually("by its name") { try volume.names() == ["f.txt"] }
    XCTAssertTrue(manager.isUbiquitousItem(at: stub), "an app that still has the old name finds the document")
    try manager.evictUbiquitousItem(at: url(volume, "f.txt"))
    try assertEventually("a stub again") { try volume.names() == [".f.txt.icloud"] }
  }

  func testWhatIsNotEvictedSaysWhy() throws {
    let volume = try mount(query: "rate=1KiB") { volume in
      for name in ["open", "pinned", "d/free"] { try Sys.put(volume.remote(name), "text", makingFolders: true) }
    }
    try Sys.setXattr(volume.path("pinned"), "user.docsfs.pin", Array("1".utf8))
    let held = try OpenFile(volume.path("open"), O_RDONLY)
    _ = try held.read(4)
    try assertEventually("all there") {
      try ["open", "pinned"].allSatisfy { try volume.state($0) == "materialized" }
    }
    try Sys.put(volume.path("d/edit"), patterned(100_000, seed: 1))
    func assertRefused(
      _ name: String, _ code: CocoaError.Code, _ errno: Errno, _ provider: NSFileProviderError.Code?,
      _ category: Classification.Category
    ) {
      assertCocoa(code, errno) {
        do { try manager.evictUbiquitousItem(at: url(volume, name)) } catch {
          let below = (error as NSError).userInfo[NSUnderlyingErrorKey] as? any Error
          XCTAssertEqual((below as? NSFileProviderError)?.code, provider, name)
          XCTAssertEqual(classify(error).category, category, name)
          let reason = (error as NSError).userInfo[NSLocalizedFailureReasonErrorKey] as? String
          XCTAssertFalse((reason ?? "").isEmpty, "\(name): \(error)")
          throw error
        }
      }
      XCTAssertEqual(try? volume.state(name), "materialized")
    }
    assertRefused("open", .fileWriteUnknown, .EBUSY, nil, .busy)
    assertRefused("pinned", .fileWriteNoPermission, .EPERM, .nonEvictable, .unsupported)
    assertRefused("d/edit", .fileWriteUnknown, .EBUSY, .unsyncedEdits, .busy)
    assertRefused("d", .fileWriteUnknown, .EBUSY, .nonEvictableChildren, .busy)
    XCTAssertEqual(try held.read(4, at: 0), Array("text".utf8))
  }

  // MARK: Updates

  func testUpdatesTellWhatComesAndGoes() async throws {
    let volume = try mount("poll=1s") { volume in
      try Sys.put(volume.remote("d/a"), "a", makingFolders: true)
      try Sys.put(volume.remote("b"), "b")
    }
    var updates = manager.ubiquitousItemUpdates(below: url(volume, ""), every: .milliseconds(20)).makeAsyncIterator()
    let first = [try await updates.next(), try await updates.next()]
    XCTAssertEqual(first.map { $0?.url.path }, [volume.path("b"), volume.path("d/a")])
    XCTAssertEqual(first.map { $0?.kind }, [.added, .added])
    XCTAssertEqual(first.map { $0?.values?.ubiquitousItemDownloadingStatus }, [.notDownloaded, .notDownloaded])
    _ = try Sys.contents(volume.path("d/a"))
    var update = try await updates.next()
    while update?.values?.ubiquitousItemDownloadingStatus != .current { update = try await updates.next() }
    XCTAssertEqual(update?.url.path, volume.path("d/a"))
    XCTAssertEqual(update?.kind, .changed)
    try Sys.remove(volume.path("b"))
    update = try await updates.next()
    XCTAssertEqual(update?.kind, .removed)
    XCTAssertEqual(update?.url, url(volume, "b"))
    XCTAssertNil(update?.values)
    try Sys.put(volume.remote("d/late"), "from another device")
    update = try await updates.next()
    while update?.url.lastPathComponent != "late" { update = try await updates.next() }
    XCTAssertEqual(update?.kind, .added)
    XCTAssertEqual(try volume.state("d/late"), "placeholder")
  }

  func testUpdatesEndWithTheirTask() async throws {
    let volume = try mount()
    let sequence = manager.ubiquitousItemUpdates(below: url(volume, ""), every: .seconds(3600))
    let task = Task {
      for try await _ in sequence {}
      return true
    }
    try await Task.sleep(for: .milliseconds(200))
    task.cancel()
    let ended = try await task.value
    XCTAssertTrue(ended)
  }

  func testUpdatesAreBoundedAndSayWhatIsWrong() async throws {
    let volume = try mount { volume in for name in ["a", "b", "c"] { try Sys.put(volume.remote(name), "x") } }
    for (place, limit, code) in [
      ("", 2, CocoaError.Code.fileReadTooLarge), ("none", 5, .fileReadNoSuchFile),
    ] {
      var updates = manager.ubiquitousItemUpdates(below: url(volume, place), limit: limit).makeAsyncIterator()
      do {
        _ = try await updates.next()
        XCTFail("\(code.rawValue) did not come")
      } catch { XCTAssertEqual((error as NSError).code, code.rawValue) }
    }
    var updates = manager.ubiquitousItemUpdates(below: url(volume, "a")).makeAsyncIterator()
    let update = try await updates.next()
    XCTAssertEqual(update?.url, url(volume, "a"), "one file may be followed too")
  }
}

extension Sys {
  fileprivate static func put(_ path: String, _ text: String, makingFolders: Bool) throws {
    try put(path, Array(text.utf8), makingFolders: makingFolders)
  }
  fileprivate static func put(_ path: String, _ bytes: [UInt8], makingFolders: Bool) throws {
    try makeFolders(URL(fileURLWithPath: path).deletingLastPathComponent().path)
    try put(path, bytes)
  }
}
