import CLinux
import StorageErrors

/// A folder below $TMPDIR that goes when it is told to.
struct TemporaryFolder {
  let path: FilePath

  init() throws(Failure) {
    let base = UserDirectories.variable("TMPDIR") ?? FilePath("/tmp")
    let template = base.madeAbsolute.appending("docsfs-run-XXXXXX")
    var room = template.bytes.map { CChar(bitPattern: $0) } + [0]
    guard mkdtemp(&room) != nil else { throw Failure("cannot make a folder in", base, .current) }
    path = FilePath(room.map { UInt8(bitPattern: $0) })
  }

  func make(_ name: String) throws(Failure) -> FilePath {
    let folder = path.appending(name)
    guard folder.call({ mkdir($0, 0o700) }) == 0 else {
      throw Failure("cannot make the folder", folder, .current)
    }
    return folder
  }

  /// Never into a mount that is still there.
  func remove() throws(Failure) {
    let words = ["rm", "-rf", "--one-file-system", "--"].map { Array($0.utf8) } + [path.bytes]
    let (code, text) = try Spawn.capturingErrors(words)
    if code != 0 { throw Failure("cannot remove \(path): \(oneLine(text))") }
  }
}
