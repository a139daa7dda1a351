import CFuse
import CLinux

/// How long the kernel may answer from its caches without asking, in seconds.
package struct CacheLifetimes: Sendable {
  package var entry: Double
  package var attributes: Double
  /// Of a name that does not exist.
  package var negative: Double

  package init(entry: Double, attributes: Double, negative: Double) {
    self.entry = entry
    self.attributes = attributes
    self.negative = negative
  }

  /// A day: whatever changes otherwise than through the mount, the engine invalidates.
  package static let long = CacheLifetimes(entry: 86_400, attributes: 86_400, negative: 86_400)
  package static let none = CacheLifetimes(entry: 0, attributes: 0, negative: 0)

  func atMost(seconds: Double) -> CacheLifetimes {
    CacheLifetimes(
      entry: min(entry, seconds), attributes: min(attributes, seconds), negative: min(negative, seconds))
  }
}

/// Who reads and writes content files.
package enum IOMode: String, Sendable {
  /// The kernel by itself, where it can.
  case auto
  /// The kernel by itself, or there is no mount.
  case passthrough
  /// The volume, behind the kernel's page cache.
  case cached
}

package struct FuseOptions: Sendable {
  package var allowOther = false
  package var readOnly = false
  /// The kernel's own, such as `noexec`; `dev` and `suid` need root.
  package var kernel: [String] = []
  /// What `mount` and `df` show as the device: the state directory.
  package var fsname: String
  package var lifetimes = CacheLifetimes.long
  package var io = IOMode.cached
  /// What can make the mount fail.
  package var faults: FaultInjector?
  /// What `.docsfs` in the root is connected to; nil: there is none.
  package var control: (any ControlChannel)?
  /// Where answers are counted.
  package var traffic = MountTraffic()

  package init(fsname: String) { self.fsname = fsname }
}

/// Why a mount or an unmount failed, in one line.
package struct FuseMountError: Error, CustomStringConvertible {
  package let message: String
  /// Somebody uses the mount: try again, or unmount it lazily.
  package let isBusy: Bool

  package init(_ message: String, isBusy: Bool = false) {
    self.message = message
    self.isBusy = isBusy
  }

  package var description: String { message }
}

/// The largest read and write request, in bytes: what the kernel's 256 pages allow.
let largestTransfer: UInt32 = 1 << 20

/// How far the kernel reads ahead, in bytes. 256 and 512 KiB read fastest (2.8 GB/s, 128 KiB 2.6, 1 MiB 1.7), and a
/// short one brings less of a placeholder that nobody reads.
let readahead = 256 * 1024

extension FuseOptions {
  /// As `libfuse` parses them: the program's name, then one `-o` list.
  var arguments: [String] {
    var list = [
      "fsname=" + escaped(fsname), "subtype=docsfs", "default_permissions", "max_read=\(largestTransfer)",
    ]
    if allowOther { list.append("allow_other") }
    if readOnly { list.append("ro") }
    list += kernel
    return ["docsfs", "-o", list.joined(separator: ",")]
  }
}

/// libfuse splits its options at commas and takes a backslash for an escape.
private func escaped(_ value: String) -> String {
  var text = ""
  for scalar in value.unicodeScalars {
    if scalar == "," || scalar == "\\" { text.unicodeScalars.append("\\") }
    text.unicodeScalars.append(scalar)
  }
  return text
}

/// Calls `body` with libfuse's form of `arguments`, and frees what libfuse made of it.
func withFuseArguments<R>(_ arguments: [String], _ body: (UnsafeMutablePointer<fuse_args>) -> R) -> R {
  var pointers: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) }
  pointers.append(nil)
  defer { for pointer in pointers { free(pointer) } }
  return pointers.withUnsafeMutableBufferPointer { argv in
    var args = docsfs_args(Int32(arguments.count), argv.baseAddress)
    defer { fuse_opt_free_args(&args) }
    return body(&args)
  }
}
