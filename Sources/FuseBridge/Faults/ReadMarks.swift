import DocsEngine

/// The pages of which a readahead has failed.
///
/// The kernel hides that failure and asks again, page by page, when an application wants the bytes; only then a
/// failure is seen. So the first failure counts for nothing, and its pages are remembered with what failed them.
struct ReadMarks {
  static let page: Int64 = 4096
  struct Mark {
    /// What fails it: a rule's id, or nil for the link.
    var rule: String?
    /// The page's own read has failed by that rule: the kernel hides none of its failures any more.
    var isSeen = false
  }
  private var marks: [NodeID: [Int64: Mark]] = [:]
  private var count = 0
  /// With more marks they are all forgotten: a fault then takes one hidden failure more.
  private static let limit = 1 << 18

  private static func pages(_ offset: Int64, _ length: Int64) -> Range<Int64> {
    offset / page..<max(offset / page + 1, (offset + length + page - 1) / page)
  }

  mutating func add(_ node: NodeID, _ offset: Int64, _ length: Int64, rule: String?) {
    if count >= Self.limit { self = ReadMarks() }
    for page in Self.pages(offset, length)
    where marks[node, default: [:]].updateValue(Mark(rule: rule), forKey: page) == nil {
      count += 1
    }
  }

  /// The mark, if this is an application's own read, of one page whose readahead failed.
  func find(_ node: NodeID, _ offset: Int64, _ length: Int64) -> Mark? {
    length <= Self.page ? marks[node]?[offset / Self.page] : nil
  }

  /// The application has seen that read fail.
  mutating func see(_ node: NodeID, _ offset: Int64) { marks[node]?[offset / Self.page]?.isSeen = true }

  /// Bytes that were read, or are about to be.
  mutating func remove(_ node: NodeID, _ offset: Int64, _ length: Int64) {
    guard var known = marks[node] else { return }
    for page in Self.pages(offset, length) where known.removeValue(forKey: page) != nil { count -= 1 }
    marks[node] = known.isEmpty ? nil : known
  }

  mutating func removeAll() { self = ReadMarks() }
}
