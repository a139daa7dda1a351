/// Whose numbers an errno is written in.
public enum Platform: String, CaseIterable, Codable, Sendable {
  /// macOS, iOS and the others on XNU.
  case darwin
  /// Linux.
  case linux

  #if canImport(Darwin)
    /// The system that this program runs on.
    public static let current = Platform.darwin
  #else
    /// The system that this program runs on.
    public static let current = Platform.linux
  #endif
}
