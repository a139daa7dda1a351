import CLinux

/// How the daemon tells the command that started it what became of the mount: lines `note TEXT`, and at the end
/// `ready`, or `failed CODE TEXT`.
struct ReadyPipe: Sendable {
  /// nil: in the foreground; notes go to standard error then.
  var descriptor: Int32?

  enum Message: Equatable {
    case note(String)
    case ready
    case failed(Failure)

    init?(_ line: [UInt8]) {
      let text = String(decoding: line, as: UTF8.self)
      let words = text.split(separator: " ", maxSplits: 2).map(String.init)
      switch words.first {
      case "ready": self = .ready
      case "note": self = .note(String(text.dropFirst("note ".count)))
      case "failed":
        guard words.count == 3, let code = Int32(words[1]) else { return nil }
        self = .failed(Failure(words[2], code))
      default: return nil
      }
    }
  }

  func note(_ text: String) {
    if descriptor == nil { Console.error(text) } else { send("note " + oneLine(text)) }
  }

  func ready() {
    send("ready")
    if let descriptor { close(descriptor) }
  }

  func failed(_ failure: Failure) { send("failed \(failure.exitCode) \(oneLine(failure.message))") }

  private func send(_ line: String) {
    // The command may have been interrupted: then nobody reads, and the mount goes on.
    if let descriptor { _ = writeAll(Array((line + "\n").utf8), to: descriptor) }
  }
}
