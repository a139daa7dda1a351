/// How a server answers the question of what has changed (RFC 6578).
enum DAVChanges: Equatable {
  /// All up to `token`; with `isCut` there is more, which is asked for from there.
  case page(token: String, isCut: Bool)
  /// The server has forgotten what came after that token, or never knew it.
  case unknownToken
  /// It does not answer it of this folder, or not of all that is below it.
  case refused(Int)
}

extension WebDAVContainer {
  /// The state that a folder is in; nil where the server does not report changes of it.
  func syncToken(_ folder: ContainerPath, _ call: CallContext) throws(ContainerError) -> String? {
    let found = Guarded<String?>(nil)
    let question = Array(
      """
      <?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop><resourcetype/><sync-token/></prop></propfind>
      """.utf8)
    let what = "cannot ask for the state of \(folder)"
    _ = try find(folder, isFolder: true, depth: 0, asking: question, what, call) { resource in
      found.withLock { $0 = $0 ?? resource.syncToken }
    }
    return found.withLock { $0 }
  }

  /// Asks what has changed in `folder` since `token` (empty: all there is), in what is below it too if `isDeep`.
  /// `each` gets the names of what has changed, with the status of what is gone or cannot be told of; it has got all of
  /// them only when this returns a page. What is cut short or no multistatus is an error.
  func changes(
    in folder: ContainerPath, since token: String, isDeep: Bool, _ call: CallContext,
    _ each: @escaping ([[UInt8]], Int?) -> Void
  ) throws(ContainerError) -> DAVChanges {
    let what = "cannot ask for changes in \(folder)"
    var request = client.request("REPORT", folder, isFolder: true, what)
    request.headers = [("Depth", "0"), ("Content-Type", "application/xml; charset=utf-8")]
    request.body = .bytes(
      Array(
        """
        <?xml version="1.0" encoding="utf-8"?><sync-collection xmlns="DAV:"><sync-token>\(escaped(token))</sync-token>\
        <sync-level>\(isDeep ? "infinite" : "1")</sync-level><prop><getetag/></prop></sync-collection>
        """.utf8))
    let asked = address.names + folder.names.map(\.bytes)
    let isCut = Guarded(false)
    var reply = try DAVMultistatus(what) { resource, status in
      // Said of what was asked for: there is more than the server gives at once.
      if status == 507, resource.names == asked { isCut.withLock { $0 = true } } else { each(resource.names, status) }
    } _: { resource in
      each(resource.names, nil)
    }
    let response = try client.stream(request, call) { (response) throws(ContainerError) in
      response.status == 207
    } sink: { piece throws(ContainerError) in
      try reply.feed(piece)
      call.progress()
    }
    guard response.status == 207 else { return try refusal(response, what) }
    try reply.finish()
    guard let next = reply.syncToken else {
      throw ContainerError(.inconsistent, "\(what): the reply has no sync-token")
    }
    return .page(token: next, isCut: isCut.withLock { $0 })
  }

  private func refusal(_ response: HTTPResponse, _ what: String) throws(ContainerError) -> DAVChanges {
    switch response.status {
    case 400, 403, 404, 405, 409, 410, 412, 415, 422, 501, 507:
      let events = (try? XMLReader.read(response.body, what)) ?? []
      return events.contains(.start("DAV:|valid-sync-token")) ? .unknownToken : .refused(response.status)
    default: throw client.failure(response, what)
    }
  }

  /// As a text in XML.
  private func escaped(_ text: String) -> String {
    text.reduce(into: "") { escaped, character in
      switch character {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      default: escaped.append(character)
      }
    }
  }
}
