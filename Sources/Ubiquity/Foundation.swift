#if canImport(Darwin)
  // Everything that this module offers on Linux is Foundation's own there: `import Ubiquity` stands for both.
  @_exported import Foundation
#endif
