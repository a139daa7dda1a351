/// What a GET of a range has given so far, of an answer that may hold more: servers that ignore ranges answer with all.
struct RangedBody {
  private let range: Range<Int64>
  /// Where the next piece of the answer lies in the file.
  private var at: Int64 = 0
  /// Up to here the range has been given on.
  private var given: Int64

  init(_ range: Range<Int64>) {
    self.range = range
    given = range.lowerBound
  }

  static func header(_ range: Range<Int64>) -> (String, String) {
    ("Range", "bytes=\(range.lowerBound)-\(range.upperBound - 1)")
  }

  /// The answer's head has come.
  mutating func begin(_ response: HTTPResponse, _ what: String) throws(ContainerError) {
    guard response.status == 206 else { return }
    guard response["content-range"]?.hasPrefix("bytes \(range.lowerBound)-") == true else {
      throw ContainerError(.inconsistent, "\(what): the server gives another range than was asked for")
    }
    at = range.lowerBound
  }

  /// Gives on what was asked for of the next piece.
  mutating func take(
    _ piece: UnsafeRawBufferPointer, _ sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) {
    defer { at += Int64(piece.count) }
    guard given < range.upperBound else { return }
    let wanted = piece.dropFirst(Int(clamping: given - at)).prefix(Int(clamping: range.upperBound - given))
    guard !wanted.isEmpty else { return }
    try sink(UnsafeRawBufferPointer(rebasing: wanted))
    given += Int64(wanted.count)
  }

  /// `refused`: what an answer that is no success means, but for those that say the version is another.
  func finish(
    _ response: HTTPResponse, _ what: String, refused: () -> ContainerError
  ) throws(ContainerError) {
    switch response.status {
    case 200..<300: break
    case 412, 416: throw ContainerError(.versionChanged, "\(what): it has changed")
    default: throw refused()
    }
    guard given == range.upperBound else {
      throw ContainerError(.inconsistent, "\(what): \(range.upperBound - given) bytes are missing at its end")
    }
  }
}
