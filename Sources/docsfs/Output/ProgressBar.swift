import Containers
import Faults

/// How far long work is: a bar with rate and time left on a terminal, a line every few seconds elsewhere.
struct ProgressBar {
  let verb: String
  let isTerminal: Bool
  let width: Int
  private let started = Clock.now()
  private var shown: UInt64 = 0
  private var isOnScreen = false

  init(_ verb: String, isTerminal: Bool = Console.errorIsTerminal, width: Int = Console.width) {
    self.verb = verb
    self.isTerminal = isTerminal
    self.width = width
  }

  mutating func show(_ progress: Progress) {
    let now = Clock.now()
    let interval: UInt64 = isTerminal ? 100_000_000 : 5_000_000_000
    guard now &- max(shown, started) >= interval else { return }
    shown = now
    let seconds = Double(now &- started) / 1e9
    if isTerminal {
      Console.write("\r" + bar(progress, seconds) + "\u{1b}[K", to: 2)
      isOnScreen = true
    } else {
      Console.write(text(progress, seconds) + "\n", to: 2)
    }
  }

  /// Takes the bar away, so that other lines can be written.
  mutating func clear() {
    if isOnScreen { Console.write("\r\u{1b}[K", to: 2) }
    isOnScreen = false
  }

  /// `uploading 3 of 10 items, 1.0 MiB of 5.0 MiB, 512.0 KiB/s, 8 s left`.
  func text(_ progress: Progress, _ seconds: Double) -> String {
    var text = "\(verb) \(progress.doneItems) of \(progress.totalItems) items, "
    text += "\(Quantity.show(bytes: progress.doneBytes)) of \(Quantity.show(bytes: progress.totalBytes))"
    guard seconds > 0, progress.doneBytes > 0 else { return text }
    let rate = Double(progress.doneBytes) / seconds
    text += ", \(Quantity.show(bytes: Int64(rate)))/s"
    let left = Double(progress.totalBytes - progress.doneBytes) / rate
    return left > 0 ? text + ", \(Quantity.show(seconds: left)) left" : text
  }

  func bar(_ progress: Progress, _ seconds: Double) -> String {
    let text = text(progress, seconds)
    let room = min(40, width - text.count - 4)
    guard room >= 8 else { return String(text.prefix(max(0, width - 1))) }
    let share = fraction(progress)
    let filled = Int(Double(room) * share)
    return "[" + String(repeating: "#", count: filled) + String(repeating: "-", count: room - filled) + "] "
      + text
  }

  private func fraction(_ progress: Progress) -> Double {
    let share =
      progress.totalBytes > 0
      ? Double(progress.doneBytes) / Double(progress.totalBytes)
      : Double(progress.doneItems) / Double(max(1, progress.totalItems))
    return min(1, max(0, share))
  }
}
