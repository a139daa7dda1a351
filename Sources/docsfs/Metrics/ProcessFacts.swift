import CLinux
import Containers
import Glibc

/// What the system says of this process.
struct ProcessFacts: Sendable {
  /// Seconds since 1970.
  let started = Double(Timestamp.now().nanoseconds / 1_000_000) / 1000

  var cpuSeconds: Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec / 1000) / 1e6
  }

  /// Bytes.
  var memory: (virtual: Int, resident: Int) {
    let text = (try? FilePath("/proc/self/statm").contents()) ?? []
    let pages = String(decoding: text, as: UTF8.self).split(separator: " ").prefix(2).compactMap { Int($0) }
    let size = sysconf(Int32(_SC_PAGESIZE))
    return pages.count == 2 ? (pages[0] * size, pages[1] * size) : (0, 0)
  }

  /// From Linux 6.2 on the folder's size; before, its entries have to be counted.
  var openDescriptors: Int {
    let folder = FilePath("/proc/self/fd")
    if let status = try? folder.status(), status.st_size > 0 { return Int(status.st_size) }
    return ((try? folder.entries()) ?? []).count
  }

  var descriptorLimit: UInt64 {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    return UInt64(limit.rlim_cur)
  }
}
