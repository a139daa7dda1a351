import CLinux
import Foundation

/// A folder of its own for a test, removed with everything in it when the test drops it.
package final class TemporaryFolder: Sendable {
  package let path: String

  package init() throws {
    var template = Array((NSTemporaryDirectory() + "/docsfs-test-XXXXXX").utf8CString)
    guard mkdtemp(&template) != nil else { throw POSIXError(.EIO) }
    path = String(decoding: template.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  deinit { remove() }

  /// For a teardown block, which lives as long as its test case: for ever.
  package func remove() { try? FileManager.default.removeItem(atPath: path) }

  package func write(_ name: String, _ text: String) throws {
    try Data(text.utf8).write(to: URL(fileURLWithPath: path + "/" + name))
  }

  package func read(_ name: String) throws -> String {
    String(decoding: try Data(contentsOf: URL(fileURLWithPath: path + "/" + name)), as: UTF8.self)
  }

  package func names(_ folder: String = "") throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: path + "/" + folder).sorted()
  }
}

/// Runs `body` on `count` threads at once and waits for all of them.
package func onThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
  let threads = (0..<count).map { number in
    let done = DispatchSemaphore(value: 0)
    let thread = Thread {
      body(number)
      done.signal()
    }
    thread.start()
    return done
  }
  for done in threads { done.wait() }
}
