import Foundation
import TestSupport
import XCTest

/// rclone and a mount over one bucket or share: what one writes, renames and removes the other shows the same.
final class RcloneTests: MountedTestCase {
  /// Names that an encoding may trip over; the two that look alike are not the same.
  private static let names = [
    "plain.txt", "with  blanks ", "100%", "%2F", "what?", "a#b", "a+b&c=d", "~!@$^*()[]{};'\"`",
    ".hidden",
    "dot.", "caf\u{e9}", "cafe\u{301}", "\u{1f5c2}\u{fe0f}\u{200d}x", "\u{5bb6}/\u{65cf}/\u{5199}\u{771f}",
    "d e/f#g/h?i",
  ]

  /// Files of `names` and of one of `longest` bytes, an odd number, each with a time of its own.
  private func makeFiles(_ folder: String, longest: Int) throws {
    let names = Self.names + ["n" + String(repeating: "\u{fc}", count: longest / 2 - 2) + ".txt"]
    for (number, name) in names.enumerated() {
      let path = folder + "/" + name
      try Sys.makeFolders(String(path[..<(path.lastIndex(of: "/") ?? path.endIndex)]))
      try Sys.put(path, [UInt8](repeating: UInt8(number), count: [0, 1, 4_096, 70_000][number % 4]))
      let time = timespec(tv_sec: 1_000_000_000 + number, tv_nsec: 123_456_789 + number)
      try Sys.setTimes(path, accessed: time, modified: time)
    }
  }

  private func twoPrograms(_ kind: CloudServer.Kind, _ variables: (CloudPlace) -> [String: String], longest: Int) throws
  {
    try skipUnlessInstalled("rclone")
    let place = try CloudPlace(kind)
    let volume = try unmounted(["poll=1s"], name: "v")
    volume.url = place.url
    for (name, value) in place.server.values where name.hasPrefix("AWS_") { volume.environment[name] = value }
    volume.environment.merge(["RCLONE_CONFIG": "/dev/null", "RCLONE_NO_UNICODE_NORMALIZATION": "true", "TZ": "UTC"]) {
      $1
    }
    volume.environment.merge(variables(place)) { $1 }
    try volume.mount()
    let source = volume.home + "/source"
    try makeFiles(source, longest: longest)
    volume.environment["S"] = source

    try volume.must("mkdir $M/ours && cp -a $S/. $M/ours/")
    try volume.run("sync", volume.mountpoint)
    try assertSame(volume, "ours", keepsTimes: kind == .s3)
    try volume.must("rclone copy \"$R/ours\" $S/../copy && diff -r $S $S/../copy")

    try volume.must("rclone copy $S \"$R/theirs\"", within: 100)
    XCTAssert(eventually { volume.shell("diff -r $S $M/theirs").succeeded }, volume.shell("diff -r $S $M/theirs").text)
    try assertSame(volume, "theirs", keepsTimes: true)
    if kind == .s3 { XCTAssertEqual(try facts(volume, "$M/theirs"), try facts(volume, "$S")) }

    // Renamed and removed by each.
    try volume.must(
      "mv \"$M/theirs/what?\" \"$M/theirs/moved #1\"; rm $M/theirs/plain.txt; mv \"$M/theirs/d e\" $M/theirs/e")
    try volume.run("sync", volume.mountpoint)
    try assertSame(volume, "theirs", keepsTimes: true)
    try volume.must(
      "rclone moveto \"$R/ours/a#b\" \"$R/ours/moved 100%\"; rclone deletefile \"$R/ours/plain.txt\"; echo more | rclone rcat \"$R/ours/100%\""
    )
    XCTAssert(
      eventually {
        volume.shell("test ! -e $M/ours/plain.txt -a -e \"$M/ours/moved 100%\" && grep -q more $M/ours/100%").succeeded
      }, volume.shell("ls -l $M/ours").text)
    try assertSame(volume, "ours", keepsTimes: kind == .s3)
  }

  /// Sizes, times and names of all files below `folder`, as rclone and as the mount tell them.
  private func assertSame(_ volume: MountedVolume, _ folder: String, keepsTimes: Bool, line: UInt = #line) throws {
    let theirs = try volume.must("rclone lsl \"$R/\(folder)\" | sed 's/^ *//' | LC_ALL=C sort -k 4").lines
    let ours = try facts(volume, "$M/\(folder)")
    func shown(_ lines: [String]) -> [String] {
      // Where the server keeps no times of others, each shows what it knows.
      keepsTimes
        ? lines
        : lines.map { line in
          let words = line.split(separator: " ", maxSplits: 3)
          return "\(words[0]) \(words[3])"
        }
    }
    XCTAssertEqual(shown(theirs), shown(ours), line: line)
    XCTAssertFalse(ours.isEmpty, line: line)
  }

  private func facts(_ volume: MountedVolume, _ folder: String) throws -> [String] {
    try volume.must(
      "cd \(folder); find . -type f -printf '%s %TY-%Tm-%Td %TH:%TM:%TS %P\\n' | sed -E 's/(:[0-9]{2}\\.[0-9]{9})0 /\\1 /' | LC_ALL=C sort -k 4"
    ).lines
  }

  func testABucket() throws {
    try twoPrograms(
      .s3,
      { place in
        let parts = place.url.components(separatedBy: "?")
        let endpoint = parts[1].components(separatedBy: "&")[0].replacingOccurrences(of: "endpoint=", with: "")
        return [
          "RCLONE_CONFIG_C_TYPE": "s3", "RCLONE_CONFIG_C_PROVIDER": "Other", "RCLONE_CONFIG_C_ENDPOINT": endpoint,
          "RCLONE_CONFIG_C_FORCE_PATH_STYLE": "true", "RCLONE_CONFIG_C_REGION": "us-east-1",
          "RCLONE_CONFIG_C_ENV_AUTH": "true", "R": "c:" + parts[0].dropFirst(5),
          // It cannot be told of a certificate that way, even of none.
          "AWS_CA_BUNDLE": "",
        ]
      }, longest: 255)
  }

  /// lighttpd needs room for a suffix of its own.
  func testAWebDAVShare() throws {
    try twoPrograms(
      .webdav,
      { place in
        [
          "RCLONE_CONFIG_C_TYPE": "webdav", "RCLONE_CONFIG_C_VENDOR": "other",
          // lighttpd takes a PROPFIND with a body only when it is said to be XML.
          "RCLONE_CONFIG_C_HEADERS": "Content-Type,text/xml",
          "RCLONE_CONFIG_C_URL": place.url.replacingOccurrences(of: "webdav+", with: ""), "R": "c:",
        ]
      }, longest: 231)
  }
}
