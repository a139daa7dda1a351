import CCrypto
import Glibc

// Files in parts. What a process that ended had sent is found at the store and not sent again.

extension S3Container {
  static let partsAtOnce = 4
  private static let abandonedAfter = 7 * 86_400

  func putParts(_ upload: S3Upload, _ call: CallContext) throws(ContainerError) -> Version {
    tidy(call)
    let plan = limits.plan(upload.source.size)
    let begun = try resume(upload, plan, call)
    let id =
      if let begun { begun.id } else {
        try begin(upload.key, S3Metadata.headers(upload.attributes), upload.what, call)
      }
    let sent = begun?.sent ?? [:]
    do throws(ContainerError) {
      let parts = try send(upload, plan, id, sent, call)
      try check(upload, call)
      let completion = Completion(key: upload.key, id: id, parts: parts, conditions: upload.conditions)
      return Version(
        Array(try complete(completion, upload.what, call) { response in refused(response, upload) }.utf8))
    } catch {
      // What the next attempt goes on with stays; what it cannot use goes.
      let isOver: Bool =
        switch error.code {
        case .preconditionFailed, .inconsistent, .notRepresentable: true
        case .cancelled: !call.isCancelled
        default: false
        }
      if isOver || isEmpty(id, upload) { abort(upload.key, id, upload.what) }
      throw error
    }
  }

  /// Whether no part has arrived: by nothing could the next attempt know it for its own.
  private func isEmpty(_ id: String, _ upload: S3Upload) -> Bool {
    let pending = Pending(key: upload.key, id: id)
    return (try? parts(of: pending, upload.what, CallContext(timeout: 10)))?.isEmpty ?? false
  }

  /// The id of a new object in parts.
  func begin(
    _ key: [UInt8], _ headers: [(name: String, value: String)], _ what: String, _ call: CallContext
  ) throws(ContainerError) -> String {
    var request = S3Client.Request(method: "POST", key: key, query: [("uploads", "")], what: what)
    request.headers = headers
    let response = try client.require(request, call)
    guard let id = try text(of: "UploadId", in: response, what) else {
      throw ContainerError(.inconsistent, "\(what): the store begins no upload in parts")
    }
    return id
  }

  /// Sends the parts that are not there yet; the ETags of all.
  private func send(
    _ upload: S3Upload, _ plan: PartPlan, _ id: String, _ sent: [Int: PartPlan.Sent], _ call: CallContext
  ) throws(ContainerError) -> [String] {
    let etags = Guarded([String](repeating: "", count: plan.count))
    let digests = PartDigests(upload, plan)
    try inParallel(plan.count, width: Self.partsAtOnce) { index throws(ContainerError) in
      let digest = try digests.next(index, call)
      if let part = sent[index + 1], part.etag == hex(digest.md5), part.size == plan.range(index).count {
        return etags.withLock { $0[index] = part.etag }
      }
      var request = S3Client.Request(
        method: "PUT", key: upload.key, query: [("partNumber", "\(index + 1)"), ("uploadId", id)], what: upload.what)
      request.body = .source(upload.source, plan.range(index))
      request.payload = hex(digest.sha256)
      request.headers = [digest.header]
      let response = try self.client.require(request, call)
      guard let etag = response["etag"].map(S3Page.bare) else {
        throw ContainerError(.inconsistent, "\(upload.what): the store tells no ETag")
      }
      etags.withLock { $0[index] = etag }
      call.progress()
    }
    try upload.prove(try digests.whole())
    return etags.withLock { $0 }
  }

  /// All parts of an object, by their ETags, and what must hold when they become it.
  struct Completion {
    var key: [UInt8]
    var id: String
    var parts: [String]
    var conditions: [(name: String, value: String)]
  }

  /// Makes an object of its parts; its ETag. What is no success is what `refused` says.
  func complete(
    _ completion: Completion, _ what: String, _ call: CallContext, refused: (HTTPResponse) -> ContainerError
  ) throws(ContainerError) -> String {
    let parts = completion.parts.enumerated().map {
      "<Part><PartNumber>\($0.offset + 1)</PartNumber><ETag>\"\($0.element)\"</ETag></Part>"
    }
    var request = S3Client.Request(
      method: "POST", key: completion.key, query: [("uploadId", completion.id)], what: what)
    request.headers = completion.conditions
    request.body = .bytes(Array("<CompleteMultipartUpload>\(parts.joined())</CompleteMultipartUpload>".utf8))
    let response = try client.send(request, call)
    // A store that has begun to answer before it knew says so in the body.
    guard response.isSuccess, S3Failure(response.body).code.isEmpty else { throw refused(response) }
    guard let etag = try text(of: "ETag", in: response, what) else {
      throw ContainerError(.inconsistent, "\(what): the store tells no ETag")
    }
    return S3Page.bare(etag)
  }

  /// The text of the first element of that name in a reply.
  func text(of name: String, in response: HTTPResponse, _ what: String) throws(ContainerError) -> String? {
    for case .end(let found, let text) in try XMLReader.read(response.body, what) where localName(found) == name {
      return text
    }
    return nil
  }

  func abort(_ key: [UInt8], _ id: String, _ what: String) {
    let request = S3Client.Request(method: "DELETE", key: key, query: [("uploadId", id)], what: what)
    _ = try? client.send(request, CallContext(timeout: 10))
  }

  // MARK: - What is there already

  /// An upload of the same file that has begun with the same bytes.
  private func resume(_ upload: S3Upload, _ plan: PartPlan, _ call: CallContext) throws(ContainerError)
    -> (id: String, sent: [Int: PartPlan.Sent])?
  {
    for pending in try pending(upload.key, upload.what, call) where pending.key == upload.key {
      // One that has ended meanwhile is none to go on with.
      guard let sent = try? parts(of: pending, upload.what, call),
        let (number, part) = sent.min(by: { $0.key < $1.key }), (1...plan.count).contains(number)
      else { continue }
      let range = plan.range(number - 1)
      guard part.size == range.count, try hex(digest(of: upload.source, range, call).md5) == part.etag else {
        continue
      }
      return (pending.id, sent)
    }
    return nil
  }

  private struct Pending {
    var key: [UInt8] = []
    var id = ""
    var begun: Int?
  }

  /// Uploads in parts whose keys begin with `prefix`, that have not ended.
  private func pending(_ prefix: [UInt8], _ what: String, _ call: CallContext) throws(ContainerError) -> [Pending] {
    var request = S3Client.Request(method: "GET", what: what)
    request.query = [("uploads", ""), ("prefix", String(decoding: prefix, as: UTF8.self))]
    let response = try client.send(request, call, limit: 4 << 20)
    // A store need not have this.
    guard response.isSuccess else { return [] }
    var found: [Pending] = []
    var current = Pending()
    for event in try XMLReader.read(response.body, what) {
      guard case .end(let name, let text) = event else { continue }
      switch localName(name) {
      case "Key": current.key = Array(text.utf8)
      case "UploadId": current.id = text
      case "Initiated": current.begun = seconds(ofISODate: text)
      case "Upload":
        found.append(current)
        current = Pending()
      default: break
      }
    }
    return found
  }

  /// What has arrived of an upload.
  private func parts(of upload: Pending, _ what: String, _ call: CallContext) throws(ContainerError) -> [Int: PartPlan
    .Sent]
  {
    var parts: [Int: PartPlan.Sent] = [:]
    var after = 0
    while true {
      var request = S3Client.Request(method: "GET", key: upload.key, what: what)
      request.query = [("uploadId", upload.id), ("part-number-marker", "\(after)")]
      let response = try client.send(request, call, limit: 4 << 20)
      guard response.isSuccess else { throw client.failure(response, what) }
      var (number, size, etag, isTruncated, last) = (0, Int64(0), "", false, after)
      for case .end(let name, let text) in try XMLReader.read(response.body, what) {
        switch localName(name) {
        case "PartNumber": number = Int(text) ?? 0
        case "Size": size = Int64(text) ?? -1
        case "ETag": etag = S3Page.bare(text)
        case "Part":
          parts[number] = .init(size: size, etag: etag)
          last = max(last, number)
        case "IsTruncated": isTruncated = text == "true"
        default: break
        }
      }
      guard isTruncated, last > after else { return parts }
      after = last
    }
  }

  /// Once for each process: what nobody goes on with for a week is taken away, parts and trials of the store's rules.
  private func tidy(_ call: CallContext) {
    let isTidy = known.withLock { known in
      defer { known.isTidy = true }
      return known.isTidy
    }
    guard !isTidy else { return }
    let what = "cannot tidy \(url)"
    let oldest = Int(time(nil)) - Self.abandonedAfter
    for upload in (try? pending(address.folderKey(.root), what, call)) ?? [] {
      if let begun = upload.begun, begun < oldest { abort(upload.key, upload.id, what) }
    }
    if let page = try? page(prefix: probeKey, delimiter: false, limit: S3Container.pageSize, what, call) {
      try? delete(page.objects.filter { ($0.changed ?? oldest) < oldest }, what, call)
    }
  }
}

/// Where an object is cut; tests make it less.
struct S3Limits: Sendable {
  /// A larger object is copied in parts: a store copies 5 GiB in one piece at most, and one that takes long over it
  /// says nothing meanwhile.
  var wholeCopy: Int64 = 256 << 20
  /// The smallest part; stores take none below 5 MiB.
  var leastPart: Int64 = 8 << 20
  /// A store takes 10,000 parts.
  var mostParts: Int64 = 9_000

  func plan(_ size: Int64) -> PartPlan { PartPlan(size: size, least: leastPart, most: mostParts) }
}

/// How a file is cut.
struct PartPlan: Sendable {
  struct Sent: Sendable {
    var size: Int64
    var etag: String
  }
  let size: Int64
  let partSize: Int64

  init(size: Int64, least: Int64, most: Int64) {
    self.size = size
    let unit: Int64 = 1 << 20
    partSize = max(least, (size / most / unit + 1) * unit)
  }

  var count: Int { Int((size + partSize - 1) / partSize) }
  /// Of the part at `index`, from 0.
  func range(_ index: Int) -> Range<Int64> {
    let start = Int64(index) * partSize
    return start..<min(size, start + partSize)
  }
}

struct PartDigest: Sendable {
  var sha256: [UInt8]
  var md5: [UInt8]

  /// A store refuses a body that does not match it.
  var header: (name: String, value: String) { ("Content-MD5", base64(md5)) }
}

func digest(
  of source: any UploadSource, _ range: Range<Int64>, _ call: CallContext, also whole: Digest? = nil
) throws(ContainerError) -> PartDigest {
  let (sha256, md5) = (Digest(), Digest(.md5))
  let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 4_096)
  defer { room.deallocate() }
  var at = range.lowerBound
  while at < range.upperBound {
    try call.check("cannot read what is to be uploaded")
    let wanted = Int(min(Int64(room.count), range.upperBound - at))
    let count = try source.read(at: at, into: UnsafeMutableRawBufferPointer(rebasing: room.prefix(wanted)))
    guard count > 0 else { throw ContainerError(.cancelled, "it became shorter while it was uploaded") }
    let piece = UnsafeRawBufferPointer(rebasing: room.prefix(count))
    sha256.update(piece)
    md5.update(piece)
    whole?.update(piece)
    at += Int64(count)
  }
  return PartDigest(sha256: sha256.finish(), md5: md5.finish())
}

/// The digests of all parts, each taken when its turn comes, so that that of the whole comes from the same bytes.
private final class PartDigests: @unchecked Sendable {  // `running` is used by the part whose turn it is
  private let upload: S3Upload
  private let plan: PartPlan
  private let running = Digest()
  /// The part whose turn it is; nil: one has failed.
  private let turn = Guarded<Int?>(0)

  init(_ upload: S3Upload, _ plan: PartPlan) {
    self.upload = upload
    self.plan = plan
  }

  /// Waits until the parts before `index` have been read.
  func next(_ index: Int, _ call: CallContext) throws(ContainerError) -> PartDigest {
    while !turn.wait(until: Clock.now() &+ 50_000_000, { $0 == nil || $0 == index }) { try call.check(upload.what) }
    guard turn.withLock({ $0 }) == index else {
      throw ContainerError(.cancelled, "\(upload.what): another part failed")
    }
    do throws(ContainerError) {
      let digest = try digest(of: upload.source, plan.range(index), call, also: running)
      turn.signal { $0 = index + 1 }
      return digest
    } catch {
      turn.signal { $0 = nil }
      throw error
    }
  }

  func whole() throws(ContainerError) -> [UInt8] {
    guard turn.withLock({ $0 }) == plan.count else {
      throw ContainerError(.cancelled, "\(upload.what): not all parts were read")
    }
    return running.finish()
  }
}

func base64(_ bytes: [UInt8]) -> String {
  var text = [UInt8](repeating: 0, count: bytes.count / 3 * 4 + 5)
  let count = EVP_EncodeBlock(&text, bytes, Int32(bytes.count))
  return String(decoding: text.prefix(Int(count)), as: UTF8.self)
}
