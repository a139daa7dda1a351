import CLinux
import Glibc
import StorageErrors

extension ContainerError {
  /// What a failed call on a folder's file system means for a container. The one place where an errno is
  /// judged.
  ///
  /// ELOOP is "not found": a folder on the way was replaced by a symlink, which is not a folder of the
  /// container.
  init(_ errno: Errno, _ what: String, _ path: ContainerPath) {
    let code: Code =
      switch errno.rawValue {
      case ENOENT, ENOTDIR, ELOOP: .notFound
      case EACCES, EPERM: .permissionDenied
      case ENOSPC, EDQUOT: .outOfSpace
      case EROFS: .readOnly
      case ENAMETOOLONG, EILSEQ: .notRepresentable
      case ENOTEMPTY: .notEmpty
      case EEXIST: .preconditionFailed
      case ENODEV, ENXIO, ESTALE, ENOTCONN, EHOSTDOWN, ETIMEDOUT: .unreachable
      default: .system(errno)
      }
    self.init(code, "cannot \(what) \(path): \(errno)")
  }
}

/// Runs `body`; its errno becomes the container's error: "cannot `what` `path`: why".
@discardableResult
func on<R: ~Copyable>(_ what: String, _ path: ContainerPath, _ body: () throws(Errno) -> R)
  throws(ContainerError)
  -> R
{
  do throws(Errno) {
    return try body()
  } catch {
    throw ContainerError(error, what, path)
  }
}

/// Throws the errno of a call that returned -1.
@discardableResult
func check<N: SignedInteger>(_ result: N) throws(Errno) -> N {
  guard result >= 0 else { throw .current }
  return result
}
