/// What an HTTP status that is no success means for a container: the one place where statuses are judged.
///
/// A container that knows more (a 404 for an item, a 409 of MKCOL) looks at the status before it asks here.
package enum HTTPStatus {
  /// `what` is what was asked for, "cannot upload a.txt"; `retryAfter` in seconds, as the server said.
  package static func error(_ status: Int, _ what: String, retryAfter: Double? = nil) -> ContainerError {
    let (code, why) = meaning(status)
    return ContainerError(code, "\(what): \(why) (HTTP \(status))", retryAfter: retryAfter)
  }

  private static func meaning(_ status: Int) -> (ContainerError.Code, String) {
    switch status {
    case 401, 407: (.permissionDenied, "the credentials are missing, wrong or out of date; renew them")
    case 402, 403: (.permissionDenied, "permission denied by the server")
    case 404, 410: (.notFound, "not found")
    case 405, 415, 501: (.notRepresentable, "the server does not support this")
    case 409, 412: (.preconditionFailed, "it was changed by somebody else")
    case 408: (.timedOut, "the server waited too long for the request")
    case 413: (.notRepresentable, "too large for the server")
    case 414: (.notRepresentable, "the name is too long for the server")
    case 423: (.busy, "locked by somebody else")
    case 425, 429, 503: (.busy, "the server wants to be asked later")
    case 507: (.outOfSpace, "no room is left")
    case 500...: (.busy, "the server failed")
    case 300..<400: (.inconsistent, "the server points elsewhere")
    default: (.inconsistent, "the server refused the request")
    }
  }
}
