/// An access key, as AWS's own tools keep it. Never shown in a message.
struct S3Credentials: Sendable, Equatable {
  var accessKey: String
  var secretKey: String
  var token: String?
  /// Where they were found, for messages.
  var origin = ""
}

/// Where AWS's tools look: the environment, then a profile of `~/.aws/credentials` and `~/.aws/config`.
struct AWSSettings: Sendable {
  private var profile: [String: String]
  private let environment: @Sendable (String) -> String?
  let profileName: String

  /// `profile` nil: that of `AWS_PROFILE`, else `default`.
  init(profile: String? = nil, environment: @escaping @Sendable (String) -> String? = environmentVariable) {
    self.environment = environment
    profileName = profile ?? environment("AWS_PROFILE") ?? environment("AWS_DEFAULT_PROFILE") ?? "default"
    let home = environment("HOME") ?? ""
    let config = environment("AWS_CONFIG_FILE") ?? home + "/.aws/config"
    let credentials = environment("AWS_SHARED_CREDENTIALS_FILE") ?? home + "/.aws/credentials"
    let name = profileName
    self.profile = Self.section(of: contents(ofSmallFile: config)) { $0 == name || $0 == "profile \(name)" }
      .merging(Self.section(of: contents(ofSmallFile: credentials)) { $0 == name }) { $1 }
    isNamed = profile != nil
  }
  private let isNamed: Bool

  /// nil when there are none. A profile that was asked for by name comes before the environment.
  var credentials: S3Credentials? {
    if !isNamed, let key = environment("AWS_ACCESS_KEY_ID"), let secret = environment("AWS_SECRET_ACCESS_KEY") {
      return S3Credentials(
        accessKey: key, secretKey: secret, token: environment("AWS_SESSION_TOKEN"),
        origin: "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    }
    guard let key = profile["aws_access_key_id"], let secret = profile["aws_secret_access_key"] else { return nil }
    return S3Credentials(
      accessKey: key, secretKey: secret, token: profile["aws_session_token"],
      origin: "the profile \(profileName) in ~/.aws/credentials")
  }

  /// What to do when there are none.
  var mend: String {
    profileName == "default"
      ? "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write them into ~/.aws/credentials"
      : "write the profile \(profileName) with its keys into ~/.aws/credentials"
  }

  var region: String? { environment("AWS_REGION") ?? environment("AWS_DEFAULT_REGION") ?? profile["region"] }
  var endpoint: String? {
    environment("AWS_ENDPOINT_URL_S3") ?? environment("AWS_ENDPOINT_URL") ?? profile["endpoint_url"]
  }

  /// The `name = value` lines of the section whose name `isIt`; the last such section wins.
  static func section(of text: String, where isIt: (String) -> Bool) -> [String: String] {
    var values: [String: String] = [:]
    var isInside = false
    for line in text.split(whereSeparator: \.isNewline) {
      // What is indented belongs to the setting above, and is none of ours.
      guard let first = line.first, !first.isWhitespace, first != "#", first != ";" else { continue }
      if first == "[" {
        isInside = isIt(trimmed(line.dropFirst().prefix { $0 != "]" }))
      } else if isInside, let equals = line.firstIndex(of: "=") {
        values[trimmed(line[..<equals]).lowercased()] = trimmed(line[line.index(after: equals)...])
      }
    }
    return values
  }

  private static func trimmed(_ text: Substring) -> String {
    let start = text.drop { $0.isWhitespace }
    return start.lastIndex { !$0.isWhitespace }.map { String(start[...$0]) } ?? ""
  }
}
