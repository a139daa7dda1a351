import CFuse
import DocsEngine
import StorageErrors

/// What the kernel holds between OPEN and RELEASE, by its address; that counts as one reference.
final class Opened<Handle: Sendable>: Sendable {
  let handle: Handle
  /// When it was opened.
  let moment: LinkMoment
  /// Past the page cache: each read(2) arrives here as it is.
  let isDirect: Bool

  init(_ handle: Handle, _ moment: LinkMoment, isDirect: Bool = false) {
    self.handle = handle
    self.moment = moment
    self.isDirect = isDirect
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

  func open(_ handle: FileHandle) -> OpenFile {
    OpenFile(handle, faults?.opened() ?? Self.beginning, isDirect: faults?.wantsDirectReads ?? false)
  }

  func open(_ handle: FolderHandle) -> OpenFolder { OpenFolder(handle, faults?.moment ?? Self.beginning) }

  func closed(_ open: OpenFile) {
    volume.release(open.handle)
    faults?.closed(open.moment)
  }

  func closed(_ open: OpenFolder) { volume.releaseFolder(open.handle) }
}
