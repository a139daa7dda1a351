import StorageErrors

/// What one open handle writes to the control file: bytes in any pieces go in, whole commands come out.
///
/// A command ends at its newline, or with the `}` of its JSON object; what is left when the handle is flushed is one too.
/// Call `append`, then `next` until it gives nil; at the flush, `finish` likewise. When one throws, call `discard`: what
/// the same write brought behind it is dropped, as the writer takes the whole for failed.
package struct ControlInput: Sendable {
  /// Bytes that one command may have.
  package static let limit = 1 << 20

  private enum Mode {
    case start
    /// Of a command that is too long: to its end all of it is refused, however many writes it takes.
    case overlong
    case line
    case object(depth: Int, inString: Bool, isEscaped: Bool)
  }

  private var buffer: [UInt8] = []
  /// What is before has been given out.
  private var begin = 0
  /// What is before has been looked at.
  private var scanned = 0
  private var mode = Mode.start
  /// Of `begin`.
  private var place = ControlPlace()

  package init() {}

  /// Whether something waits for its end.
  package var isEmpty: Bool { begin == buffer.count }

  package mutating func append(_ bytes: some Sequence<UInt8>) {
    buffer.removeFirst(begin)
    scanned -= begin
    begin = 0
    buffer.append(contentsOf: bytes)
  }

  /// The next whole command; nil: there is none yet. EFBIG beyond the limit.
  package mutating func next() throws(ControlError) -> ControlStatement? {
    if case .overlong = mode { try refuseRest() }
    while scanned < buffer.count {
      guard endsCommand(buffer[scanned]) else {
        try refuseTooLong()
        continue
      }
      if let statement = try take() { return statement }
    }
    return nil
  }

  /// The tail, when nothing more comes. An object that is not closed is refused.
  package mutating func finish() throws(ControlError) -> ControlStatement? {
    if let statement = try next() { return statement }
    if case .object = mode {
      let begin = objectPlace
      discard()
      throw begin.error("this { is never closed")
    }
    return try take()
  }

  /// Forgets what is there; lines count on.
  package mutating func discard() {
    let isOverlong = if case .overlong = mode { true } else { false }
    scanned = buffer.count
    moveOn()
    if isOverlong { mode = .overlong }
  }

  /// Looks at one byte, and tells whether a command ends with it.
  private mutating func endsCommand(_ byte: UInt8) -> Bool {
    scanned += 1
    switch mode {
    case .start:
      if byte == 0x0a { return true }
      if byte == UInt8(ascii: "{") {
        mode = .object(depth: 1, inString: false, isEscaped: false)
      } else if ![0x20, 0x09, 0x0d].contains(byte) {
        mode = .line
      }
    case .line, .overlong: return byte == 0x0a
    case .object(let depth, true, let isEscaped):
      let ends = byte == UInt8(ascii: "\"") && !isEscaped
      mode = .object(depth: depth, inString: !ends, isEscaped: byte == UInt8(ascii: "\\") && !isEscaped)
    case .object(let depth, false, _):
      switch byte {
      case UInt8(ascii: "\""): mode = .object(depth: depth, inString: true, isEscaped: false)
      case UInt8(ascii: "{"), UInt8(ascii: "["): mode = .object(depth: depth + 1, inString: false, isEscaped: false)
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        mode = .object(depth: depth - 1, inString: false, isEscaped: false)
        return depth == 1
      default: break
      }
    }
    return false
  }

  /// Of a command that is too long, up to its newline.
  private mutating func refuseRest() throws(ControlError) {
    guard scanned < buffer.count else { return }
    let place = place
    let end = buffer[scanned...].firstIndex(of: 0x0a)
    scanned = end.map { $0 + 1 } ?? buffer.count
    moveOn()
    if end == nil { mode = .overlong }
    throw place.error(Self.tooLong, .EFBIG)
  }

  private mutating func refuseTooLong() throws(ControlError) {
    guard scanned - begin > Self.limit else { return }
    let begin = objectPlace
    let ends = buffer[scanned...].contains(0x0a)
    discard()
    if !ends { mode = .overlong }
    throw begin.error(Self.tooLong, .EFBIG)
  }

  private static let tooLong = "a command has at most 1 MiB"

  private mutating func take() throws(ControlError) -> ControlStatement? {
    let start = place
    let text = buffer[begin..<scanned]
    moveOn()
    return try ControlStatement(text, at: start)
  }

  /// `begin` to `scanned`, with the place of it.
  private mutating func moveOn() {
    for byte in buffer[begin..<scanned] {
      if byte == 0x0a {
        place = ControlPlace(line: place.line + 1, column: 1)
      } else {
        place.column += 1
      }
    }
    begin = scanned
    mode = .start
  }

  /// Where the command begins that is not complete, blanks left out.
  private var objectPlace: ControlPlace {
    let blanks = buffer[begin..<scanned].prefix { [0x20, 0x09, 0x0d].contains($0) }.count
    return ControlPlace(line: place.line, column: place.column + blanks)
  }
}
