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

  func remove() throws(Failure) { try path.removeTree() }
}
