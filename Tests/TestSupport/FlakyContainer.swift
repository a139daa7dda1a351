import Containers

/// A container whose calls fail as told: before they do anything, or after they have done it.
package final class FlakyContainer: Container {
  package enum Failure: Sendable {
    case before(ContainerError.Code)
    /// The call was carried out, but its answer was lost.
    case after(ContainerError.Code)
  }
  private struct State {
    var failures: [Failure] = []
    var calls: [String] = []
    var cutReadsAfter: Int?
  }

  private let base: any Container
  private let state = Guarded(State())

  package init(_ base: any Container) { self.base = base }

  /// The next calls, other than looks at items, fail so; those after them succeed.
  package func fail(_ failures: [Failure]) { state.withLock { $0.failures = failures } }
  /// The next read fails after so many pieces.
  package func cutRead(after pieces: Int) { state.withLock { $0.cutReadsAfter = pieces } }
  /// The calls since the last time.
  package func takeCalls() -> [String] {
    state.withLock { state in
      defer { state.calls = [] }
      return state.calls
    }
  }

  private func perform<R>(_ name: String, _ body: () throws(ContainerError) -> R) throws(ContainerError) -> R {
    let failure = state.withLock { state -> Failure? in
      state.calls.append(name)
      return state.failures.isEmpty ? nil : state.failures.removeFirst()
    }
    switch failure {
    case nil: return try body()
    case .before(let code): throw ContainerError(code, "\(name) failed before")
    case .after(let code):
      _ = try body()
      throw ContainerError(code, "\(name) failed after")
    }
  }

  package var url: String { base.url }
  package var traits: ContainerTraits { base.traits }
  package func checksum(of version: Version) -> ContentDigest? { base.checksum(of: version) }

  package func identify(create: Bool, _ call: CallContext) throws(ContainerError) -> ContainerID {
    try perform("identify") { () throws(ContainerError) in try base.identify(create: create, call) }
  }
  package func tryOut(_ call: CallContext) throws(ContainerError) { try base.tryOut(call) }
  package func list(_ folder: ContainerPath, _ call: CallContext) throws(ContainerError) -> [RemoteItem] {
    try perform("list") { () throws(ContainerError) in try base.list(folder, call) }
  }
  package func item(at path: ContainerPath, _ call: CallContext) throws(ContainerError) -> RemoteItem? {
    state.withLock { $0.calls.append("item") }
    return try base.item(at: path, call)
  }
  package func read(
    _ path: ContainerPath, version: Version, range: Range<Int64>, _ call: CallContext,
    sink: (UnsafeRawBufferPointer) throws(ContainerError) -> Void
  ) throws(ContainerError) {
    try perform("read \(range)") { () throws(ContainerError) in
      var pieces = 0
      try base.read(path, version: version, range: range, call) { bytes throws(ContainerError) in
        if state.withLock({ $0.cutReadsAfter }) == pieces {
          state.withLock { $0.cutReadsAfter = nil }
          throw ContainerError(.unreachable, "the line is cut")
        }
        pieces += 1
        try sink(bytes)
      }
    }
  }
  package func put(
    _ path: ContainerPath, from source: any UploadSource, attributes: RemoteAttributes,
    if condition: Precondition, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try perform("put") { () throws(ContainerError) in
      try base.put(path, from: source, attributes: attributes, if: condition, call)
    }
  }
  package func makeFolder(_ path: ContainerPath, attributes: RemoteAttributes, _ call: CallContext)
    throws(ContainerError) -> RemoteItem
  {
    try perform("makeFolder") { () throws(ContainerError) in
      try base.makeFolder(path, attributes: attributes, call)
    }
  }
  package func makeSymlink(
    _ path: ContainerPath, target: [UInt8], attributes: RemoteAttributes, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try perform("makeSymlink") { () throws(ContainerError) in
      try base.makeSymlink(path, target: target, attributes: attributes, call)
    }
  }
  package func rename(
    _ path: ContainerPath, to target: ContainerPath, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try perform("rename") { () throws(ContainerError) in
      try base.rename(path, to: target, version: version, call)
    }
  }
  package func remove(_ path: ContainerPath, kind: ItemKind, version: Version?, _ call: CallContext)
    throws(ContainerError)
  {
    try perform("remove") { () throws(ContainerError) in
      try base.remove(path, kind: kind, version: version, call)
    }
  }
  package func setAttributes(
    _ path: ContainerPath, _ attributes: RemoteAttributes, version: Version?, _ call: CallContext
  ) throws(ContainerError) -> RemoteItem {
    try perform("setAttributes") { () throws(ContainerError) in
      try base.setAttributes(path, attributes, version: version, call)
    }
  }
  package func quota(_ call: CallContext) throws(ContainerError) -> Quota? {
    try perform("quota") { () throws(ContainerError) in try base.quota(call) }
  }
  package func changeFeed(_ handler: @escaping @Sendable ([ChangeHint]) -> Void) -> (any ChangeFeed)? {
    base.changeFeed(handler)
  }
}
