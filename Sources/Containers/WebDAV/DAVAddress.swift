import Glibc

/// Where a WebDAV container is: a folder of a server.
struct DAVAddress: Sendable, Equatable {
  /// Scheme, host and port, as given.
  var server: String
  /// The names of the folder, decoded.
  var names: [[UInt8]]

  /// An item's place in a URL, percent-encoded; a folder's ends with a slash.
  func path(_ path: ContainerPath, isFolder: Bool = false) -> String {
    let text = (names + path.names.map(\.bytes)).map { percentEncoded(path: $0) }.joined(separator: "/")
    return "/" + text + (isFolder && !text.isEmpty ? "/" : "")
  }

  var url: String { "webdav+" + server + path(.root, isFolder: true) }
  /// Without port.
  var host: String {
    let authority = server.drop { $0 != "/" }.dropFirst(2)
    return authority.hasPrefix("[")
      ? String(authority.prefix { $0 != "]" }.dropFirst()) : String(authority.prefix { $0 != ":" })
  }
}

/// Who asks: a bearer token, or a user and a password, whichever way the server wants them.
struct DAVCredentials: Sendable, Equatable {
  var user = ""
  var password = ""
  var token: String?
  /// Where they were found, for messages.
  var origin = ""

  /// `DOCSFS_WEBDAV_TOKEN`, or `DOCSFS_WEBDAV_USER` and `DOCSFS_WEBDAV_PASSWORD`, or the entry of `host` in `~/.netrc`
  /// (or the file that `NETRC` names); nil when there are none.
  static func find(host: String, environment: (String) -> String? = environmentVariable) -> DAVCredentials? {
    if let token = environment("DOCSFS_WEBDAV_TOKEN") {
      return DAVCredentials(token: token, origin: "DOCSFS_WEBDAV_TOKEN")
    }
    if let user = environment("DOCSFS_WEBDAV_USER") {
      return DAVCredentials(
        user: user, password: environment("DOCSFS_WEBDAV_PASSWORD") ?? "",
        origin: "DOCSFS_WEBDAV_USER and DOCSFS_WEBDAV_PASSWORD")
    }
    let named = environment("NETRC")
    var found = netrc(contents(ofSmallFile: named ?? (environment("HOME") ?? "") + "/.netrc"), host: host)
    found?.origin = named ?? "~/.netrc"
    return found
  }

  /// The first entry for `host`, or the default one behind which none is looked for.
  static func netrc(_ text: String, host: String) -> DAVCredentials? {
    var words = text.split(separator: "\n", omittingEmptySubsequences: false)
      .filter { !$0.drop { $0.isWhitespace }.hasPrefix("#") }.joined(separator: "\n").split { $0.isWhitespace }[...]
    var found: DAVCredentials?
    while let word = words.popFirst() {
      switch word {
      case "machine", "default":
        if found != nil { return found }
        if word == "default" || words.popFirst().map(String.init) == host { found = DAVCredentials() }
      case "login": if let user = words.popFirst(), found != nil { found?.user = String(user) }
      case "password": if let password = words.popFirst(), found != nil { found?.password = String(password) }
      case "account": _ = words.popFirst()
      // A macro ends at an empty line, which is lost here: nothing behind it is trusted.
      case "macdef": return found
      default: break
      }
    }
    return found
  }
}
