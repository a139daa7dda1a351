import Containers
import Faults
import Glibc
import StorageErrors

// A folder's first listing, which somebody waits for.
extension Volume {
  /// Asks the container for the entries of a folder, and calls `again` when they are there.
  func list(_ id: ItemID, _ wait: @escaping Interruptible, _ again: @escaping @Sendable (Errno?) -> Void) {
    let interruption = wait()
    enum Next {
      case again(Errno?)
      case wait(UInt64, isFirst: Bool)
    }
    let next = locked { state -> Next in
      guard let item = state.items[id], let folder = item.folder else { return .again(nil) }
      if item.record.flags.contains(.listed) { return .again(nil) }
      guard state.link.isConnected, !state.isStopping else { return .again(.EIO) }
      state.nextWaiter += 1
      folder.listWaiters.append(.init(id: state.nextWaiter, since: Clock.now(), finish: again))
      state.listing.insert(id)
      defer { folder.isListing = true }
      return .wait(state.nextWaiter, isFirst: !folder.isListing)
    }
    switch next {
    case .again(let errno): again(errno)
    case .wait(let waiter, let isFirst):
      if isFirst { remote.want(id) }
      interruption.onCancel { self.cancelListWait(id, waiter) }
    }
  }

  private func cancelListWait(_ id: ItemID, _ waiter: UInt64) {
    let found = locked { state -> Folder.ListWaiter? in
      guard let folder = state.items[id]?.folder,
        let index = folder.listWaiters.firstIndex(where: { $0.id == waiter })
      else { return nil }
      return folder.listWaiters.remove(at: index)
    }
    found?.finish(.EINTR)
  }

  private func finishListing(_ id: ItemID, _ errno: Errno?) {
    let waiters = locked { state -> [Folder.ListWaiter] in
      state.listing.remove(id)
      guard let folder = state.items[id]?.folder else { return [] }
      folder.isListing = false
      defer { folder.listWaiters = [] }
      return folder.listWaiters
    }
    for waiter in waiters { waiter.finish(errno) }
  }

  /// A listing that does not come ends in EIO, whatever the container's thread does.
  func expireListings() {
    let limit = UInt64(configuration.timeo * 1e9)
    let now = Clock.now()
    let expired = locked { state -> [Folder.ListWaiter] in
      var result: [Folder.ListWaiter] = []
      for id in state.listing {
        guard let folder = state.items[id]?.folder else { continue }
        result += folder.listWaiters.filter { now > $0.since &+ limit }
        folder.listWaiters.removeAll { now > $0.since &+ limit }
      }
      return result
    }
    for waiter in expired { waiter.finish(.EIO) }
  }

  /// On a lister's thread. A folder that is just being moved is looked for at its next place, too.
  func listNow(_ id: ItemID, attempt: Int = 1) {
    let path: ContainerPath
    switch performNow({ state throws(Need) in try state.remoteFolderPath(id) }) {
    case .failure(let errno): return finishListing(id, errno == .ESTALE ? .ESTALE : .EIO)
    case .success(let found): path = found
    }
    let since = locked { $0.beginLook() }
    defer { locked { $0.endLook() } }
    let listing: [RemoteItem]
    do throws(ContainerError) {
      // Followed from before it is listed: nothing can slip through in between.
      remote.follow(path)
      listing = try remote.withCall(self) { call throws(ContainerError) in try container.list(path, call) }
      troubles.end(.looking)
    } catch {
      Log.error("listing failed", ["path": path, "error": error.message])
      if error.code != .cancelled, error.code != .notFound { troubles.note(.looking, error.message) }
      if error.code == .unreachable || error.code == .identityMissing { remote.doubtLink(error.message) }
      if error.code == .notFound, attempt < 5, !locked({ $0.isStopping }) {
        remote.look(at: [ChangeHint(folder: path.parent)])
        usleep(200_000)
        return listNow(id, attempt: attempt + 1)
      }
      return finishListing(id, error.code == .permissionDenied ? .EACCES : .EIO)
    }
    let result = performNow { state throws(Need) in try self.takeFirstListing(listing, of: id, since, &state) }
    commit { _ in }
    switch result {
    case .failure(let errno): return finishListing(id, errno)
    case .success(let doubtful): remote.look(at: doubtful.map { ChangeHint(folder: path, name: $0) })
    }
    finishListing(id, nil)
    shrink()
  }

  /// Gives the names that have to be looked at again.
  private func takeFirstListing(
    _ listing: [RemoteItem], of id: ItemID, _ since: UInt64, _ state: inout VolumeState
  ) throws(Need) -> [ItemName] {
    let item = try state.item(id)
    guard let folder = item.folder, !item.isDeleted, !item.isGone else { throw .fail(.ESTALE) }
    guard folder.isLoaded else { throw .children(id) }
    guard !item.record.flags.contains(.listed) else { return [] }
    var doubtful: [ItemName] = []
    var known: [ItemName: ItemID] = [:]
    for child in folder.children.values {
      guard let place = state.items[child]?.record.remote?.place, place.folder == id else { continue }
      known[place.name] = child
    }
    folder.children.reserveCapacity(listing.count)
    for found in listing {
      let place = Place(folder: id, name: found.name)
      if state.isRecalling(place) { continue }
      guard !ReservedName.isParked(place) else { continue }
      guard !state.isTouched(place, since: since) else {
        doubtful.append(found.name)
        continue
      }
      guard known[found.name] == nil, state.vacating[id]?[found.name] == nil, folder.children[found.name] == nil else {
        continue
      }
      _ = state.add(record(found, at: place, &state), to: folder)
    }
    item.record.flags.insert(.listed)
    state.queue(item)
    if state.isPinned(item) { housekeeper.materializePinned() }
    return doubtful
  }

  /// The link is cut, or whole again.
  func setLink(_ link: LinkState) {
    let (changed, isPaused, pending) = locked { state -> (Bool, Bool, [Item]) in
      guard state.link != link else { return (false, false, []) }
      let was = state.link.isConnected
      state.link = link
      guard was != link.isConnected else { return (false, false, []) }
      state.linkSince = Clock.now()
      if link.isConnected { state.epoch += 1 }
      return (true, state.isPaused, state.pending.compactMap { state.items[$0] })
    }
    guard changed else { return }
    if link.isConnected {
      Log.info("connected", ["container": container.url])
      uploader.setPaused(isPaused)
      uploader.retryAll(pending)
      remote.rescan()
    } else {
      uploader.setPaused(true)
      materializer.linkWasCut()
      let waiting = locked { Array($0.listing) }
      for id in waiting { finishListing(id, .EIO) }
    }
  }

  /// `disconnect`: the network to the container is down, until `joinLink`.
  package func cutLink(reason: String) {
    remote.cut()
    setLink(.disconnected(.cloud, reason: reason))
  }

  /// `reconnect`: returns when the container has been asked, and is connected if that went well.
  package func joinLink() {
    guard remote.isCut else { return }
    remote.rejoin(timeout: configuration.timeo)
  }
}
