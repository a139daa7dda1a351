import CLinux

/// A thread of its own, for what blocks.
enum BackgroundThread {
  private final class Box {
    let body: @Sendable () -> Void
    let name: String
    init(_ name: String, _ body: @escaping @Sendable () -> Void) {
      self.name = name
      self.body = body
    }
  }

  /// False when the system gives none.
  @discardableResult
  static func start(_ name: String, _ body: @escaping @Sendable () -> Void) -> Bool {
    let box = Unmanaged.passRetained(Box(name, body))
    var thread = pthread_t()
    let result = pthread_create(&thread, nil, runThread, box.toOpaque())
    if result != 0 {
      box.release()
      return false
    }
    pthread_detach(thread)
    return true
  }

  fileprivate static func run(_ argument: UnsafeMutableRawPointer) {
    let box = Unmanaged<Box>.fromOpaque(argument).takeRetainedValue()
    lx_thread_name(box.name)
    box.body()
  }
}

private func runThread(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
  if let argument { BackgroundThread.run(argument) }
  return nil
}
