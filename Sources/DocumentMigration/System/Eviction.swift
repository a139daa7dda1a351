import Foundation
import StorageErrors

/// Has a storage drop the local bytes of its documents, in the way that it offers itself: the control file of a docsfs
/// mount, FileManager on Apple's systems.
struct Eviction: Sendable {
  /// The docsfs mount that the tree lies in; nil when it lies in none.
  private let mountpoint: DocumentPath?

  init(_ root: DocumentPath) {
    var top = root
    while let here = try? POSIX.status(top), let above = try? POSIX.status(top.parent), here.device == above.device,
      top.parent != top
    {
      top = top.parent
    }
    mountpoint = (try? POSIX.status(Self.control(top))) == nil ? nil : top
  }

  private static func control(_ mountpoint: DocumentPath) -> DocumentPath {
    mountpoint.appending(".docsfs").appending("control")
  }

  /// nil when it is done, or else why not.
  func evict(_ path: DocumentPath) -> String? {
    #if canImport(Darwin)
      let url = URL(fileURLWithPath: String(decoding: path.bytes, as: UTF8.self))
      guard FileManager.default.isUbiquitousItem(at: url) else { return nil }
      do { try FileManager.default.evictUbiquitousItem(at: url) } catch { return "\(error.localizedDescription)" }
      return nil
    #else
      guard let mountpoint else { return nil }
      // The kernel tells a mount of a close only after it, so for a while "in use" may be ourselves.
      for _ in 0..<25 {
        do throws(Errno) {
          try Self.command("evict", path, mountpoint)
          return nil
        } catch {
          guard error == .EBUSY else { return error.message.lowercasedFirst }
          usleep(20_000)
        }
      }
      return "it is in use"
    #endif
  }

  #if !canImport(Darwin)
    private static func command(_ verb: String, _ path: DocumentPath, _ mountpoint: DocumentPath) throws(Errno) {
      let names = path.names.dropFirst(mountpoint.names.count)
      let below = Array(names.joined(separator: [0x2f]))
      let control = try Descriptor(control(mountpoint), O_WRONLY)
      // All of it in one write: the command takes effect, or fails, in that call.
      let line = Array("\(verb) \(quoted(below))\n".utf8)
      let count = line.withUnsafeBytes { write(control.fd, $0.baseAddress, $0.count) }
      guard count == line.count else { throw count < 0 ? .current : .EIO }
    }

    /// As the control file's grammar reads it back.
    private static func quoted(_ bytes: [UInt8]) -> String {
      let inner = bytes.map { byte -> String in
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): "\\" + String(UnicodeScalar(byte))
        case 0x20..<0x7f: String(UnicodeScalar(byte))
        default: "\\x" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
      }
      return "\"" + inner.joined() + "\""
    }
  #endif
}
