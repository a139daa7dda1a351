import Containers
import Glibc
import StorageErrors

/// What a step needs, taken under the lock.
struct UploadWork {
  var step: UploadStep
  /// Where the item is at the container, and where it is to be.
  var source: ContainerPath?
  var path: ContainerPath
  var place: Place
  var record: ItemRecord
  var content: Content?
  var revision: Int64
  var attributesRevision: Int64
  var remoteVersion: Version?

  func attributes(_ traits: ContainerTraits) -> RemoteAttributes {
    RemoteAttributes(
      mode: traits.holdsMode ? record.mode : nil, mtime: record.modified,
      xattrs: traits.holdsXattrs ? record.xattrs : nil)
  }
}

extension Volume {
  /// Does one item's steps until nothing of it differs, or it has to wait. On an uploader's thread.
  func upload(_ item: Item) {
    while true {
      switch performNow({ state throws(Need) in try self.beginStep(item, &state) }) {
      case .failure(let errno):
        Log.error("an upload could not be planned", ["item": item.id.rawValue, "error": errno])
        return uploader.retry(item, in: 5)
      case .success(nil): return
      case .success(.some(let work)):
        guard run(work, item) else { return }
      }
    }
  }

  /// nil: nothing to do now.
  private func beginStep(_ item: Item, _ state: inout VolumeState) throws(Need) -> UploadWork? {
    if item.isUploading {
      // Whoever is at it goes on by itself, unless it has to put it off.
      uploader.retry(item, in: 1)
      return nil
    }
    guard state.link.isConnected, !state.isPaused, !state.isStopping else { return nil }
    guard !configuration.readOnly else { return nil }
    let step = try state.plan(item)
    switch step {
    case .settled:
      settleItem(item, &state)
      return nil
    case .discard:
      state.discard(item)
      uploader.wakeParked(behind: item.id)
      commitSoon()
      return nil
    case .blocked(let other):
      uploader.park(item, behind: other)
      return nil
    default: break
    }
    if !item.isDeleted {
      // A conflict needs to know which names are taken.
      let dir = try state.item(item.record.place.folder)
      if let folder = dir.folder, !folder.isLoaded { throw .children(dir.id) }
    }
    if let other = conflictingUpload(item, step, state) {
      uploader.park(item, behind: other)
      return nil
    }
    let record = item.record
    let source = try record.remote.map { remote throws(Need) in try state.remotePath(remote.place) }
    var place = record.place
    if step == .park { place = Self.parkingPlace(item.id) }
    if step == .remove, let remote = record.remote { place = remote.place }
    if step == .recallJob, let job = record.job { place = job.place }
    let path = try state.remotePath(place)
    item.isUploading = true
    state.running[item.id] = place
    return UploadWork(
      step: step, source: source, path: path, place: place, record: record,
      content: record.kind == .file && !item.isDeleted ? state.content(of: item) : nil, revision: item.revision,
      attributesRevision: item.attributesRevision, remoteVersion: record.remote?.version)
  }

  /// An upload that must end first, since one of the two changes the paths of the other.
  private func conflictingUpload(_ item: Item, _ step: UploadStep, _ state: VolumeState) -> ItemID? {
    if let moving = state.movingFolder(item.record.place.folder) { return moving }
    if let remote = item.record.remote, let moving = state.movingFolder(remote.place.folder) { return moving }
    switch step {
    case .put, .makeFolder, .makeSymlink, .rename:
      if let other = state.uploadTo(item.record.place, besides: item.id) { return other }
    default: break
    }
    guard item.record.kind == .folder else { return nil }
    switch step {
    case .rename, .park, .remove: return state.uploadBelow(item.id)
    default: return nil
    }
  }

  /// In the root, where it is in no folder's way; with a number that no other device comes upon.
  private static func parkingPlace(_ id: ItemID) -> Place {
    ReservedName.parking(id)
  }

  /// Commits what is queued without waiting for it.
  func commitSoon() { housekeeper.commitSoon() }

  /// Nothing of the item differs any more.
  private func settleItem(_ item: Item, _ state: inout VolumeState) {
    if item.record.pending != nil || item.record.error != nil {
      state.setPending(item, false)
      state.setError(item, nil)
      item.failures = 0
      state.queue(item)
      commitSoon()
    }
    uploader.wakeParked(behind: item.id)
  }

  /// Whether to go on with the item's next step.
  private func run(_ work: UploadWork, _ item: Item) -> Bool {
    var failure: ContainerError?
    do throws(ContainerError) {
      try perform(work, item)
    } catch {
      failure = error
    }
    // What a failure means is still this upload's: nobody else begins with the item before that is known.
    let goesOn = failure.map { uploadFailed(work, item, $0) } ?? true
    locked { state in
      item.isUploading = false
      state.running[item.id] = nil
      state.touch([work.place] + (work.record.remote.map { [$0.place] } ?? []))
    }
    uploader.wakeParked(behind: item.id)
    guard failure == nil else { return goesOn }
    counters.count(work.step)
    flush()
    if work.record.kind == .folder { followFolder(work) }
    uploader.uploadEnded(item, nil, self)
    return true
  }

  private func followFolder(_ work: UploadWork) {
    switch work.step {
    case .makeFolder: remote.follow(work.path)
    case .rename, .park: if let source = work.source { remote.pathsMoved(from: source, to: work.path) }
    case .remove: if let source = work.source { remote.forgetPaths(under: source) }
    default: break
    }
  }

  private func perform(_ work: UploadWork, _ item: Item) throws(ContainerError) {
    let traits = container.traits
    try uploader.withCall(configuration.timeo) { call throws(ContainerError) in
      switch work.step {
      case .put(let condition): try put(work, item, condition, call)
      case .recallJob: try recallJob(work, item, call)
      case .makeFolder:
        try noteJob(item, work.place, digest: [], size: 0)
        let made = try container.makeFolder(work.path, attributes: work.attributes(traits), call)
        locked { self.uploaded(item, made, work, &$0) }
      case .makeSymlink:
        try noteJob(item, work.place, digest: [], size: 0)
        let made = try container.makeSymlink(
          work.path, target: work.record.target ?? [], attributes: work.attributes(traits), call)
        locked { self.uploaded(item, made, work, &$0) }
      case .rename, .park:
        guard let source = work.source else { return }
        try noteJob(item, work.place, digest: [], size: work.record.size)
        let version = work.record.kind == .folder ? nil : work.remoteVersion
        let moved = try container.rename(source, to: work.path, version: version, call)
        locked { self.uploaded(item, moved, work, &$0) }
      case .setAttributes:
        let version = work.record.kind == .folder ? nil : work.remoteVersion
        let set = try container.setAttributes(work.path, work.attributes(traits), version: version, call)
        locked { self.uploaded(item, set, work, &$0) }
      case .remove:
        let version = work.record.kind == .folder ? nil : work.remoteVersion
        try container.remove(work.path, kind: work.record.kind, version: version, call)
        locked { self.removedRemotely(item, &$0) }
      case .settled, .discard, .blocked: return
      }
    }
  }

  /// Before anything goes out, the journal says what: after a crash it is recognised.
  private func noteJob(_ item: Item, _ place: Place, digest: [UInt8], size: Int64) throws(ContainerError) {
    let outcome = Guarded<Errno??>(nil)
    locked { state in
      item.record.job = UploadJob(place: place, digest: digest, size: size)
      item.jobIsOurs = true
      state.queue(item)
    }
    commit { errno in outcome.signal { $0 = .some(errno) } }
    let errno = outcome.next { $0 } ?? nil
    if let errno { throw ContainerError(.cancelled, "the journal could not be written: \(errno)") }
  }

  // MARK: Files

  private func put(
    _ work: UploadWork, _ item: Item, _ condition: Precondition, _ call: CallContext
  ) throws(ContainerError) {
    guard let content = work.content else { return }
    let isOverdue = locked { _ in
      item.dirtySince != 0 && Clock.now() > item.dirtySince &+ UInt64(configuration.uploadBound * 1e9)
    }
    try settleMappings(content)
    // As long as bytes go out there is progress.
    let snapshot = try ContentSnapshot.take(
      content, store, copies: isOverdue, { call.extend(self.configuration.timeo) }
    ) {
      // A file that is never quiet is uploaded all the same, from a copy.
      isOverdue
        || self.locked { state in
          self.noticeWrites(content, &state)
          return item.revision == work.revision && content.writesInFlight == 0
        }
    }
    let digest = try snapshot.digest(call)
    try noteJob(item, work.place, digest: digest, size: snapshot.size)
    uploader.begin(item.id, snapshot.sending)
    defer { uploader.end(item.id) }
    let published = try container.put(
      work.path, from: snapshot, attributes: work.attributes(container.traits), if: condition, call)
    locked { state in
      state.uploadedBytes += snapshot.size
      self.uploaded(item, published, work, &state)
    }
  }

  /// The container has what `work` set out to bring; what was changed here meanwhile is still to come.
  func uploaded(_ item: Item, _ published: RemoteItem, _ work: UploadWork, _ state: inout VolumeState) {
    let before = item.record.remote
    item.record.remote = RemoteState(
      place: work.place, version: published.version, identity: published.identity, size: published.size)
    item.record.job = nil
    state.setError(item, nil)
    item.record.flags.remove(.remoteNewer)
    item.failures = 0
    state.updateVacating(item, before: before)
    if item.isDeleted || item.isGone { return state.queue(item) }
    if case .put = work.step {
      if let content = item.content { noticeWrites(content, &state) }
      if item.revision == work.revision, item.content?.writesInFlight ?? 0 == 0 {
        state.setDirty(item, false)
        item.dirtySince = 0
      } else {
        item.dirtySince = Clock.now()
      }
    }
    if carriesAttributes(work.step), item.attributesRevision == work.attributesRevision {
      item.record.flags.remove(.attributesDirty)
    }
    item.content?.local.withLock { if $0.version != nil || $0.whole { $0.version = published.version } }
    state.queue(item)
  }

  private func carriesAttributes(_ step: UploadStep) -> Bool {
    switch step {
    case .put, .makeFolder, .makeSymlink, .setAttributes: true
    default: false
    }
  }

  func removedRemotely(_ item: Item, _ state: inout VolumeState) {
    let before = item.record.remote
    item.record.remote = nil
    item.record.job = nil
    state.updateVacating(item, before: before)
    state.discard(item)
  }

  // MARK: After a crash

  /// An upload of the last process: what it set out to bring is there, or it is not. Then it is looked at what
  /// nobody looked at before.
  private func recallJob(_ work: UploadWork, _ item: Item, _ call: CallContext) throws(ContainerError) {
    guard let job = work.record.job else { return }
    let found = try container.item(at: work.path, call)
    let isOurs =
      try found.map { found throws(ContainerError) in
        try matches(found, job, work, path: work.path, call)
      } ?? false
    let isAll = isOurs ? try wasSent(work, job, call) : false
    locked { state in
      if let found, isOurs {
        let before = item.record.remote
        item.record.remote = RemoteState(
          place: job.place, version: found.version, identity: found.identity, size: found.size)
        state.updateVacating(item, before: before)
        item.content?.local.withLock { if $0.version != nil || $0.whole { $0.version = found.version } }
        if isAll, item.revision == work.revision, item.content?.writesInFlight ?? 0 == 0 {
          state.setDirty(item, false)
          item.dirtySince = 0
        }
      }
      item.record.job = nil
      state.recalling[job.place] = nil
      state.queue(item)
    }
    remote.look(at: [ChangeHint(folder: work.path.parent, name: work.path.last)])
  }

  /// Whether the local bytes are those of the job, so that nothing is left to send.
  private func wasSent(_ work: UploadWork, _ job: UploadJob, _ call: CallContext) throws(ContainerError) -> Bool {
    guard let content = work.content, work.record.isDirty, !job.digest.isEmpty else { return false }
    let progress: @Sendable () -> Void = { call.extend(self.configuration.timeo) }
    let snapshot = try ContentSnapshot.take(content, store, copies: false, progress) { true }
    guard snapshot.size == job.size else { return false }
    return try snapshot.digest(call) == job.digest
  }

  /// Whether what is at the container is what a job of ours brought.
  func matches(
    _ found: RemoteItem, _ job: UploadJob, _ work: UploadWork, path: ContainerPath, _ call: CallContext
  ) throws(ContainerError) -> Bool {
    guard found.kind == work.record.kind else { return false }
    switch found.kind {
    case .folder:
      guard let remote = work.record.remote else { return true }
      return remote.identity != nil && remote.identity == found.identity
    case .symlink: return found.target == work.record.target
    case .file:
      if job.digest.isEmpty {
        // A rename: the same file elsewhere.
        guard let remote = work.record.remote, remote.place != job.place else { return false }
        if let identity = remote.identity { return identity == found.identity && found.size == remote.size }
        return found.version == remote.version
      }
      guard found.size == job.size else { return false }
      return try remoteDigest(found, path, call) == job.digest
    }
  }

  func remoteDigest(
    _ found: RemoteItem, _ path: ContainerPath, _ call: CallContext
  ) throws(ContainerError) -> [UInt8] {
    let hash = Digest()
    if found.size > 0 {
      try container.read(path, version: found.version, range: 0..<found.size, call) {
        call.extend(self.configuration.timeo)
        hash.update($0)
      }
    }
    return hash.finish()
  }
}
