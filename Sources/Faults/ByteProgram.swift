/// A nondeterministic automaton over bytes, run on all its states at once (Thompson 1968): the time is at most
/// the length of the text times that of the program, whatever the pattern, so that no rule can hold up the mount.
/// regcomp(3) gives no such bound, and neither do engines that backtrack.
struct ByteProgram: Sendable {
  enum Step: Sendable {
    case byte(UInt8)
    case any
    case set(ByteSet)
    case split(Int, Int)
    case jump(Int)
    case atStart
    case atEnd
    case match
  }

  /// At most so many steps.
  static let limit = 2000
  private(set) var steps: [Step] = []
  /// Whether it may begin anywhere in the text.
  var isUnanchored = false

  var count: Int { steps.count }

  @discardableResult
  mutating func append(_ step: Step) -> Int {
    steps.append(step)
    return steps.count - 1
  }

  mutating func replace(_ index: Int, with step: Step) { steps[index] = step }

  /// `other` behind this, its jumps moved along.
  mutating func append(_ other: ByteProgram) {
    let base = steps.count
    for step in other.steps {
      switch step {
      case .split(let a, let b): steps.append(.split(a + base, b + base))
      case .jump(let a): steps.append(.jump(a + base))
      default: steps.append(step)
      }
    }
  }

  func matches(_ text: ArraySlice<UInt8>) -> Bool {
    withUnsafeTemporaryAllocation(of: Int32.self, capacity: 4 * steps.count) { room in
      var run = Run(program: steps, room: room, text: text)
      return run.matches(isUnanchored)
    }
  }
}

/// Which of the 256 bytes.
struct ByteSet: Sendable, Equatable {
  private var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)

  init() {}
  init(_ bytes: some Sequence<UInt8>) { for byte in bytes { insert(byte) } }

  mutating func insert(_ byte: UInt8) {
    let bit = UInt64(1) << UInt64(byte & 63)
    switch byte >> 6 {
    case 0: words.0 |= bit
    case 1: words.1 |= bit
    case 2: words.2 |= bit
    default: words.3 |= bit
    }
  }

  func contains(_ byte: UInt8) -> Bool {
    let word =
      switch byte >> 6 {
      case 0: words.0
      case 1: words.1
      case 2: words.2
      default: words.3
      }
    return word >> UInt64(byte & 63) & 1 != 0
  }

  var inverted: ByteSet { ByteSet((0...255).map { UInt8($0) }.filter { !contains($0) }) }
  func union(_ other: ByteSet) -> ByteSet {
    ByteSet((0...255).map { UInt8($0) }.filter { contains($0) || other.contains($0) })
  }

  static func == (a: ByteSet, b: ByteSet) -> Bool { a.words == b.words }
}

/// One pass over a text. `room` holds two lists of states, a stack, and for each state the place it was last added at.
private struct Run {
  let program: [ByteProgram.Step]
  let text: ArraySlice<UInt8>
  private var now: UnsafeMutableBufferPointer<Int32>
  private var next: UnsafeMutableBufferPointer<Int32>
  private let stack: UnsafeMutableBufferPointer<Int32>
  private let seen: UnsafeMutableBufferPointer<Int32>
  private var nowCount = 0
  private var nextCount = 0
  private var hasMatched = false

  init(program: [ByteProgram.Step], room: UnsafeMutableBufferPointer<Int32>, text: ArraySlice<UInt8>) {
    self.program = program
    self.text = text
    let count = program.count
    func part(_ index: Int) -> UnsafeMutableBufferPointer<Int32> {
      UnsafeMutableBufferPointer(rebasing: room[index * count..<(index + 1) * count])
    }
    now = part(0)
    next = part(1)
    stack = part(2)
    seen = part(3)
    seen.initialize(repeating: -1)
  }

  mutating func matches(_ isUnanchored: Bool) -> Bool {
    for place in 0...text.count {
      if place == 0 || isUnanchored { add(0, place) }
      swap(&now, &next)
      (nowCount, nextCount) = (nextCount, 0)
      if isUnanchored ? hasMatched : place == text.count && hasMatched { return true }
      hasMatched = false
      if place == text.count || (nowCount == 0 && !isUnanchored) { return false }
      step(text[text.startIndex + place], place)
    }
    return false
  }

  private mutating func step(_ byte: UInt8, _ place: Int) {
    for index in 0..<nowCount {
      let state = Int(now[index])
      let advances =
        switch program[state] {
        case .byte(let wanted): byte == wanted
        case .any: true
        case .set(let set): set.contains(byte)
        default: false
        }
      if advances { add(state + 1, place + 1) }
    }
  }

  /// The state, or where it leads without a byte. Each state is added once a place, so that loops end and the stack
  /// holds no state twice.
  private mutating func add(_ first: Int, _ place: Int) {
    var depth = 0
    push(first, place, &depth)
    while depth > 0 {
      depth -= 1
      let state = Int(stack[depth])
      switch program[state] {
      case .split(let a, let b):
        push(b, place, &depth)
        push(a, place, &depth)
      case .jump(let a): push(a, place, &depth)
      case .atStart: if place == 0 { push(state + 1, place, &depth) }
      case .atEnd: if place == text.count { push(state + 1, place, &depth) }
      case .match: hasMatched = true
      default:
        next[nextCount] = Int32(state)
        nextCount += 1
      }
    }
  }

  private func push(_ state: Int, _ place: Int, _ depth: inout Int) {
    guard seen[state] != Int32(place) else { return }
    seen[state] = Int32(place)
    stack[depth] = Int32(state)
    depth += 1
  }
}
