import CFuse
import DocsEngine
import StorageErrors

// The kernel keeps a handle's address between OPEN and RELEASE. It counts as one reference.

func address<Handle: AnyObject>(retaining handle: Handle) -> UInt64 {
  UInt64(UInt(bitPattern: Unmanaged.passRetained(handle).toOpaque()))
}

private func unmanaged<Handle: AnyObject>(
  _ info: UnsafeMutablePointer<fuse_file_info>?, _: Handle.Type
) throws(Errno) -> Unmanaged<Handle> {
  guard let info, let pointer = UnsafeMutableRawPointer(bitPattern: UInt(info.pointee.fh)) else {
    throw .EBADF
  }
  return Unmanaged<Handle>.fromOpaque(pointer)
}

func fileHandle(_ info: UnsafeMutablePointer<fuse_file_info>?) throws(Errno) -> FileHandle {
  try unmanaged(info, FileHandle.self).takeUnretainedValue()
}

func folderHandle(_ info: UnsafeMutablePointer<fuse_file_info>?) throws(Errno) -> FolderHandle {
  try unmanaged(info, FolderHandle.self).takeUnretainedValue()
}

/// The same at RELEASE: gives back the kernel's reference.
func takeFileHandle(_ info: UnsafeMutablePointer<fuse_file_info>?) throws(Errno) -> FileHandle {
  try unmanaged(info, FileHandle.self).takeRetainedValue()
}

func takeFolderHandle(_ info: UnsafeMutablePointer<fuse_file_info>?) throws(Errno) -> FolderHandle {
  try unmanaged(info, FolderHandle.self).takeRetainedValue()
}

/// Handles go from an answer to RELEASE by address; when the kernel refused the answer there will be none.
func giveBack<Handle: AnyObject>(_: Handle, at address: UInt64) {
  guard let pointer = UnsafeMutableRawPointer(bitPattern: UInt(address)) else { return }
  Unmanaged<Handle>.fromOpaque(pointer).release()
}
