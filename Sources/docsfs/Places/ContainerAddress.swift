import Containers

/// Which container a command means: the same from every working directory, and by whatever symlinks it is named.
struct ContainerAddress {
  let url: ContainerURL
  /// What is shown, and kept in the state directory; it opens the same container again.
  let text: String
  /// The folder of a directory container, resolved as far as it exists; nil: a cloud's.
  let folder: FilePath?
  private(set) var isDefault = false

  /// Names the state directory: without what only changes how the container is reached (`?latency=`).
  var identity: String { url.canonical }

  static func standard() throws(Failure) -> ContainerAddress {
    var address = ContainerAddress(try UserDirectories.defaultContainer())
    address.isDefault = true
    return address
  }

  /// As `--container` takes it.
  init(_ text: [UInt8]) throws(Failure) {
    do {
      let parsed = try ContainerURL(text)
      guard let path = parsed.folder else {
        (url, self.text, folder) = (parsed, parsed.text, nil)
        return
      }
      let plain = ContainerAddress(FilePath(path))
      guard parsed != ContainerURL(path: path), let mark = text.firstIndex(of: UInt8(ascii: "?")) else {
        self = plain
        return
      }
      self.text = plain.identity + String(decoding: text[mark...], as: UTF8.self)
      url = try ContainerURL(self.text)
      folder = plain.folder
    } catch { throw Failure(error.message, error.exitCode) }
  }

  private init(_ path: FilePath) {
    let folder = (try? path.resolved()) ?? path.madeAbsolute
    self.folder = folder
    url = ContainerURL(path: folder.bytes)
    text = folder.string ?? url.canonical
  }

  /// Opens it; nothing is made here.
  func open() throws(Failure) -> any Container {
    do { return try url.open() } catch { throw Failure(error.message, error.exitCode) }
  }
}
