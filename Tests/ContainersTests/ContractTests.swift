import Faults
import TestSupport
import XCTest

@testable import Containers

final class ContractTests: XCTestCase {
  func testDirectoryContainer() {
    run { DirectoryContainer(path: $0) }
  }

  func testDirectoryContainerWithoutExchange() {
    run(replacesAtOnce: false) { DirectoryContainer(path: $0, abilities: .init(exchanges: false)) }
  }

  func testDirectoryContainerWithPlainRenamesOnly() {
    run(replacesAtOnce: false) {
      DirectoryContainer(path: $0, abilities: .init(exchanges: false, refusesToReplace: false))
    }
  }

  func testThrottledContainer() {
    run { ThrottledContainer(DirectoryContainer(path: $0), latency: 0.0002, rate: 200 << 20) }
  }

  func testMeasuredContainer() {
    run { MeasuredContainer(DirectoryContainer(path: $0)) }
  }

  func testRetryingContainer() {
    run { RetryingContainer(DirectoryContainer(path: $0)) }
  }

  func testRetryingContainerOverAThrottledOne() {
    run { RetryingContainer(ThrottledContainer(DirectoryContainer(path: $0), latency: 0, rate: nil)) }
  }

  func testFaultingContainer() {
    run { FaultingContainer(DirectoryContainer(path: $0)) }
  }

  /// What a mount has between its volume and a folder, on a bad day.
  func testRetryingContainerOverAFaultingOne() {
    run { path in
      let cloud = FaultingContainer(DirectoryContainer(path: path))
      var conditions = CloudConditions()
      conditions.status = 503
      conditions.times = 2
      cloud.conditions = conditions
      return RetryingContainer(cloud, .init(firstPause: 0.001, longestPause: 0.002))
    }
  }

  /// Over a container that would hold symlinks itself, of which it makes none.
  func testLinkFileContainer() {
    run { LinkFileContainer(DirectoryContainer(path: $0)) }
  }

  private func run(replacesAtOnce: Bool = true, _ open: @escaping ([UInt8]) -> any Container) {
    ContainerContract(holdsAnyBytes: true, replacesAtOnce: replacesAtOnce) {
      let folder = try TemporaryFolder()
      let path = Array(folder.path.utf8)
      return .init(open(path), other: open(path), keepAlive: folder)
    }.run()
  }
}
