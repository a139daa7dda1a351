extension [UInt8] {
  /// `withUnsafeBytes` for what throws a container's error: the standard library's loses its type.
  package func give(to body: (UnsafeRawBufferPointer) throws(ContainerError) -> Void) throws(ContainerError) {
    let result: Result<Void, ContainerError> = withUnsafeBytes { bytes in
      do throws(ContainerError) { return .success(try body(bytes)) } catch { return .failure(error) }
    }
    try result.get()
  }
}
