@testable import Containers

extension S3Container {
  /// Uploads in parts that were begun below the container's folder, and neither ended nor given up.
  func pendingUploads() throws -> Int {
    let prefix = String(decoding: address.folderKey(.root), as: UTF8.self)
    let response = try client.require(
      .init(method: "GET", query: [("uploads", ""), ("prefix", prefix)], what: "list uploads"), CallContext())
    return try XMLReader.read(response.body, "list uploads").count {
      if case .start(let name) = $0 { localName(name) == "Upload" } else { false }
    }
  }
}
