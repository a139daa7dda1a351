import CFuse
import DocsEngine

/// What is asked of the kernel, where it can. Not ASYNC_DIO: with it an O_DIRECT read that waits cannot be killed.
private let wanted =
  FUSE_CAP_ASYNC_READ | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_EXPLICIT_INVAL_DATA
  | FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_CACHE_SYMLINKS
  | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE | FUSE_CAP_IOCTL_DIR

/// libfuse's `init`: how the kernel and this server talk. No writeback cache: it would keep bytes that the
/// journal does not know. No AUTO_INVAL_DATA: the engine says what has changed.
func negotiate(_ bridge: Bridge, _ connection: inout fuse_conn_info) {
  connection.want = UInt32(bitPattern: wanted) & connection.capable
  connection.max_write = largestTransfer
  connection.max_read = largestTransfer
  // Reads that wait for the network count as background requests: with the usual 12 they would hold up
  // uncached reads of every other file.
  connection.max_background = 512
  connection.congestion_threshold = 512
}
