import Containers
import Glibc

extension Timestamp {
  package init(_ t: Glibc.timespec) {
    let (product, overflow) = Int64(t.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
    self.init(nanoseconds: overflow ? (t.tv_sec < 0 ? .min : .max) : product &+ Int64(t.tv_nsec))
  }
  package var timespec: Glibc.timespec {
    var seconds = nanoseconds / 1_000_000_000
    var rest = nanoseconds % 1_000_000_000
    if rest < 0 {
      seconds -= 1
      rest += 1_000_000_000
    }
    return Glibc.timespec(tv_sec: Int(seconds), tv_nsec: Int(rest))
  }
}
