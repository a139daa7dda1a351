import CFuse
import DocsEngine
import StorageErrors

/// What the kernel holds between OPEN and RELEASE, by its address; that counts as one reference.
final class Opened<Handle: Sendable>: Sendable {
  let handle: Handle
  let node: NodeID
  /// When it was opened.
  let moment: LinkMoment
  /// By whom.
  let opener: CallerIdentity
  /// Past the page cache: each read(2) arrives here as it is.
  let isDirect: Bool
  /// The kernel's number of the file that it reads and writes by itself; 0: none.
  let backing: UInt32

  init(
    _ handle: Handle, _ node: NodeID, _ moment: LinkMoment, by opener: CallerIdentity, isDirect: Bool = false,
    backing: UInt32 = 0
  ) {
    self.handle = handle
    self.node = node
    self.moment = moment
    self.opener = opener
    self.isDirect = isDirect
    self.backing = backing
  }

  /// For the kernel; given back by RELEASE, or by `giveBack` when the kernel refused the answer.
  func retainedAddress() -> UInt64 { UInt64(UInt(bitPattern: Unmanaged.passRetained(self).toOpaque())) }

  func giveBack() { Unmanaged.passUnretained(self).release() }

  /// What `address` stands for; nil: nothing.
  static func at(_ address: UInt64) -> Opened? {
    UnsafeMutableRawPointer(bitPattern: UInt(address)).map {
      Unmanaged<Opened>.fromOpaque($0).takeUnretainedValue()
    }
  }
}

typealias OpenFile = Opened<FileHandle>
typealias OpenFolder = Opened<FolderHandle>

func fileHandle(_ info: UnsafeMutablePointer<fuse_file_info>?) throws(Errno) -> FileHandle {
  guard let info, let open = OpenFile.at(info.pointee.fh) else { throw .EBADF }
  return open.handle
}

func folderHandle(_ info: UnsafeMutablePointer<fuse_file_info>?) throws(Errno) -> FolderHandle {
  guard let info, let open = OpenFolder.at(info.pointee.fh) else { throw .EBADF }
  return open.handle
}

/// The same at RELEASE: gives back the kernel's reference.
func takeFile(_ info: UnsafeMutablePointer<fuse_file_info>?) throws(Errno) -> OpenFile {
  guard let info, let open = OpenFile.at(info.pointee.fh) else { throw .EBADF }
  defer { open.giveBack() }
  return open
}

func takeFolder(_ info: UnsafeMutablePointer<fuse_file_info>?) throws(Errno) -> OpenFolder {
  guard let info, let open = OpenFolder.at(info.pointee.fh) else { throw .EBADF }
  defer { open.giveBack() }
  return open
}

extension Bridge {
  private static let beginning = LinkMoment(epoch: 0, disconnects: 0)

  func open(_ handle: FileHandle, _ node: NodeID, by thread: Int32) -> OpenFile {
    let opener = identity(thread)
    return OpenFile(
      handle, node, faults?.opened(node, by: opener) ?? Self.beginning, by: opener,
      isDirect: faults?.wantsDirectReads ?? false,
      backing: handle.lent.map { passthrough.use($0, for: node, device) } ?? 0)
  }

  func open(_ handle: FolderHandle, _ node: NodeID, by thread: Int32) -> OpenFolder {
    let opener = identity(thread)
    return OpenFolder(handle, node, faults?.opened(node, by: opener) ?? Self.beginning, by: opener)
  }

  /// Looked up only while somebody wants to know.
  private func identity(_ thread: Int32) -> CallerIdentity {
    faults?.forbidsCaching == true
      ? CallerProcess(thread: thread).identity : CallerIdentity(pid: thread, executable: [])
  }

  func closed(_ open: OpenFile) {
    if open.handle.lent != nil { passthrough.end(open.node, device) }
    volume.release(open.handle)
    faults?.closed(open.node, open.moment, by: open.opener)
  }

  func closed(_ open: OpenFolder) {
    volume.releaseFolder(open.handle)
    faults?.closed(open.node, open.moment, by: open.opener)
  }
}
