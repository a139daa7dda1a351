import CLinux
import Containers
import StorageErrors

/// Which container a command means: a URL that is the same from every working directory.
struct ContainerAddress: Equatable {
  /// What `ContainerURL` opens.
  var url: String
  /// Without what only changes how it is reached (`?latency=`): names the state directory.
  var identity: String
  /// The folder of a directory container, resolved as far as it exists.
  var folder: FilePath?
  var isDefault = false

  static func standard() throws(Failure) -> ContainerAddress {
    let folder = try UserDirectories.defaultContainer()
    var address = try ContainerAddress(folder: folder, query: "", workingDirectory: .workingDirectory)
    address.isDefault = true
    return address
  }

  /// A path, `dir:PATH[?…]`, or another scheme's URL, which is left as it is.
  init(_ text: [UInt8], workingDirectory: FilePath = .workingDirectory) throws(Failure) {
    guard let url = String(validating: text, as: UTF8.self), !url.isEmpty else {
      throw .usage("the container's URL is empty or not UTF-8")
    }
    let scheme = Self.scheme(of: url)
    if let scheme, scheme != "dir" {
      self.init(url: url, identity: String(url.prefix { $0 != "?" }))
      return
    }
    let rest = scheme == nil ? url : String(url.dropFirst("dir:".count))
    // A plain path has no query: `?` is a character like others there.
    let path = scheme == nil ? rest : String(rest.prefix { $0 != "?" })
    let query = String(rest.dropFirst(path.count))
    guard !path.isEmpty else { throw .usage("\(url) names no folder; write dir:PATH") }
    try self.init(folder: Self.expandingHome(path), query: query, workingDirectory: workingDirectory)
  }

  private init(url: String, identity: String, folder: FilePath? = nil) {
    self.url = url
    self.identity = identity
    self.folder = folder
  }

  private init(folder: FilePath, query: String, workingDirectory: FilePath) throws(Failure) {
    let absolute = folder.isAbsolute ? folder : workingDirectory.appending(folder.bytes)
    let resolved = (try? absolute.resolved()) ?? absolute
    guard let text = resolved.string else { throw .usage("the container's path \(resolved) is not UTF-8") }
    self.init(url: query.isEmpty ? text : "dir:" + text + query, identity: "dir:" + text, folder: resolved)
  }

  /// Letters, digits and `+` before the first `:`; a path with a slash before it has none.
  private static func scheme(of url: String) -> String? {
    guard let colon = url.firstIndex(of: ":") else { return nil }
    let name = url[..<colon]
    let isScheme =
      name.first?.isLetter == true
      && name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "+") }
    return isScheme ? String(name) : nil
  }

  private static func expandingHome(_ path: String) throws(Failure) -> FilePath {
    if path == "~" { return try UserDirectories.home() }
    return path.hasPrefix("~/")
      ? try UserDirectories.home().appending(String(path.dropFirst(2))) : FilePath(path)
  }

  /// Without what stands between `//` and `@`.
  var withoutSecrets: String {
    guard let start = url.firstRange(of: "//")?.upperBound else { return url }
    let host = url[start...].prefix { $0 != "/" }
    guard let at = host.lastIndex(of: "@") else { return url }
    return String(url[..<start]) + String(url[url.index(after: at)...])
  }

  /// Opens it; nothing is made here.
  func open() throws(Failure) -> any Container {
    do {
      return try ContainerURL(url).open()
    } catch {
      throw Failure(error.message, Self.exitCode(error.code))
    }
  }

  private static func exitCode(_ code: ContainerError.Code) -> Int32 {
    switch code {
    case .notFound, .unreachable, .identityMissing: ExitCode.unavailable
    case .timedOut: ExitCode.tryAgain
    case .notRepresentable: ExitCode.usage
    case .preconditionFailed, .versionChanged, .notEmpty, .permissionDenied, .outOfSpace, .readOnly,
      .cancelled,
      .inconsistent, .system:
      ExitCode.failed
    }
  }
}
