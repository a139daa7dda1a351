import TestSupport
import XCTest

@testable import Containers

/// A fresh prefix of a real store's bucket, and how to reach it.
struct S3Place {
  let url: ContainerURL
  let settings: @Sendable () -> AWSSettings
  let prefix: String

  init(_ kind: CloudServer.Kind) throws {
    let server = try CloudServer.shared(kind)
    prefix = "t-\(ContainerID.random().text.prefix(12))"
    url = try ContainerURL(server.container(prefix))
    let values = server.values
    settings = { AWSSettings { values[$0] } }
  }

  func open() throws -> S3Container {
    guard case .s3(let address, _) = url.place else { throw XCTSkip("no S3 URL") }
    return S3Container(address, settings: settings)
  }

  /// The store as another program sees it.
  func client() throws -> S3Client { try open().client }
}

final class S3ContractTests: XCTestCase {
  func testSeaweedFS() throws { try run(.s3) }
  func testMoto() throws { try run(.moto) }

  private func run(_ kind: CloudServer.Kind) throws {
    _ = try S3Place(kind)
    ContainerContract(holdsAnyBytes: false) {
      let place = try S3Place(kind)
      return .init(LinkFileContainer(try place.open()), other: LinkFileContainer(try place.open()))
    }.run()
  }
}
